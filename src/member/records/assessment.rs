//! How a live object is, as rules judge it.

use std::sync::Arc;

use serde_json::Value;
use vidra_core::health::{HealthStatus, facts::Facts, is_done, judge, rules::RuleSet};

/// See the module.
#[derive(Debug)]
pub(super) struct Assessment {
    pub(super) status: HealthStatus,
    /// It is the rules that have changed since it was Current, and not the object: what waits for it goes on.
    pub(super) turned: bool,
    /// See [`is_done`].
    pub(super) done: bool,
    note: Option<Arc<Note>>,
}

/// Why it is not current; for people.
#[derive(Debug)]
struct Note {
    text: String,
    /// See [`vidra_core::health::Verdict::grounds`].
    grounds: u32,
}

impl Assessment {
    pub(super) fn of(live: &Value, rules: &RuleSet) -> Self {
        let verdict = judge(live, rules, &Facts::default());
        let status = verdict.health.status;
        let note = (status != HealthStatus::Current).then(|| {
            let grounds = verdict.grounds(live);
            Arc::new(Note { text: verdict.health.message, grounds })
        });
        Self { status, turned: false, done: is_done(live), note }
    }

    /// After what was judged of the same object before; `same`: of the same version of it. A text that alone is another is
    /// no news.
    pub(super) fn after(mut self, before: Option<&Self>, same: bool) -> Self {
        let Some(before) = before else { return self };
        self.turned = same && self.status != HealthStatus::Current && before.opens();
        let grounds = |judged: &Self| judged.note.as_ref().map(|note| note.grounds);
        if grounds(&self) == grounds(before) {
            self.note = before.note.clone();
        }
        self
    }

    /// What waits for it goes on.
    pub(super) fn opens(&self) -> bool {
        self.status == HealthStatus::Current || self.turned
    }

    pub(super) fn note(&self) -> Option<&str> {
        self.note.as_ref().map(|note| &*note.text)
    }

    /// What a plan or a status says of it.
    pub(super) fn says(&self) -> (HealthStatus, bool, bool, Option<&str>) {
        (self.status, self.turned, self.done, self.note())
    }
}
