//! The reasons of conditions and Events that docs/reference documents, as marks. They are read from its tables: what is
//! documented is looked for without a second list.

use std::collections::BTreeSet;

/// Of what the reasons are that stand in the tables of a page.
const PAGES: [(&str, &str); 5] = [
    ("vidraresources", include_str!("../../../../../docs/reference/conditions-vidraresource.md")),
    ("vidratargets", include_str!("../../../../../docs/reference/conditions-vidratarget.md")),
    ("memberclusters", include_str!("../../../../../docs/reference/conditions-membercluster.md")),
    (CALL, include_str!("../../../../../docs/reference/errors.md")),
    ("event", include_str!("../../../../../docs/reference/events.md")),
];

/// Reasons of calls. They stand with all that [`TELLERS`] names.
pub const CALL: &str = "call";

/// What tells the reason of a call.
pub const TELLERS: [&str; 4] = ["vidraresources", "vidratargets", "memberclusters", "event"];

/// Each as `KIND:REASON`. A cell may have several, between commas; what is a sentence is none.
pub fn documented() -> BTreeSet<String> {
    PAGES
        .iter()
        .flat_map(|(kind, page)| reasons(page).map(move |reason| format!("{kind}:{reason}")))
        .collect()
}

/// What stands in the columns of a page that are named `reason`.
fn reasons(page: &str) -> impl Iterator<Item = String> {
    let mut all = BTreeSet::new();
    // Of the table that the line is in: which of its cells has reasons, if one does.
    let mut table: Option<Option<usize>> = None;
    for line in page.lines() {
        let Some(row) = line.strip_prefix('|') else {
            table = None;
            continue;
        };
        let row = row.replace("\\|", " ");
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        match table {
            None => table = Some(cells.iter().position(|cell| *cell == "reason")),
            Some(None) => {}
            Some(Some(at)) => {
                let cell = cells.get(at).copied().unwrap_or_default().split(',').map(str::trim);
                all.extend(cell.filter(|reason| is_reason(reason)).map(str::to_owned));
            }
        }
    }
    all.into_iter()
}

fn is_reason(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_uppercase())
        && text.chars().all(|one| one.is_ascii_alphabetic())
}

#[test]
fn the_tables_of_the_reference_are_read() {
    let documented = documented();
    for known in [
        "vidraresources:RemovalHeld",
        "vidraresources:Settling",
        "vidraresources:PathMatchesNothing",
        "vidratargets:WaitingForWave",
        "vidratargets:HandingOver",
        "memberclusters:SecretMissing",
        "call:Throttled",
        "event:DriftDetected",
        "event:WatchStalled",
        "event:InvalidName",
        "event:SettingUnknown",
    ] {
        assert!(documented.contains(known), "{known} is documented");
    }
    for none in
        ["memberclusters:True", "vidratargets:Unknown", "vidraresources:VidraTarget", "event:NoAnswer"]
    {
        assert!(!documented.contains(none), "{none} is a word of a sentence");
    }
}
