//! What comes back of the objects that an owner has rules of feedback for. Kept with the owner: whoever has none pays
//! nothing.

use std::{collections::BTreeMap, sync::Arc};

use vidra_core::{
    feedback::{Extract, Matches, NO_ROOM, Rules},
    mutants::{self, Mutant},
    object::ObjectKey,
};

use super::value_bytes::Share;
use crate::{config::dynamic_settings::FeedbackBounds, desired::Desired};

/// Why a value is not kept for which its own target has room.
const NO_ROOM_IN_HUB: &str = "is not kept: the values of this namespace's VidraTargets, or of all, take as much as the setting feedback.hubMaxBytes allows";

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
    bounds: FeedbackBounds,
    share: Share,
}

impl OwnFeedback {
    /// With what is known of the same rules. `bounds` hold for what it keeps.
    pub(super) fn new(
        rules: Arc<Rules>,
        desired: &Arc<Desired>,
        before: Option<Self>,
        bounds: FeedbackBounds,
        share: Share,
    ) -> Self {
        let matched = rules.matches(desired.objects.keys());
        let before = before.filter(|before| before.rules.digest() == rules.digest());
        let is_smaller = before.as_ref().is_some_and(|before| bounds.hub < before.bounds.hub);
        // Read with other room something else is left out.
        let before = before.filter(|before| before.bounds.target == bounds.target);
        let before = before.map(|before| (before.extracts, before.cut, before.costly));
        let (mut known, mut cut, mut costly) = before.unwrap_or_default();
        let extracts: BTreeMap<_, _> =
            matched.objects.iter().map(|key| (key.clone(), known.remove(key).flatten())).collect();
        cut.retain(|key, _| extracts.contains_key(key));
        costly.retain(|key, _| extracts.contains_key(key));
        let desired = desired.clone();
        let mut own = Self { rules, desired, matched, extracts, cut, costly, is_news: false, bounds, share };
        if is_smaller {
            own.leave_out(NO_ROOM_IN_HUB, |share, size| share.has_room(size, 0, bounds.hub));
        }
        own.cut();
        own
    }

    /// Bytes that values of one object may take.
    pub(super) fn room(&self) -> usize {
        self.bounds.target
    }

    /// Most bytes of values that are kept: twice what a status has room for, so that what is behind it shows as soon as what
    /// is before it shrinks.
    fn kept(&self) -> usize {
        2 * self.bounds.target
    }

    /// Nothing that it is made of has changed.
    pub(super) fn is_of(&self, rules: &Rules, desired: &Arc<Desired>, bounds: FeedbackBounds) -> bool {
        self.rules.digest() == rules.digest() && Arc::ptr_eq(&self.desired, desired) && self.bounds == bounds
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
        let size_now = known.as_ref().map_or(0, Extract::size);
        let unkept = match now.size() {
            size if self.size_before(key) + size > self.kept() => Some(NO_ROOM),
            size if !self.share.has_room(size, size_now, self.bounds.hub) => Some(NO_ROOM_IN_HUB),
            _ => None,
        };
        if let Some(why) = unkept {
            self.cut.insert(key.clone(), now.size());
            now = now.cut(why);
        }
        if known.as_ref() == Some(&now) {
            return false;
        }
        self.extracts.insert(key.clone(), Some(now));
        self.cut();
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
        let kept = self.kept();
        self.leave_out(NO_ROOM, |_, size| size <= kept);
        self.count();
    }

    /// Objects lose their values where there is no room for these and all before them.
    fn leave_out(&mut self, why: &str, has_room: impl Fn(&Share, usize) -> bool) {
        let mut size = 0;
        for key in &self.matched.objects {
            let Some(Some(extract)) = self.extracts.get_mut(key) else { continue };
            if extract.size() > 0 && !has_room(&self.share, size + extract.size()) {
                self.cut.insert(key.clone(), extract.size());
                *extract = std::mem::take(extract).cut(why);
            }
            size += extract.size();
        }
    }

    /// Tells all what its values take.
    fn count(&mut self) {
        let sizes = self.extracts.values().flatten().map(Extract::size);
        self.share.set(sizes.sum());
    }

    /// The object is not, or no more, the owner's.
    pub(super) fn forget(&mut self, key: &ObjectKey) {
        if self.extracts.contains_key(key) {
            self.forget_all(|one| one == key);
        }
    }

    /// These objects are not.
    pub(super) fn forget_all(&mut self, gone: impl Fn(&ObjectKey) -> bool) {
        self.extracts.iter_mut().filter(|(key, _)| gone(key)).for_each(|(_, extract)| *extract = None);
        self.cut.retain(|key, _| !gone(key));
        self.costly.retain(|key, _| !gone(key));
        self.count();
    }

    /// It has not been read, though a rule is about it; or its values were not kept, and there is room by now; or one cost
    /// too much, and older owners ask for something else by now.
    pub(super) fn is_unread(&self, key: &ObjectKey, asked_before: impl FnOnce() -> u64) -> bool {
        self.extracts.get(key).is_some_and(Option::is_none)
            || self.cut.get(key).is_some_and(|size| {
                self.size_before(key) + size <= self.kept() && self.share.has_room(*size, 0, self.bounds.hub)
            })
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
        manifest,
        object::{Gvk, Scope},
        render::{self, HashKey},
    };

    use super::{super::value_bytes::ValueBytes, *};
    use crate::base::interner::Interned;

