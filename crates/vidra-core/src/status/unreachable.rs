//! How many of a VidraResource's targets may be unreachable while it is Ready.

use vidra_api::{MaxUnreachable, Summary};

use crate::mutants::{self, Mutant};

/// Why targets that cannot be reached do count though some may be unreachable; `None`: none may. As [`excused`] takes them.
pub(super) fn refusal<'c>(
    most: Option<&MaxUnreachable>,
    unknown: impl Iterator<Item = (&'c str, bool)>,
    summary: &Summary,
) -> Option<String> {
    let most = most?.of(summary.targets);
    if summary.unknown > most {
        return Some(format!("; spec.readiness.maxUnreachable allows {most}"));
    }
    let Some(first) = unknown.filter(|(_, had)| !had).map(|(cluster, _)| cluster).min() else {
        let alone = "; spec.readiness.maxUnreachable is for when another member is Ready, and none is";
        return (summary.ready == 0).then(|| alone.to_owned());
    };
    Some(format!(
        "; spec.readiness.maxUnreachable is for members that were Ready with this revision when last seen, which {first} was not"
    ))
}

/// What to say of targets that cannot be reached and do not count; `None`: there are none, or they count. `unknown`: their
/// clusters, and whether what is declared was Ready there before: what was never seen to work is no matter of an outage.
pub(super) fn excused<'c>(
    most: Option<&MaxUnreachable>,
    unknown: impl Iterator<Item = (&'c str, bool)> + Clone,
    summary: &Summary,
) -> Option<String> {
    let most = most?.of(summary.targets);
    let had = |(_, had): (&str, bool)| had || mutants::is(Mutant::UnreachableIsReady);
    // Where nothing can be reached, nothing shows that it works.
    let fits = summary.unknown > 0 && summary.unknown <= most && summary.ready > 0;
    if !fits || !unknown.clone().all(had) {
        return None;
    }
    let first = unknown.map(|(cluster, _)| cluster).min()?;
    Some(format!(
        "{} of {} targets cannot be reached, and spec.readiness.maxUnreachable allows {most}: {first}",
        summary.unknown, summary.targets
    ))
}
