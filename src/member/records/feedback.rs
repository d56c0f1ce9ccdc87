//! What comes back of the objects that an owner has rules of feedback for. Kept with the owner: whoever has none pays
//! nothing.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::Value;
use vidra_core::{
    feedback::{Extract, Matches, Rules},
    object::ObjectKey,
};

use crate::desired::Desired;

/// See the module.
pub(super) struct OwnFeedback {
    rules: Arc<Rules>,
    /// What is declared, when `matched` was made.
    desired: Arc<Desired>,
    matched: Matches,
    /// By each matched object what it gave last; `None`: it was not seen since the rules are known.
    extracts: BTreeMap<ObjectKey, Option<Extract>>,
    /// Something has changed since it was asked for last: whoever writes it knows.
    is_news: bool,
}

impl OwnFeedback {
    /// With what is known of the same rules.
    pub(super) fn new(rules: Arc<Rules>, desired: &Arc<Desired>, before: Option<Self>) -> Self {
        let matched = rules.matches(desired.objects.keys());
        let before = before.filter(|before| before.rules.digest() == rules.digest());
        let mut known = before.map(|before| before.extracts).unwrap_or_default();
        let extracts = matched.objects.iter().map(|key| (key.clone(), known.remove(key).flatten())).collect();
        Self { rules, desired: desired.clone(), matched, extracts, is_news: false }
    }

    /// Nothing that it is made of has changed.
    pub(super) fn is_of(&self, rules: &Rules, desired: &Arc<Desired>) -> bool {
        self.rules.digest() == rules.digest() && Arc::ptr_eq(&self.desired, desired)
    }

    pub(super) fn rules(&self) -> &Arc<Rules> {
        &self.rules
    }

    /// Reads a live object that is the owner's; whether its target is to be told.
    pub(super) fn read(&mut self, key: &ObjectKey, live: &Value) -> bool {
        let Some(known) = self.extracts.get_mut(key) else { return false };
        let now = self.rules.extract(key, live);
        if known.as_ref() == Some(&now) {
            return false;
        }
        *known = Some(now);
        !std::mem::replace(&mut self.is_news, true)
    }

    /// The object is not, or no more, the owner's.
    pub(super) fn forget(&mut self, key: &ObjectKey) {
        if let Some(known) = self.extracts.get_mut(key) {
            *known = None;
        }
    }

    /// It has not been read, though a rule is about it.
    pub(super) fn is_unread(&self, key: &ObjectKey) -> bool {
        self.extracts.get(key).is_some_and(Option::is_none)
    }

    /// What each matched object gave, in the order of the rules, and how many more there are. From here on a change is
    /// news again.
    pub(super) fn take(&mut self) -> (impl Iterator<Item = (&ObjectKey, Option<&Extract>)>, usize) {
        self.is_news = false;
        let extracts = &self.extracts;
        let all = self.matched.objects.iter();
        let all = all.map(|key| (key, extracts.get(key).and_then(Option::as_ref)));
        (all, self.matched.beyond)
    }

    /// What was taken is written later, and what changes until then goes along.
    pub(super) fn hold(&mut self) {
        self.is_news = true;
    }
}
