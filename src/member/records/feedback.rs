//! What comes back of the objects that an owner has rules of feedback for. Kept with the owner: whoever has none pays
//! nothing.

use std::{collections::BTreeMap, sync::Arc};

use vidra_core::{
    feedback::{Extract, Matches, ROOM, Rules},
    mutants::{self, Mutant},
    object::ObjectKey,
};

use crate::desired::Desired;

/// Most bytes of values that are kept of the objects of an owner: twice what a status has room for, so that what is behind it
/// shows as soon as what is before it shrinks.
const KEPT: usize = 2 * ROOM;

/// An owner's feedback rules, what they match, and the values that came back.
pub(super) struct OwnFeedback {
    rules: Arc<Rules>,
    /// What is declared, when `matched` was made.
    desired: Arc<Desired>,
    matched: Matches,
    /// By each matched object what it gave last; `None`: it was not seen since the rules are known.
    extracts: BTreeMap<ObjectKey, Option<Extract>>,
    /// Those whose values are not kept, and what these take.
    cut: BTreeMap<ObjectKey, usize>,
    /// Those of which values cost too much with what older owners ask, and what these asked: see
    /// [`super::own_values::asked_before`].
    costly: BTreeMap<ObjectKey, u64>,
    /// Something has changed since it was asked for last: whoever writes it knows.
    is_news: bool,
}

impl OwnFeedback {
    /// With what is known of the same rules.
    pub(super) fn new(rules: Arc<Rules>, desired: &Arc<Desired>, before: Option<Self>) -> Self {
        let matched = rules.matches(desired.objects.keys());
        let before = before.filter(|before| before.rules.digest() == rules.digest());
        let before = before.map(|before| (before.extracts, before.cut, before.costly));
        let (mut known, mut cut, mut costly) = before.unwrap_or_default();
        let extracts: BTreeMap<_, _> =
            matched.objects.iter().map(|key| (key.clone(), known.remove(key).flatten())).collect();
        cut.retain(|key, _| extracts.contains_key(key));
        costly.retain(|key, _| extracts.contains_key(key));
        Self { rules, desired: desired.clone(), matched, extracts, cut, costly, is_news: false }
    }

    /// Nothing that it is made of has changed.
    pub(super) fn is_of(&self, rules: &Rules, desired: &Arc<Desired>) -> bool {
        self.rules.digest() == rules.digest() && Arc::ptr_eq(&self.desired, desired)
    }

    pub(super) fn rules(&self) -> &Arc<Rules> {
        &self.rules
    }

    /// Takes what a live object that is the owner's gave by its rules; whether its target is to be told.
    /// `asked_before`: what older owners ask of it.
    pub(super) fn set(
        &mut self,
        key: &ObjectKey,
        mut now: Extract,
        asked_before: impl FnOnce() -> u64,
    ) -> bool {
        let Some(known) = self.extracts.get(key) else { return false };
        self.cut.remove(key);
        match now.is_costly() {
            true => drop(self.costly.insert(key.clone(), asked_before())),
            false => drop(self.costly.remove(key)),
        }
        if self.size_before(key) + now.size() > KEPT {
            self.cut.insert(key.clone(), now.size());
            now = now.cut();
        }
        if known.as_ref() == Some(&now) {
            return false;
        }
        let grows = known.as_ref().map_or(0, Extract::size) < now.size();
        self.extracts.insert(key.clone(), Some(now));
        if grows {
            self.cut();
        }
        !std::mem::replace(&mut self.is_news, true)
    }

    /// A rule is about the object.
    pub(super) fn asks(&self, key: &ObjectKey) -> bool {
        self.extracts.contains_key(key)
    }

    /// What the values of all objects before this one take.
    fn size_before(&self, key: &ObjectKey) -> usize {
        let before = self.matched.objects.iter().take_while(|one| *one != key);
        before.filter_map(|one| self.extracts.get(one)?.as_ref()).map(Extract::size).sum()
    }

