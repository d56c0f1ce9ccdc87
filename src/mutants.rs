//! Mistakes that the simulation must notice. A test chooses one for its own thread, on which a whole run of
//! the simulation happens. Compiled in only where `VIDRA_MUTANTS` is set (build.rs), as the chores of the
//! simulation do, and never into a release.

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
}

impl Mutant {
    /// Each.
    pub const ALL: [Mutant; 9] = [
        Mutant::DeleteOnFailedList,
        Mutant::NoUidPrecondition,
        Mutant::SecondStatusWriter,
        Mutant::EventsLostAtRelist,
        Mutant::ReadyBeforeApplied,
        Mutant::AdoptUnasked,
        Mutant::PruneKept,
        Mutant::ReportRepairs,
        Mutant::WriteIgnored,
    ];
}

thread_local! {
    static CHOSEN: Cell<Option<Mutant>> = const { Cell::new(None) };
}

/// From now on a hub on this thread makes this mistake, or with `None` none.
pub fn choose(mutant: Option<Mutant>) {
    CHOSEN.set(mutant);
}

/// Is this the mistake to be made?
pub fn is(mutant: Mutant) -> bool {
    CHOSEN.get() == Some(mutant)
}
