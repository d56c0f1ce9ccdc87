//! Mistakes put in on purpose, that the simulation must notice. A test chooses one for its own thread, on which a
//! whole run of the simulation happens. They are there where debug assertions are; in a release no mistake can be
//! chosen, and the compiler drops what it would do.

#[cfg(debug_assertions)]
use std::cell::Cell;

/// A mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// A list on the hub that fails is taken for an empty one.
    DeleteOnFailedList,
    /// Nothing guards that an object which is written to is the one that was looked at.
    NoUidPrecondition,
    /// The resource loop writes VidraTargets' statuses too.
    SecondStatusWriter,
    /// What a relist shows wakes nobody.
    EventsLostAtRelist,
    /// Ready is written before anything is applied.
    ReadyBeforeApplied,
    /// An object that others made is taken over, whether that is asked for or not.
    AdoptUnasked,
    /// An object that is to be kept is deleted all the same.
    PruneKept,
    /// Drift that is only to be told is undone at the next look, such as that of the interval.
    ReportRepairs,
    /// An apply to a live object writes what is to be left to others.
    WriteIgnored,
    /// A plan names no objects for the inventory before they are made.
    NoIntent,
    /// A plan deletes Namespaces and CRDs as it deletes ConfigMaps, with what is in them.
    DeleteContainers,
    /// A change of the declaration is not applied.
    ChangeSkipped,
    /// What arrives for a key while it is worked on is forgotten.
    ArrivalLost,
}

impl Mutant {
    /// Each.
    pub const ALL: [Mutant; 13] = [
        Mutant::DeleteOnFailedList,
        Mutant::NoUidPrecondition,
        Mutant::SecondStatusWriter,
        Mutant::EventsLostAtRelist,
        Mutant::ReadyBeforeApplied,
        Mutant::AdoptUnasked,
        Mutant::PruneKept,
        Mutant::ReportRepairs,
        Mutant::WriteIgnored,
        Mutant::NoIntent,
        Mutant::DeleteContainers,
        Mutant::ChangeSkipped,
        Mutant::ArrivalLost,
    ];
}

#[cfg(debug_assertions)]
thread_local! {
    static CHOSEN: Cell<Option<Mutant>> = const { Cell::new(None) };
}

/// From now on a hub on this thread makes this mistake, or with `None` none.
#[cfg(debug_assertions)]
pub fn choose(mutant: Option<Mutant>) {
    CHOSEN.set(mutant);
}

/// Is this the mistake to be made?
#[cfg(debug_assertions)]
pub fn is(mutant: Mutant) -> bool {
    CHOSEN.get() == Some(mutant)
}

/// Never.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub const fn is(_: Mutant) -> bool {
    false
}