    /// Those behind what is kept lose their values: they have no room in the status either.
    fn cut(&mut self) {
        let mut size = 0;
        for key in &self.matched.objects {
            let Some(Some(extract)) = self.extracts.get_mut(key) else { continue };
            if size + extract.size() > KEPT {
                self.cut.insert(key.clone(), extract.size());
                *extract = std::mem::take(extract).cut();
            }
            size += extract.size();
        }
    }

    /// The object is not, or no more, the owner's.
    pub(super) fn forget(&mut self, key: &ObjectKey) {
        if let Some(known) = self.extracts.get_mut(key) {
            *known = None;
            self.cut.remove(key);
            self.costly.remove(key);
        }
    }

    /// It has not been read, though a rule is about it; or its values were not kept, and there is room by now; or one cost
    /// too much, and older owners ask for something else by now.
    pub(super) fn is_unread(&self, key: &ObjectKey, asked_before: impl FnOnce() -> u64) -> bool {
        self.extracts.get(key).is_some_and(Option::is_none)
            || self.cut.get(key).is_some_and(|size| self.size_before(key) + size <= KEPT)
            || self.costly.get(key).is_some_and(|asked| *asked != asked_before())
                && !mutants::is(Mutant::CostlyStays)
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

#[cfg(test)]
mod tests {
    use serde_json::json;
    use vidra_api::{FeedbackExpression, FeedbackRule};
    use vidra_core::{
        feedback::{Reading, gather},
        object::Gvk,
    };

    use super::*;

    fn key(nth: usize) -> ObjectKey {
        ObjectKey::new(&Gvk::new("example.com", "v1", "Gadget"), "shop", &format!("g{nth}"))
    }

    fn given(own: &OwnFeedback, nth: usize, size: usize) -> Extract {
        own.rules.extract(&key(nth), &Reading::new(&json!({"status": {"text": "x".repeat(size)}})))
    }

    fn gives(own: &mut OwnFeedback, nth: usize, size: usize) -> bool {
        let given = given(own, nth, size);
        own.set(&key(nth), given, || 0)
    }

    #[test]
    fn values_beyond_twice_the_room_of_a_status_are_not_kept_whatever_comes_first() {
        let rule = FeedbackRule {
            api_version: "example.com/v1".into(),
            kind: "Gadget".into(),
            values: vec![FeedbackExpression { name: "text".into(), expression: "status.text".into() }],
            ..FeedbackRule::default()
        };
        let (rules, _) = Rules::read(&[rule]);
        let matched = rules.matches((0..10).map(key).collect::<Vec<_>>().iter());
        let extracts = matched.objects.iter().map(|key| (key.clone(), None)).collect();
        let desired = Arc::default();
        let cut = BTreeMap::new();
        let (rules, costly) = (Arc::new(rules), BTreeMap::new());
        let mut own = OwnFeedback { rules, desired, matched, extracts, cut, costly, is_news: false };
        let kept = |own: &OwnFeedback| {
            let sizes = own.extracts.values().flatten().map(Extract::size);
            sizes.filter(|size| *size > 0).count()
        };
        // The last comes first.
        for nth in (0..10).rev() {
            assert!(gives(&mut own, nth, 950) || nth < 9, "{nth}");
        }
        assert_eq!(kept(&own), 4);
        assert!(own.size_before(&key(9)) <= KEPT);
        own.take().0.for_each(drop);
        assert!(!gives(&mut own, 9, 940), "what has no room is no news");
        assert!(!own.is_unread(&key(4), || 0));
        assert!(gives(&mut own, 1, 10));
        assert!(own.is_unread(&key(4), || 0) && !own.is_unread(&key(3), || 0), "there is room for it now");
        own.take().0.for_each(drop);
        assert!(gives(&mut own, 4, 900));
        assert_eq!((kept(&own), own.is_unread(&key(4), || 0)), (5, false));
        let (all, beyond) = own.take();
        let told = gather(all.filter_map(|(key, extract)| Some((key, extract?))), beyond);
        assert_eq!((told.objects.len(), told.left_out), (2, 8));
    }
}