    fn key(nth: usize) -> ObjectKey {
        ObjectKey::new(&Gvk::new("example.com", "v1", "Gadget"), "shop", &format!("g{nth}"))
    }

    fn given(own: &OwnFeedback, nth: usize, size: usize) -> Extract {
        let live = json!({"status": {"text": "x".repeat(size)}});
        own.rules.extract(&key(nth), &Reading::new(&live), own.room())
    }

    fn gives(own: &mut OwnFeedback, nth: usize, size: usize) -> bool {
        let given = given(own, nth, size);
        own.set(&key(nth), given, || 0)
    }

    /// Rules that are about ten objects, of which nothing was seen.
    fn unread(bounds: FeedbackBounds, all: &ValueBytes, namespace: &str) -> OwnFeedback {
        let rule = FeedbackRule {
            api_version: "example.com/v1".into(),
            kind: "Gadget".into(),
            values: vec![FeedbackExpression { name: "text".into(), expression: "status.text".into() }],
            ..FeedbackRule::default()
        };
        let (rules, _) = Rules::read(&[rule]);
        OwnFeedback::new(Arc::new(rules), &ten(), None, bounds, Share::of(all, &namespace.into()))
    }

    /// What declares the ten.
    fn ten() -> Arc<Desired> {
        let one =
            |nth| format!("---\napiVersion: example.com/v1\nkind: Gadget\nmetadata: {{name: g{nth}}}\n");
        let objects = manifest::parse(&(0..10).map(one).collect::<String>()).unwrap();
        let scope = |_: &Gvk| Some(Scope::Namespaced);
        let rendered = render::render(&objects, &scope, "shop", &HashKey::new([7; 32])).unwrap();
        Arc::new(Desired::new(rendered, &Interned::default()))
    }

    #[test]
    fn the_values_of_all_members_take_no_more_than_the_setting_allows() {
        let (all, bounds) = (ValueBytes::default(), FeedbackBounds { target: 2048, hub: 4000 });
        let [mut first, mut second] = [unread(bounds, &all, "a"), unread(bounds, &all, "b")];
        assert!(gives(&mut first, 0, 900) && gives(&mut second, 0, 900));
        let two = all.all();
        assert!((1800..2000).contains(&two), "{two}");
        second.take().0.for_each(drop);
        assert!(gives(&mut second, 1, 900), "that something is left out is news");
        assert_eq!(all.all(), two);
        let left_out = second.take().0.filter_map(|(key, extract)| Some((key, extract?)));
        let message = gather(left_out, (0, 2048)).message.unwrap_or_default();
        assert!(message.contains("is not kept") && message.contains("feedback.hubMaxBytes"), "{message}");
        assert!(!second.is_unread(&key(1), || 0));
        // In its place one may give as much as before.
        gives(&mut first, 0, 901);
        assert_eq!(all.all(), two + 1);
        // What is gone, in whatever way, leaves room.
        first.forget(&key(0));
        assert!(all.all() < 1000 && second.is_unread(&key(1), || 0));
        gives(&mut second, 1, 900);
        assert!(all.all() > 1800, "{}", all.all());
        drop((first, second));
        assert_eq!(all.all(), 0);
    }

    #[test]
    fn a_smaller_setting_takes_values_from_what_is_kept() {
        let (all, bounds) = (ValueBytes::default(), FeedbackBounds::default());
        let mut own = unread(bounds, &all, "a");
        assert!((0..3).all(|nth| gives(&mut own, nth, 900) || nth > 0));
        assert!(all.all() > 2700);
        let (rules, smaller) = (own.rules.clone(), FeedbackBounds { hub: 2500, ..bounds });
        let mut own = OwnFeedback::new(rules, &ten(), Some(own), smaller, Share::of(&all, &"a".into()));
        assert!((900..1250).contains(&all.all()), "{}", all.all());
        let told = own.take().0.filter_map(|(key, extract)| Some((key, extract?)));
        assert!(gather(told, (0, 2048)).message.is_some_and(|told| told.contains("feedback.hubMaxBytes")));
        assert!(!own.is_unread(&key(1), || 0));
    }

    #[test]
    fn values_beyond_twice_the_room_of_a_status_are_not_kept_whatever_comes_first() {
        let mut own = unread(FeedbackBounds::default(), &ValueBytes::default(), "a");
        let kept = |own: &OwnFeedback| {
            let sizes = own.extracts.values().flatten().map(Extract::size);
            sizes.filter(|size| *size > 0).count()
        };
        // The last comes first.
        for nth in (0..10).rev() {
            assert!(gives(&mut own, nth, 950) || nth < 9, "{nth}");
        }
        assert_eq!(kept(&own), 4);
        assert!(own.size_before(&key(9)) <= own.kept());
        own.take().0.for_each(drop);
        assert!(!gives(&mut own, 9, 940), "what has no room is no news");
        assert!(!own.is_unread(&key(4), || 0));
        assert!(gives(&mut own, 1, 10));
        assert!(own.is_unread(&key(4), || 0) && !own.is_unread(&key(3), || 0), "there is room for it now");
        own.take().0.for_each(drop);
        assert!(gives(&mut own, 4, 900));
        assert_eq!((kept(&own), own.is_unread(&key(4), || 0)), (5, false));
        let (all, beyond) = own.take();
        let told = gather(all.filter_map(|(key, extract)| Some((key, extract?))), (beyond, 2048));
        assert_eq!((told.objects.len(), told.left_out), (2, 8));
    }
}
