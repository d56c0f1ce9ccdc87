//! How a live object is, as rules judge it; and how it will be where that ends by itself.

use std::{sync::Arc, time::Duration};

use serde_json::Value;
use tokio::time::Instant;
use vidra_core::{
    health::{
        Basis, HealthStatus, Subject, is_done,
        rules::{Match, RuleSet},
    },
    mutants::{self, Mutant},
};

use super::facts::Circumstances;

/// A verdict on an object's health, and how it ends.
#[derive(Clone, Debug)]
pub(super) struct Assessment {
    pub(super) status: HealthStatus,
    /// It is the rules that have changed since it was Current, and not the object: what waits for it goes on.
    pub(super) turned: bool,
    /// See [`is_done`].
    pub(super) done: bool,
    /// What the CRD of its kind declares may say otherwise, and is not known yet.
    pub(super) unread: bool,
    /// The rule of its kind cannot be used.
    pub(super) unusable: bool,
    /// See [`vidra_core::health::Health::is_suspended`].
    pub(super) suspended: bool,
    /// See [`vidra_core::health::Verdict::is_unproven`].
    pub(super) unproven: bool,
    note: Option<Arc<Note>>,
    wait: Option<Box<Wait>>,
}

/// How an object was told last, for one owner.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Told {
    /// Its target was Ready as it is declared now: what is only waited for takes that from none.
    pub(super) ready: bool,
    /// It had failed: what stands takes no pause to say so again.
    pub(super) failed: bool,
}

/// Why it is not current; for people.
#[derive(Debug)]
struct Note {
    text: String,
    /// See [`vidra_core::health::Verdict::quotes`].
    quotes: bool,
    /// See [`vidra_core::health::Verdict::grounds`].
    grounds: u32,
    /// When a text of these grounds was news last, and whether this one was.
    told: (Instant, bool),
}

/// A text that alone is another is news so long after the last: whoever moves one all the time is not followed.
const TEXT_REST: Duration = Duration::from_secs(60);

impl Note {
    /// What follows this one, where the text is this now, for the same reason.
    fn followed_by(self: &Arc<Self>, text: &str) -> Arc<Self> {
        let (at, is_told) = self.told;
        let rests = at.elapsed() < TEXT_REST;
        if self.text == text && (is_told || rests) {
            return self.clone();
        }
        let told = if rests { (at, false) } else { (Instant::now(), true) };
        Arc::new(Self { text: text.to_owned(), quotes: self.quotes, grounds: self.grounds, told })
    }

    /// What is equal while the text is no news.
    fn mark(&self) -> (u32, Instant) {
        (self.grounds, self.told.0)
    }
}

/// A verdict that ends, for it only waits for what the object may come to say.
#[derive(Clone, Debug)]
struct Wait {
    until: Instant,
    /// From then on, if nothing changes.
    then: Assessment,
    /// For whom it was current before.
    known: Option<Assessment>,
}

impl Assessment {
    pub(super) fn of(live: &Value, rules: &RuleSet, by: &Circumstances) -> Self {
        Self::of_subject(&Subject::new(live, rules), by)
    }

    pub(super) fn of_subject(subject: &Subject<'_, '_>, by: &Circumstances) -> Self {
        let (verdict, live) = (subject.judge(&by.facts), subject.live());
        let status = verdict.health.status;
        // So long as waits are, there are at most three, one after the other.
        let wait = verdict.ends.map(|left| {
            let known = (!by.facts.was_current).then(|| Self::of_subject(subject, &by.of_known()));
            let then = Self::of_subject(subject, &by.later(left));
            Box::new(Wait { until: by.now + left, then, known })
        });
        let unread = match &wait {
            Some(wait) => wait.then.unread,
            None => by.unread && matches!(verdict.basis, Basis::Nothing),
        };
        let unusable = matches!(verdict.basis, Basis::Rule(Match { rule: Err(_), .. }));
        let suspended = verdict.health.is_suspended();
        let unproven = verdict.is_unproven(live, &by.facts);
        let note = (status != HealthStatus::Current).then(|| {
            let (quotes, grounds) = (verdict.quotes(), verdict.grounds(live));
            Arc::new(Note { text: verdict.health.message, quotes, grounds, told: (by.now, true) })
        });
        let (turned, done) = (false, is_done(live));
        Self { status, turned, done, unread, unusable, suspended, unproven, note, wait }
    }

    /// It has not been judged, for this reason.
    pub(super) fn refused(live: &Value, why: &str, now: Instant) -> Self {
        let note = Note { text: why.to_owned(), quotes: false, grounds: 0, told: (now, true) };
        Self {
            status: HealthStatus::Unknown,
            turned: false,
            done: is_done(live),
            unread: false,
            unusable: true,
            suspended: false,
            unproven: false,
            note: Some(Arc::new(note)),
            wait: None,
        }
    }

