//! How objects are by the rules that a VidraResource has of its own. Kept with the owner: whoever has none pays nothing.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use tokio::time::Instant;
use vidra_core::{
    directives::WaitFor,
    drift::Redactions,
    health::{
        HealthStatus,
        rules::{RuleSet, Rules},
    },
    mutants::{self, Mutant},
    object::ObjectKey,
};

use super::assessment::{Assessment, Told};
use crate::{config::dynamic_settings::DynamicSettings, desired::Desired};

/// The note of an object that such a rule is about, and has not judged since the owner is known.
const NOT_JUDGED: &str = "It has not been judged by the health rules of its VidraResource yet";
/// The note of an object of whose kind the CRD is not read yet.
const NOT_READ: &str = "It has not been judged by what its CRD declares yet";

/// The note of an object whose kind holds what must not be written.
pub const WITHHELD: &str =
    "What it says is withheld: the setting redact names its kind; read the object in the member";

/// The notes of objects that are healthy and have not got what `vidra.dev/wait-for` asks for.
const NO_ADDRESS: &str = "It has no address yet, for which its annotation vidra.dev/wait-for asks";
const NOT_COMPLETE: &str = "It has not completed yet, for which its annotation vidra.dev/wait-for asks";

/// How an object is for one owner.
#[derive(Clone, Copy)]
pub(super) struct Standing<'a> {
    pub(super) status: HealthStatus,
    /// What waits for it goes on.
    pub(super) opens: bool,
    /// See [`vidra_core::health::is_done`].
    done: bool,
    /// It is stopped.
    pub(super) suspended: bool,
    /// See [`super::record::Seen::unproven`].
    pub(super) unproven: Option<bool>,
    pub(super) note: Option<&'a str>,
    /// It may repeat what the object says.
    quotes: bool,
    /// How long that holds, if nothing changes.
    pub(super) ends: Option<Duration>,
}

impl<'a> Standing<'a> {
    /// `told`: how the owner's object was told last.
    pub(super) fn of(judged: &'a Assessment, now: Instant, told: Told) -> Self {
        let judged = judged.at(now, told);
        match judged.unread && !told.ready {
            true => Self::not_yet(NOT_READ),
            // A rule that cannot be used takes Ready from none, and opens nothing.
            false if judged.unusable && told.ready && !mutants::is(Mutant::UnusableTakesReady) => Self {
                status: HealthStatus::Current,
                opens: judged.turned,
                done: judged.done,
                unproven: Some(false),
                note: None,
                quotes: false,
                ..Self::not_yet(NOT_JUDGED)
            },
            false => Self {
                status: judged.status,
                opens: judged.opens(),
                done: judged.done,
                suspended: judged.suspended,
                unproven: (!judged.unread).then_some(judged.unproven),
                note: judged.note(),
                quotes: judged.quotes(),
                ends: judged.ends(now),
            },
        }
    }

    /// Nobody has looked yet: for whom it was told to be well, it is, and opens nothing.
    fn not_judged(told: Told) -> Self {
        let not_yet = Self::not_yet(NOT_JUDGED);
        match told.ready && !mutants::is(Mutant::NotJudgedIsNews) {
            true => Self { status: HealthStatus::Current, unproven: Some(false), note: None, ..not_yet },
            false => not_yet,
        }
    }

    fn not_yet(note: &'static str) -> Self {
        Self {
            status: HealthStatus::InProgress,
            opens: false,
            done: false,
            suspended: false,
            unproven: None,
            note: Some(note),
            quotes: false,
            ends: None,
        }
    }

    /// How the object stands, as a status may have it.
    pub(super) fn covered(self, key: &ObjectKey, redactions: &Redactions) -> Self {
        match self.quotes && redactions.protects(&key.group, &key.kind) {
            true => Self { note: Some(WITHHELD), ..self },
            false => self,
        }
    }

    /// How the object stands where this of it is waited for.
    pub(super) fn awaited(self, wait_for: WaitFor) -> Self {
        let missing = match wait_for {
            WaitFor::Nothing => return Self { opens: true, ..self },
            WaitFor::Address if !self.done => NO_ADDRESS,
            WaitFor::Complete if !self.done => NOT_COMPLETE,
            _ => return self,
        };
        match self.status {
            HealthStatus::Current | HealthStatus::Suspended => {
                Self { status: HealthStatus::InProgress, opens: false, note: Some(missing), ..self }
            }
            _ => Self { opens: false, ..self },
        }
    }
}

/// A VidraResource's own health rules, and how its objects are by them.
pub(super) struct OwnHealth {
    rules: Arc<Rules>,
    /// Those that hold for all, what is declared, and the settings, which say what may not be read, when `kinds` was made.
    made_of: (Arc<RuleSet>, Arc<Desired>, Arc<DynamicSettings>),
    /// Declared kinds that its own rules are about, and what the rule says that counts, of what it may read. Where one of
    /// the fleet comes to count in the place of its own, what its own said stands until that one has judged; and what opened
    /// for all did not for it.
    kinds: BTreeMap<(Arc<str>, Arc<str>), u64>,
    /// With what the rule said that judged; `None`: its own was not asked, see [`super::own_verdicts`].
    verdicts: BTreeMap<ObjectKey, (Option<u64>, Assessment)>,
    /// The owner was judged by other rules before: what these say stands until its own have judged.
    inherits: bool,
}

