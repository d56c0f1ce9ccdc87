//! `kubectl vidra join`: what a person would do with clusters/member-kinds.yaml, kubeconfig.sh and
//! registration.yaml, looked at first, and safe to do again.

use vidra_api::ClusterName;
use vidra_api::labels::{LEFT_AT, REGISTRATION_LABEL};
use vidra_core::duration::told;
use vidra_core::kubeconfig::{self, Allow};

use super::{member, registration, registration::Registration};
use crate::arguments::JoinFlags;
use crate::cluster::{Cluster, Place};
use crate::error::Failure;
use crate::output::{Progress, complain};
use crate::{DONE, Ended, OTHERWISE};

/// Makes the ServiceAccount in the member and the Secret on the hub, and waits until the member is Ready.
///
/// # Errors
/// Something is refused, or would overwrite what is not a registration of this member.
pub async fn run(place: &Place, flags: &JoinFlags) -> Ended {
    let name = flags.name.as_str();
    ClusterName::try_from(name)
        .map_err(|error| Failure::Input(format!("{name:?} cannot be a member's name: {error}")))?;
    if flags.labels.iter().any(|(key, _)| key == REGISTRATION_LABEL) {
        return Err(Failure::Input(format!(
            "the label {REGISTRATION_LABEL} is the registration itself; choose another one"
        )));
    }
    let rights = member::rights(&flags.rights)?;
    let hub = Cluster::hub(place).await?;
    let joining = Cluster::member(Some(&flags.member_kubeconfig), flags.member_context.as_deref()).await?;
    let progress = Progress::new();
    progress.say("looking at both clusters");
    let uid = member::uid(&joining).await?;
    let registration = registration::check(&hub, &flags.hub_namespace, name, &uid).await?;
    let secret = format!("Secret {}/{}", registration.secret.namespace, registration.secret.name);
    may_join(&registration, &secret, flags)?;
    let server = flags.server.as_deref();
    // Before anything is written, unless only the token comes with a CA.
    let known = !joining.ca.is_empty();
    if !known && joining.unverified {
        return Err(Failure::Input(format!(
            "the kubeconfig does not verify {} (insecure-skip-tls-verify), so what that says of its CA proves nothing: put its certificate-authority-data into the kubeconfig",
            joining.name
        )));
    }
    if known {
        usable(&member::kubeconfig(&joining, server, &member::Token::unknown()))?;
    }
    if flags.dry_run {
        for object in &rights.objects {
            progress.print(&format!("member: {} would be applied", member::name(object)))?;
        }
        let word = if registration.exists { "changed" } else { "made" };
        let address = server.unwrap_or(&joining.url);
        progress.print(&format!("hub: {secret} would be {word}, for {address}"))?;
        return Ok(DONE);
    }
    for object in &rights.objects {
        let done = member::apply(&joining, object).await?;
        progress.print(&format!("member: {} {done}", member::name(object)))?;
    }
    progress.wait_for("the token");
    let token = member::token(&joining, &rights, flags.timeout).await?;
    let kubeconfig = member::kubeconfig(&joining, server, &token);
    if !known {
        usable(&kubeconfig)?;
    }
    registration::write(&hub, &registration, name, flags, &kubeconfig).await?;
    let word = if registration.exists { "applied again" } else { "made" };
    progress.print(&format!("hub: {secret} {word}"))?;
    if registration.left.is_some() {
        progress.print(&format!("hub: {LEFT_AT} taken off {secret}"))?;
    }
    let ready = registration::wait(&hub, name, flags.timeout, &progress).await?;
    if let Err(said) = ready {
        drop(progress);
        complain(&format!("MemberCluster {name}: not Ready within {}: {said}", told(flags.timeout)));
        return Ok(OTHERWISE);
    }
    progress.print(&format!("hub: MemberCluster {name} is Ready"))?;
    Ok(DONE)
}

/// Whether what is there lets the member join as the flags say.
fn may_join(registration: &Registration, secret: &str, flags: &JoinFlags) -> Result<(), Failure> {
    let name = flags.name.as_str();
    if let Some(at) = registration.left.as_ref().filter(|_| !flags.again) {
        return Err(Failure::Input(format!(
            "the {secret} bears {LEFT_AT} ({at}): the member {name} has left, and this Secret registers nothing. Join with --again to take that off; the objects that the hub released there belong to no VidraResource, see spec.conflicts.existing"
        )));
    }
    if registration.is_member && flags.allowed_namespaces.is_some() {
        return Err(Failure::Input(format!(
            "the member {name} is there already, and --allowed-namespaces is for one that is made: change spec.allowedNamespaces of its MemberCluster, or leave the flag out"
        )));
    }
    Ok(())
}

/// Whether the hub will take it; what only a hub for development takes is told.
fn usable(kubeconfig: &str) -> Result<(), Failure> {
    let lenient = Allow { loopback: true, http: true, proxy: false };
    kubeconfig::parse(kubeconfig.as_bytes(), &lenient)
        .map_err(|error| Failure::Input(format!("the hub could not use this member: {error}")))?;
    if let Err(error) = kubeconfig::parse(kubeconfig.as_bytes(), &Allow::default()) {
        complain(&format!("note: a hub refuses this unless its flags allow it: {error}; see --server"));
    }
    Ok(())
}
