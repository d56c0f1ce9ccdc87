//! What statuses say: of one target, of a VidraResource over all its targets, and of a member over all on
//! it.
//!
//! A status is a view of facts, made again each time. Nothing in it moves by itself: equal facts give an
//! equal status, so that nothing is written while nothing changes.

mod changes;
mod counts;
mod drifted;
mod progress;
mod reason;
mod removing;
mod resource;
mod target;
mod unproven;
mod unreachable;
mod unready;
mod without_lists;

pub use changes::{Changes, changes};
pub use counts::{CountedState, counted, member_targets};
pub use drifted::{FirstDrift, first_drift};
pub use progress::{Awaited, left};
pub use reason::{Reason, StatusReason};
pub use removing::{Going, going, is_out_of_reach, removing};
pub use resource::{Problem, ResourceFacts, Stall, TargetView, is_held, resource_status};
pub use target::{
    Delivery, TORN_DOWN, TargetFacts, is_revoked, is_torn_down, target_status, tells_other_words,
    tells_the_same,
};
pub use unproven::{KindCount, Unproven, by_kind};
pub use unready::{Unready, failed};
pub use without_lists::WithoutLists;