impl OwnHealth {
    /// With the verdicts that there are. `known`: the owner was judged by other rules before.
    pub(super) fn new(
        (rules, settings): (Arc<Rules>, &Arc<DynamicSettings>),
        all: &Arc<RuleSet>,
        desired: &Arc<Desired>,
        (before, known): (Option<Self>, bool),
    ) -> Self {
        let (mut verdicts, inherits) =
            before.map_or((BTreeMap::new(), known), |b| (b.verdicts, b.inherits || known));
        let set = all.with(rules.clone());
        let mut kinds = BTreeMap::new();
        let mut last = None;
        for key in desired.objects.keys() {
            // They stand together, by the order of their keys.
            if last.replace((&key.group, &key.kind)) != Some((&key.group, &key.kind))
                && rules.cover(&key.group, &key.kind)
            {
                let rule = set.fingerprint(&key.group, &key.kind);
                let says = rule ^ settings.redact.mark(&key.group, &key.kind);
                kinds.insert((key.group.clone(), key.kind.clone()), says);
            }
        }
        verdicts.retain(|key, _| {
            desired.objects.contains_key(key) && kinds.contains_key(&(key.group.clone(), key.kind.clone()))
        });
        Self { rules, made_of: (all.clone(), desired.clone(), settings.clone()), kinds, verdicts, inherits }
    }

    /// Nothing that it is made of has changed.
    pub(super) fn is_of(
        &self,
        (rules, settings): (&Arc<Rules>, &DynamicSettings),
        all: &Arc<RuleSet>,
        desired: &Arc<Desired>,
    ) -> bool {
        let (of, declared, known) = &self.made_of;
        self.rules.digest() == rules.digest()
            && Arc::ptr_eq(of, all)
            && Arc::ptr_eq(declared, desired)
            && (known.redact == settings.redact || mutants::is(Mutant::RedactStays))
    }

    pub(super) fn rules(&self) -> &Arc<Rules> {
        &self.rules
    }

    /// What the rule says that an object is judged by, which differs from rule to rule; `None`: its own are not about it.
    pub(super) fn says(&self, key: &ObjectKey) -> Option<u64> {
        self.kinds.get(&(key.group.clone(), key.kind.clone())).copied()
    }

    /// Takes how an object that the owner declares and has a view of is by the rule that `says` so; whether that is news.
    /// `shared`: what was seen of it before, as the rules that hold for all judge it; `same`: this version of it.
    pub(super) fn set(
        &mut self,
        key: &ObjectKey,
        (says, now): (Option<u64>, Assessment),
        (shared, same): (Option<&Assessment>, bool),
    ) -> bool {
        // Where nothing was seen of it before, the verdict is of another one of its name.
        let known = self.verdicts.get(key).map(|(_, judged)| judged).filter(|_| shared.is_some());
        let before = known.or(shared.filter(|_| self.inherits));
        let now = now.after(before, same);
        let is_news = before.is_none_or(|before| now.is_news(before));
        self.verdicts.insert(key.clone(), (says, now));
        is_news
    }

    /// What the CRD of these objects' kind declares is heard in their verdicts.
    pub(super) fn set_read(&mut self, are: impl Fn(&ObjectKey) -> bool) {
        self.verdicts.iter_mut().filter(|(key, _)| are(key)).for_each(|(_, (_, judged))| judged.set_read());
    }

    /// The object is not, or no more, the owner's; whether that is news.
    pub(super) fn forget(&mut self, key: &ObjectKey) -> bool {
        self.verdicts.remove(key).is_some()
    }

    /// How an object of the owner's is, as its own rules say; `None`: they say nothing of it.
    pub(super) fn standing(&self, key: &ObjectKey, now: Instant, told: Told) -> Option<Standing<'_>> {
        self.says(key)?;
        let judged = self.verdicts.get(key).map(|(_, judged)| Standing::of(judged, now, told));
        judged.or_else(|| (!self.inherits).then(|| Standing::not_judged(told)))
    }

    /// What the CRD of its kind declares may contradict what a rule of its own said, and is not known yet.
    pub(super) fn is_unread(&self, key: &ObjectKey) -> bool {
        self.verdicts.get(key).is_some_and(|(_, judged)| judged.unread)
    }

    /// A rule of its own has judged the object.
    pub(super) fn has_judged(&self, key: &ObjectKey) -> bool {
        self.verdicts.contains_key(key)
    }

    /// A rule of its own is about the object, and has not judged it as it is now; `has_room`: it would be asked.
    pub(super) fn is_unjudged(&self, key: &ObjectKey, has_room: impl FnOnce() -> bool) -> bool {
        let Some(says) = self.says(key) else { return false };
        match self.verdicts.get(key) {
            Some((Some(judged_by), _)) => *judged_by != says,
            Some((None, _)) => has_room() && !mutants::is(Mutant::RefusedStays),
            None => true,
        }
    }
}
