//! The health rules of a VidraResource, and the messages about those that cannot be used.

use vidra_api::HealthCheckExpr;

use super::{
    rule::RuleText,
    rules::{Origin, Problem, Rules},
};
use crate::first_of::more;

/// Reads them. One that cannot be used is as it was `before`, where it could be then.
pub fn read(written: &[HealthCheckExpr], before: &Rules) -> (Rules, Vec<Problem>) {
    let texts: Vec<RuleText> = written.iter().map(RuleText::from).collect();
    let place = |nth: usize| format!("spec.healthCheckExprs[{nth}]");
    let placed = texts.iter().enumerate().map(|(nth, text)| (place(nth), text));
    Rules::read(Origin::Resource, placed, before)
}

/// What is wrong with them, if something is: the first, and how many more.
pub fn complaint(problems: &[Problem]) -> Option<String> {
    let mut invalid = problems.iter().filter_map(|problem| match problem {
        Problem::Invalid { place, error } => Some((format!("{place}: {error}"), error.meanwhile())),
        Problem::TooMany { place, most } => {
            let why = format!("{place} and what follows are not read; write at most {most} rules");
            Some((why, "until then the others count"))
        }
        Problem::Duplicate { .. } => None,
    });
    let (first, meanwhile) = invalid.next()?;
    let more = more(invalid.count(), |more| format!("; {more} more cannot be used either"));
    Some(format!("{first}{more}; {meanwhile}"))
}

/// Rules that do not count, for another is about the same.
pub fn duplicates(problems: &[Problem]) -> impl Iterator<Item = String> {
    problems.iter().filter_map(|problem| match problem {
        Problem::Duplicate { place, first, scope } => Some(format!(
            "{place} does not count: {first} is about {scope} too, and stands first; remove one of them"
        )),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(kind: &str, current: &str) -> HealthCheckExpr {
        HealthCheckExpr {
            api_version: "example.com/v1".into(),
            kind: Some(kind.into()),
            current: current.into(),
            ..HealthCheckExpr::default()
        }
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place_and_its_column() {
        let (rules, problems) = read(&[rule("Gadget", "true"), rule("Gadget", "false")], &Rules::default());
        assert_eq!((complaint(&problems), rules.scopes().count()), (None, 1));
        let told: Vec<_> = duplicates(&problems).collect();
        assert!(
            told[0].starts_with("spec.healthCheckExprs[1] does not count: spec.healthCheckExprs[0]"),
            "{told:?}"
        );
        let (_, problems) =
            read(&[rule("A", "true"), rule("B", "status."), rule("C", "+")], &Rules::default());
        let told = complaint(&problems).unwrap();
        for words in
            ["spec.healthCheckExprs[1]: health rule example.com/B, current, column 8", "1 more cannot"]
        {
            assert!(told.contains(words), "{told}");
        }
    }
}
