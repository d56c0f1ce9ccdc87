//! Coverage marks: what a walk has reached of what the hub can say, of the faults, and of the judge's rules. What no walk
//! reaches, no walk tests.

use std::{borrow::Cow, cell::RefCell, collections::BTreeSet};

use serde_json::Value;

/// `KIND:NAME`.
pub type Mark = Cow<'static, str>;

thread_local! {
    /// A walk is one thread.
    static MARKS: RefCell<BTreeSet<Mark>> = const { RefCell::new(BTreeSet::new()) };
}

/// This was reached.
pub fn note(mark: impl Into<Mark>) {
    let mark = mark.into();
    MARKS.with_borrow_mut(|marks| marks.insert(mark));
}

/// What was reached on this thread since this was asked last.
pub fn take() -> BTreeSet<Mark> {
    MARKS.take()
}

/// The reasons that a status tells.
pub fn note_reasons(plural: &str, object: &Value) {
    let status = &object["status"];
    let conditions = status["conditions"].as_array().into_iter().flatten().map(|one| &one["reason"]);
    let reasons = conditions.chain([&status["reason"]]).filter_map(Value::as_str);
    reasons.for_each(|reason| note(format!("{plural}:{reason}")));
}

#[test]
fn marks_are_taken_once() {
    note("rule:a");
    note("rule:a");
    note_reasons(
        "vidratargets",
        &serde_json::json!({"status": {"reason": "Ready", "conditions": [{"reason": "Moving"}]}}),
    );
    assert_eq!(
        take().into_iter().collect::<Vec<_>>(),
        ["rule:a", "vidratargets:Moving", "vidratargets:Ready"]
    );
    assert!(take().is_empty());
}
