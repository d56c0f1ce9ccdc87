//! What goes wrong in a run, as replays name it, and how a call fails.

use std::{fmt, time::Duration};

use memkube::{Call, Fault, Verb};

/// Where a life of the hub ends, in calls since [`Observer::arm`](super::Observer::arm).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crash {
    /// The call.
    pub call: usize,
    /// What becomes of it.
    pub effect: Effect,
}

/// What becomes of the last call of a life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing.
    Never,
    /// What was asked, before the life ends; the answer never comes.
    Done,
    /// What was asked, while the next life is at work already.
    Late,
}

impl fmt::Display for Crash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let effect = match self.effect {
            Effect::Never => 'b',
            Effect::Done => 'a',
            Effect::Late => 'l',
        };
        write!(f, "{}{effect}", self.call)
    }
}

/// An event of the hub's watches that is lost, counted since [`Observer::arm`](super::Observer::arm).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// The event; bookmarks do not count.
    pub event: usize,
    /// The next one of the same object too: often it is the one that takes the first back.
    pub next: bool,
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lost{}{}", self.event, if self.next { "n" } else { "" })
    }
}

/// What a new life meets for a while, after one was cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stale {
    /// An API server whose cache stands still: what asks for the latest gets it, a watch shows nothing new.
    Cache,
    /// In members, lists and watches as of before the act, whatever they ask for.
    Members,
}

/// What disturbs a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trouble {
    /// A life of the hub ends at each.
    pub crashes: Vec<Crash>,
    /// An event that the hub's watches do not show. A list brings the truth, after [`BLIND`](super::crash::BLIND).
    pub lost: Option<Lost>,
    /// What the life after a crash sees for [`BLIND`](super::crash::BLIND).
    pub stale: Option<Stale>,
    /// So many lives end at their first call after a write that had an effect.
    pub restless: usize,
}

impl From<&[Crash]> for Trouble {
    fn from(crashes: &[Crash]) -> Self {
        Self { crashes: crashes.to_vec(), ..Self::default() }
    }
}

/// As replays name it.
impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words: Vec<_> = self.crashes.iter().map(ToString::to_string).collect();
        words.extend(self.lost.map(|lost| lost.to_string()));
        words.extend(self.stale.map(|stale| format!("{stale:?}").to_lowercase()));
        words.extend((self.restless > 0).then(|| "restless".to_owned()));
        f.write_str(&words.join(","))
    }
}

impl Trouble {
    /// A restart after each effective write.
    pub fn restless() -> Self {
        Self { restless: LIVES, ..Self::default() }
    }

    /// Reads what a replay names; words that say nothing are passed over.
    pub fn read(text: &str) -> Self {
        let mut trouble = Self::default();
        for word in text.split(',') {
            match word {
                "restless" => trouble.restless = LIVES,
                "cache" => trouble.stale = Some(Stale::Cache),
                "members" => trouble.stale = Some(Stale::Members),
                _ => {
                    let lost = word.strip_prefix("lost").map(|rest| (rest.trim_end_matches('n'), rest));
                    if let Some((event, rest)) = lost {
                        let next = rest.ends_with('n');
                        trouble.lost = event.parse().ok().map(|event| Lost { event, next });
                    } else if let Some((call, moment)) = word.split_at_checked(word.len().saturating_sub(1)) {
                        let effect = match moment {
                            "a" => Some(Effect::Done),
                            "l" => Some(Effect::Late),
                            "b" => Some(Effect::Never),
                            _ => None,
                        };
                        let crash = effect.zip(call.parse().ok());
                        trouble.crashes.extend(crash.map(|(effect, call)| Crash { call, effect }));
                    }
                }
            }
        }
        trouble
    }
}

/// Far more than a scenario has writes.
const LIVES: usize = 200;

/// A write lands seconds later; its caller waits for the answer, or believes the connection broken.
pub(super) fn late_effect(chance: &mut fastrand::Rng) -> Fault {
    let after = Duration::from_secs(chance.u64(1..LANDS_WITHIN.as_secs()));
    if chance.bool() { Fault::LandsLater(after) } else { Fault::DropLandsLater(after) }
}

/// What lands later lands within this.
pub const LANDS_WITHIN: Duration = Duration::from_secs(12);

/// The codes of pages that are nobody's answer.
const PAGES: [u16; 8] = [502, 401, 403, 404, 409, 410, 422, 429];

/// How a call of this kind fails now.
pub(super) fn fault(chance: &mut fastrand::Rng, verb: Verb) -> Fault {
    match chance.u8(..12) {
        0 => Fault::DropBefore,
        1 => Fault::DropAfter,
        2 => Fault::Status(500, "InternalError"),
        3 => Fault::Status(429, "TooManyRequests"),
        4 if matches!(verb, Verb::List | Verb::Watch) => Fault::Status(410, "Expired"),
        4 => Fault::Status(503, "ServiceUnavailable"),
        5 if matches!(verb, Verb::Apply | Verb::Update | Verb::Patch) => Fault::Conflict,
        5 => Fault::Status(504, "Timeout"),
        6 => Fault::HalfBody,
        7 if chance.u8(..4) == 0 => Fault::Unauthorized,
        8 => Fault::Late(Duration::from_secs(chance.u64(1..8))),
        // A load balancer that has lost its server, or a gateway that knows better than the server behind it.
        9 => Fault::Html(PAGES[chance.usize(..PAGES.len())]),
        // A server that gave up waiting for what it had begun.
        10 if chance.bool() => Fault::StatusAfter(504, "Timeout"),
        10 => Fault::StatusAfter(500, "InternalError"),
        _ => Fault::Delay(Duration::from_secs(chance.u64(1..8))),
    }
}

/// Who says so, in plain text.
const NO_PAGE: &str = "404 page not found\n";
/// What nobody delivers, and what the walks' objects are called, of other kinds.
const OTHERS: [(&str, &str); 4] =
    [("endpoints", "a"), ("endpoints", "web"), ("limitranges", "s"), ("namespaces", "nowhere")];

/// Somebody who stands between the hub and a member.
pub struct Between {
    /// The member.
    pub member: String,
    /// He answers all, with the same page of this code; or `None`: one call in three, as chance has it, and who the cluster is the
    /// member tells itself.
    pub all: Option<u16>,
    /// Of what he answers.
    pub chance: fastrand::Rng,
}

impl Between {
    /// What becomes of a call that is not answered by the member.
    pub(super) fn answer(&mut self, call: &Call, is_probe: bool) -> Option<Fault> {
        if *call.cluster != *self.member {
            return None;
        }
        match self.all {
            Some(code) => Some(Fault::Html(code)),
            None if is_probe || self.chance.u8(..3) > 0 => None,
            None => Some(of_another(&mut self.chance, call)),
        }
    }
}

/// An answer that is not the API server's, or not about what was asked. JSON of somebody else's comes with a code of success where
/// one object is asked for.
fn of_another(chance: &mut fastrand::Rng, call: &Call) -> Fault {
    let code = PAGES[chance.usize(..PAGES.len())];
    match chance.u8(..6) {
        0 => Fault::Html(code),
        1 => Fault::Page(404, NO_PAGE),
        2 => Fault::Page(code, "no such upstream\n"),
        3 if !call.name.is_empty() && chance.bool() => Fault::Json(200),
        3 => Fault::Json(404),
        _ => {
            let (plural, name) = OTHERS[chance.usize(..OTHERS.len())];
            Fault::NotFound(plural, name)
        }
    }
}
