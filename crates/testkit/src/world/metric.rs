//! One value of the hub's metrics as they are scraped. A name that the hub does not know is no 0.

/// Not rendered before something is counted: prometheus-client leaves out families of its own that have no values.
const LATE: [&str; 1] = ["workqueue_work_duration_seconds_count"];

/// The value with this name and these labels, as they are written; 0: nothing is counted under them.
///
/// # Panics
/// The hub renders nothing of this name, or gives it other labels.
pub(super) fn value(text: &str, wanted: &str) -> f64 {
    let lines = || text.lines().filter(|line| !line.starts_with('#'));
    let values = || lines().filter_map(|line| line.rsplit_once(' '));
    if let Some((_, value)) = values().find(|(name, _)| name.trim_end_matches("{}") == wanted) {
        return value.parse().unwrap_or_else(|_| panic!("{wanted} is {value:?}, which is no number"));
    }
    let (name, labels) = parts(wanted);
    assert!(is_rendered(text, name) || LATE.contains(&name), "the hub renders no metric {name}:\n{text}");
    for (other, others) in values().map(|(other, _)| parts(other)).filter(|(other, _)| *other == name) {
        assert_eq!(labels, others, "labels of {name}, as they are wanted and as the hub renders {other}");
    }
    0.0
}

/// Is a value of this name rendered where there is one?
fn is_rendered(text: &str, name: &str) -> bool {
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    let mut given = types.filter_map(|(family, kind)| Some((name.strip_prefix(family)?, kind)));
    given.any(|(suffix, kind)| suffixes(kind).contains(&suffix))
}

/// What stands behind the family in the names of its values.
fn suffixes(kind: &str) -> &'static [&'static str] {
    match kind {
        "counter" => &["_total"],
        "histogram" => &["_bucket", "_count", "_sum"],
        _ => &[""],
    }
}

/// A metric's name, and the names of its labels.
fn parts(metric: &str) -> (&str, Vec<&str>) {
    let Some((name, labels)) = metric.split_once('{') else { return (metric, Vec::new()) };
    let labels = labels.trim_end_matches('}').split("\",");
    (name, labels.filter_map(|label| label.split_once('=')).map(|(label, _)| label).collect())
}

#[cfg(test)]
mod tests {
    use super::value;

    const TEXT: &str = "# HELP vidra_contentions Objects.\n# TYPE vidra_contentions gauge\n\
        # HELP vidra_drifted_objects Objects.\n# TYPE vidra_drifted_objects gauge\n\
        vidra_drifted_objects{cluster=\"tokyo\",policy=\"Correct\"} 2\n\
        # HELP workqueue_depth Keys.\n# TYPE workqueue_depth gauge\nworkqueue_depth{} 4\n\
        # HELP vidra_events_failed Events.\n# TYPE vidra_events_failed counter\nvidra_events_failed_total 3\n\
        # HELP vidra_unreadable Objects.\n# TYPE vidra_unreadable gauge\nvidra_unreadable{kind=\"v1 Secret\"} 1\n\
        # EOF\n";

    #[test]
    fn what_is_counted_is_found_by_its_labels_and_what_is_not_counted_yet_is_0() {
        assert_eq!(value(TEXT, "vidra_drifted_objects{cluster=\"tokyo\",policy=\"Correct\"}"), 2.0);
        assert_eq!(value(TEXT, "vidra_drifted_objects{cluster=\"berlin\",policy=\"Report\"}"), 0.0);
        assert_eq!(value(TEXT, "vidra_contentions{cluster=\"tokyo\"}"), 0.0);
        assert_eq!(value(TEXT, "vidra_events_failed_total"), 3.0);
        assert_eq!(value(TEXT, "workqueue_depth"), 4.0);
        assert_eq!(value(TEXT, "vidra_unreadable{kind=\"v1 Secret\"}"), 1.0);
        assert_eq!(value(TEXT, "workqueue_work_duration_seconds_count{name=\"target\"}"), 0.0);
    }

    #[test]
    fn a_name_or_a_label_that_the_hub_does_not_have_is_not_0() {
        for wrong in [
            "vidra_contention{cluster=\"tokyo\"}",
            "vidra_contentions_total{cluster=\"tokyo\"}",
            "vidra_events_failed",
            "vidra_drifted_objects{member=\"tokyo\",policy=\"Correct\"}",
            "vidra_drifted_objects{cluster=\"tokyo\"}",
            "vidra_drifted_objects",
        ] {
            let asked = std::panic::catch_unwind(|| value(TEXT, wrong));
            assert!(asked.is_err(), "{wrong} is {asked:?}");
        }
    }
}
