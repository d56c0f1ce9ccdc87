//! What is known of an object without a call, as it is when it is asked.

use std::{sync::Arc, time::Duration};

use serde_json::Value;

use crate::{ignore::Exemptions, plan::Live, uid::Uid};

/// Asked while a step is decided; all of it is about the object that is applied.
pub trait Facts: Sync {
    /// The uid under which the cache has it.
    fn uid(&self) -> Option<Uid>;
    /// How the cache has it, for its owner.
    fn view(&self) -> Option<Live>;
    /// Our entry is gone from its managedFields, as far as was seen.
    fn has_lost_entry(&self) -> bool;
    /// A target whose word does not yield to this one's declares it otherwise.
    fn is_outranked(&self) -> bool;
    /// Another VidraResource proves it its own, and declares it otherwise.
    fn is_disputed(&self) -> bool;
    /// What of the target's objects is left alone.
    fn exemptions(&self) -> Arc<Exemptions>;
    /// The resourceVersion under which nobody held what is left to such, in the object with this uid.
    fn unyielded(&self, uid: &Uid) -> Option<String>;
    /// The inventory, as it is written now, has it with this uid.
    fn is_in_inventory(&self, uid: &Uid) -> bool;
    /// What the VidraResource with this field manager declares of it.
    fn other(&self, manager: &str) -> Other;
    /// The hub has a target in this member whose field manager this is.
    fn is_owner(&self, manager: &str) -> bool;
    /// For how long writes of the process that led before may still take effect.
    fn late_writes(&self) -> Option<Duration>;
}

/// What another VidraResource declares of an object, beside this one.
#[derive(Clone, Debug, PartialEq)]
pub enum Other {
    /// Nobody knows: it has not been looked at since the start, or is another hub's.
    Unknown,
    /// Nobody knows, as above; or it has dropped the object, and is of the same namespace.
    Yields,
    /// Something else, or nothing.
    Differs {
        /// What it declares of the object, if anything.
        declared: Option<Arc<Value>>,
        /// It is of the same namespace.
        is_near: bool,
        /// It is the older of the two.
        is_older: bool,
    },
}
