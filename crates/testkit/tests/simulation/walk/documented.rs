//! The reasons of conditions and Events that docs/reference documents, as marks. They are read from its tables: what is
//! documented is looked for without a second list.

use std::collections::BTreeSet;

use testkit::tables::reasons;

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

/// Each as `KIND:REASON`.
pub fn documented() -> BTreeSet<String> {
    let of = |(kind, page)| reasons(page).into_iter().map(move |reason| format!("{kind}:{reason}"));
    PAGES.into_iter().flat_map(of).collect()
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
