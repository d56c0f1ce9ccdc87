//! The members, and how what is delivered to them fares, as the hub has counted it.

use jiff::Timestamp;
use vidra_api::condition::{CREDENTIALS_VALID, IDENTITY_CONFIRMED, REACHABLE, READY};
use vidra_api::{MemberCluster, find};

use crate::table::table;
use crate::text::{age, age_or_dash, brief, command_lines, without_commands};

/// A table of the members.
pub fn text(members: &[MemberCluster], wide: bool, now: Timestamp) -> String {
    if members.is_empty() {
        return "No member clusters. `kubectl vidra join` registers one.\n".to_owned();
    }
    let mut header =
        vec!["NAME", "READY", "REASON", "VERSION", "TARGETS", "FAILED", "DRIFTED", "LAST CONTACT", "AGE"];
    if wide {
        header.extend(["REACHABLE", "CREDENTIALS", "IDENTITY", "LABELS", "MESSAGE"]);
    }
    let mut members: Vec<_> = members.iter().collect();
    members.sort_by_key(|member| member.metadata.name.clone());
    let conditions = members.iter().filter_map(|member| find(&member.status.as_ref()?.conditions, READY));
    let commands =
        conditions.filter(|_| wide).flat_map(|ready| without_commands(&ready.message, &ready.reason, 300).1);
    let commands = command_lines(commands);
    let rows = members.into_iter().map(|member| {
        let name = member.metadata.name.clone().unwrap_or_default();
        let counts = member.status.as_ref().and_then(|status| status.targets).unwrap_or_default();
        let mut row = vec![
            name,
            condition(member, READY),
            found(member, READY, |ready| ready.reason.clone()),
            member.status.as_ref().and_then(|status| status.version.clone()).unwrap_or_default(),
            format!("{}/{}", counts.ready, counts.total),
            counts.failed.to_string(),
            counts.drifted.to_string(),
            contact(member, now),
            age_or_dash(member.metadata.creation_timestamp.as_ref(), now),
        ];
        if wide {
            let labels = member.metadata.labels.iter().flatten();
            row.extend([
                condition(member, REACHABLE),
                condition(member, CREDENTIALS_VALID),
                condition(member, IDENTITY_CONFIRMED),
                labels.map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(","),
                found(member, READY, |ready| without_commands(&ready.message, &ready.reason, 300).0),
            ]);
        }
        row.iter().map(|cell| brief(cell, 400)).collect()
    });
    table(&header, rows) + &commands
}

fn found(member: &MemberCluster, condition: &str, of: impl Fn(&vidra_api::Condition) -> String) -> String {
    let conditions = member.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    find(conditions, condition).map(of).unwrap_or_default()
}

/// True, False or Unknown, and Suspended for Ready where a person stopped it.
fn condition(member: &MemberCluster, condition: &str) -> String {
    let status = found(member, condition, |condition| condition.status.clone());
    match status.as_str() {
        "" => "Unknown".to_owned(),
        _ if condition == READY && member.spec.suspend => format!("{status}, suspended"),
        _ => status,
    }
}

/// `lastContactTime` is set while a member does not answer, and not while there are no credentials to ask it with.
fn contact(member: &MemberCluster, now: Timestamp) -> String {
    let lost = member.status.as_ref().and_then(|status| status.last_contact_time.as_ref());
    match lost {
        Some(lost) => format!("{} ago", age(lost, now)),
        None if found(member, REACHABLE, |reachable| reachable.status.clone()) == "True" => "now".to_owned(),
        None if member.status.as_ref().is_some_and(|status| status.version.is_some()) => "unknown".to_owned(),
        None => "never".to_owned(),
    }
}
