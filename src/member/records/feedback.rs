//! What comes back of the objects that an owner has rules of feedback for. Kept with the owner: whoever has none pays
//! nothing.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use vidra_core::{
    feedback::{Extract, Matches, NO_ROOM, Rules},
    mutants::{self, Mutant},
    object::ObjectKey,
};

use crate::{config::dynamic_settings::FeedbackBounds, desired::Desired};

/// Why a value is not kept for which its own target has room.
const NO_ROOM_IN_HUB: &str =
    "is not kept: the values of all VidraTargets take as much as the setting feedback.hubMaxBytes allows";

/// Bytes that the values of all members take, in the process.
#[derive(Clone, Debug, Default)]
pub struct ValueBytes(Arc<AtomicUsize>);

/// What an owner's values take of them.
struct Share {
    all: ValueBytes,
    bytes: usize,
}

impl Share {
    fn of(all: &ValueBytes) -> Self {
        Self { all: all.clone(), bytes: 0 }
    }

    fn set(&mut self, bytes: usize) {
        self.all.0.fetch_add(bytes, Ordering::Relaxed);
        self.all.0.fetch_sub(self.bytes, Ordering::Relaxed);
        self.bytes = bytes;
    }

    /// There is room for so many bytes in place of those `before`.
    fn has_room(&self, bytes: usize, before: usize, most: usize) -> bool {
        let taken = self.all.0.load(Ordering::Relaxed);
        taken.saturating_sub(before) + bytes <= most || mutants::is(Mutant::ValuesFillTheHub)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.set(0);
    }
}

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
    /// With what is known of the same rules. `bounds` hold for what it keeps; `all`: what all keep.
    pub(super) fn new(
        rules: Arc<Rules>,
        desired: &Arc<Desired>,
        before: Option<Self>,
        (bounds, all): (FeedbackBounds, &ValueBytes),
    ) -> Self {
        let matched = rules.matches(desired.objects.keys());
        let before = before.filter(|before| before.rules.digest() == rules.digest());
        // Read with other room something else is left out.
        let before = before.filter(|before| before.bounds.target == bounds.target);
        let before = before.map(|before| (before.extracts, before.cut, before.costly));
        let (mut known, mut cut, mut costly) = before.unwrap_or_default();
        let extracts: BTreeMap<_, _> =
            matched.objects.iter().map(|key| (key.clone(), known.remove(key).flatten())).collect();
        cut.retain(|key, _| extracts.contains_key(key));
        costly.retain(|key, _| extracts.contains_key(key));
        let (share, desired) = (Share::of(all), desired.clone());
        let mut own = Self { rules, desired, matched, extracts, cut, costly, is_news: false, bounds, share };
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
        let (mut size, kept) = (0, self.kept());
        for key in &self.matched.objects {
            let Some(Some(extract)) = self.extracts.get_mut(key) else { continue };
            if size + extract.size() > kept {
                self.cut.insert(key.clone(), extract.size());
                *extract = std::mem::take(extract).cut(NO_ROOM);
            }
            size += extract.size();
        }
        self.count();
    }

    /// Tells all what its values take.
    fn count(&mut self) {
        let sizes = self.extracts.values().flatten().map(Extract::size);
        self.share.set(sizes.sum());
    }

    /// The object is not, or no more, the owner's.
    pub(super) fn forget(&mut self, key: &ObjectKey) {
        if let Some(known) = self.extracts.get_mut(key) {
            *known = None;
            self.cut.remove(key);
            self.costly.remove(key);
            self.count();
        }
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
        object::Gvk,
    };

    use super::*;

    fn key(nth: usize) -> ObjectKey {
        ObjectKey::new(&Gvk::new("example.com", "v1", "Gadget"), "shop", &format!("g{nth}"))
    }

    fn given(own: &OwnFeedback, nth: usize, size: usize) -> Extract {
        own.rules
            .extract(&key(nth), &Reading::new(&json!({"status": {"text": "x".repeat(size)}}), own.room()))
    }

    fn gives(own: &mut OwnFeedback, nth: usize, size: usize) -> bool {
        let given = given(own, nth, size);
        own.set(&key(nth), given, || 0)
    }

    /// Rules that are about ten objects, of which nothing was seen.
    fn unread(bounds: FeedbackBounds, all: &ValueBytes) -> OwnFeedback {
        let rule = FeedbackRule {
            api_version: "example.com/v1".into(),
            kind: "Gadget".into(),
            values: vec![FeedbackExpression { name: "text".into(), expression: "status.text".into() }],
            ..FeedbackRule::default()
        };
        let (rules, _) = Rules::read(&[rule]);
        let mut own = OwnFeedback::new(Arc::new(rules), &Arc::default(), None, (bounds, all));
        own.matched = own.rules.matches((0..10).map(key).collect::<Vec<_>>().iter());
        own.extracts = own.matched.objects.iter().map(|key| (key.clone(), None)).collect();
        own
    }

    fn taken(all: &ValueBytes) -> usize {
        all.0.load(Ordering::Relaxed)
    }

    #[test]
    fn the_values_of_all_members_take_no_more_than_the_setting_allows() {
        let (all, bounds) = (ValueBytes::default(), FeedbackBounds { target: 2048, hub: 2500 });
        let [mut first, mut second] = [unread(bounds, &all), unread(bounds, &all)];
        assert!(gives(&mut first, 0, 900) && gives(&mut second, 0, 900));
        let two = taken(&all);
        assert!((1800..2000).contains(&two), "{two}");
        second.take().0.for_each(drop);
        assert!(gives(&mut second, 1, 900), "that something is left out is news");
        assert_eq!(taken(&all), two);
        let left_out = second.take().0.filter_map(|(key, extract)| Some((key, extract?)));
        let message = gather(left_out, (0, 2048)).message.unwrap_or_default();
        assert!(message.contains("is not kept") && message.contains("feedback.hubMaxBytes"), "{message}");
        assert!(!second.is_unread(&key(1), || 0));
        // In its place one may give as much as before.
        gives(&mut first, 0, 901);
        assert_eq!(taken(&all), two + 1);
        // What is gone, in whatever way, leaves room.
        first.forget(&key(0));
        assert!(taken(&all) < 1000 && second.is_unread(&key(1), || 0));
        gives(&mut second, 1, 900);
        assert!(taken(&all) > 1800, "{}", taken(&all));
        drop((first, second));
        assert_eq!(taken(&all), 0);
    }

    #[test]
    fn values_beyond_twice_the_room_of_a_status_are_not_kept_whatever_comes_first() {
        let mut own = unread(FeedbackBounds::default(), &ValueBytes::default());
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