    /// After what was judged of the same object before; `same`: of the same version of it. A text that alone is another is
    /// news once a minute.
    pub(super) fn after(mut self, before: Option<&Self>, same: bool) -> Self {
        let Some(before) = before else { return self };
        let before = before.at(Instant::now(), Told::default());
        self = self.failing_since(before);
        if same && before.opens() && !before.unread && !mutants::is(Mutant::TurnedCloses) {
            self.set_turned();
        }
        let was_on_its_way = before.status == HealthStatus::InProgress;
        match (&self.note, &before.note) {
            (Some(now), Some(then)) if now.grounds == then.grounds => {
                self.note = Some(then.followed_by(&now.text));
            }
            // What recovers is not told.
            (_, then) if self.is_failing() && was_on_its_way => self.note.clone_from(then),
            _ => {}
        }
        self
    }

    /// This verdict after one that was failed, or was to be at a time: it does not start to wait again.
    fn failing_since(mut self, before: &Self) -> Self {
        match (self.wait.take_if(|wait| wait.then.status == HealthStatus::Failed), before.failing_until()) {
            (None, _) => self,
            (Some(wait), _) if before.status == HealthStatus::Failed => wait.then,
            (wait, None) => Self { wait, ..self },
            (wait, Some(until)) => {
                self.wait = wait;
                self.set_end(until);
                self
            }
        }
    }

    fn set_end(&mut self, until: Instant) {
        if let Some(wait) = &mut self.wait {
            wait.until = until;
            wait.known.iter_mut().for_each(|known| known.set_end(until));
        }
    }

    /// When it has failed, for a rule calls it so by now.
    fn failing_until(&self) -> Option<Instant> {
        let wait = self.wait.as_ref().filter(|wait| wait.then.status == HealthStatus::Failed);
        wait.map(|wait| wait.until)
    }

    fn is_failing(&self) -> bool {
        self.failing_until().is_some()
    }

    fn set_turned(&mut self) {
        // A rule that cannot be used opens nothing, whatever was known before.
        let opens = !self.unusable || mutants::is(Mutant::UnusableOpens);
        self.turned = self.status != HealthStatus::Current && opens;
        if let Some(wait) = &mut self.wait {
            wait.then.set_turned();
            wait.known.iter_mut().for_each(Self::set_turned);
        }
    }

    /// As it is at a time, for whom it was told so.
    pub(super) fn at(&self, now: Instant, told: Told) -> &Self {
        let failed = told.failed && !mutants::is(Mutant::RestartForgetsFailed);
        match self.wait.as_deref() {
            Some(wait) if failed && self.is_failing() => &wait.then,
            Some(Wait { known: Some(known), .. }) if told.ready => known.at(now, told),
            Some(wait) if wait.until <= now => wait.then.at(now, told),
            _ => self,
        }
    }

    /// Of the same version of the object it was said otherwise, and neither time nor its CRD is why.
    pub(super) fn is_turned(&self, before: Option<&Self>) -> bool {
        let before =
            before.map(|before| before.at(Instant::now(), Told::default())).filter(|before| !before.unread);
        before.is_some_and(|before| before.status != self.status)
    }

    /// How long it holds, if nothing changes.
    pub(super) fn ends(&self, now: Instant) -> Option<Duration> {
        self.wait.as_ref().map(|wait| wait.until.saturating_duration_since(now))
    }

    /// It ends by itself.
    pub(super) fn waits(&self) -> bool {
        self.wait.is_some()
    }

    /// What waits for it goes on.
    pub(super) fn opens(&self) -> bool {
        self.status.opens() || self.turned
    }

    pub(super) fn note(&self) -> Option<&str> {
        self.note.as_ref().map(|note| &*note.text)
    }

    /// Its note may repeat what the object says.
    pub(super) fn quotes(&self) -> bool {
        self.note.as_ref().is_some_and(|note| note.quotes)
    }

    /// What its CRD declares is heard in it.
    pub(super) fn set_read(&mut self) {
        self.unread = false;
        if let Some(wait) = &mut self.wait {
            wait.then.set_read();
            wait.known.iter_mut().for_each(Self::set_read);
        }
    }

    /// A plan or a status says something else of it than `before`, or somebody has to read what its CRD declares.
    pub(super) fn is_news(&self, before: &Self) -> bool {
        let now = Instant::now();
        let (now, then) = (self.at(now, Told::default()), before.at(now, Told::default()));
        let mark = |one: &Self| one.note.as_ref().map(|note| note.mark());
        let says = |one: &Self| (one.status, one.turned, one.done, one.suspended, one.unproven, mark(one));
        says(now) != says(then)
            || self.unread && !before.unread
            // Nothing else tells when it has failed.
            || now.is_failing() && !then.is_failing()
    }
}
