//! What one who applies is asked to send, what may be answered, and how an apply ends.

use std::time::Duration;

use serde_json::Value;

use crate::{fields::OtherVersion, uid::Uid};

/// What to do next: notes first, then one act.
#[derive(Debug, PartialEq)]
pub struct Step<E> {
    /// What the cache of objects is to learn, in this order.
    pub notes: Vec<Note>,
    /// What to send, or how the apply ended.
    pub act: Act<E>,
}

impl<E> From<Act<E>> for Step<E> {
    fn from(act: Act<E>) -> Self {
        Self { notes: Vec::new(), act }
    }
}

impl<E> Step<E> {
    /// After this note.
    pub(super) fn after(mut self, note: impl Into<Option<Note>>) -> Self {
        self.notes.splice(..0, note.into());
        self
    }
}

/// What the cache of objects is to learn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// The object as it was read.
    Ingest,
    /// The object with this uid is not there any more, or is not seen.
    Forget(Uid),
    /// A read did not find the object with this uid.
    Vanished(Uid),
    /// The object is there without the label by which the hub sees it.
    Hidden,
    /// The object has the name, and is left as it is.
    Present,
    /// The object as it was read differs from what is declared, and cannot be changed.
    Immutable,
}

/// One call to the member, but for [`Act::Ingest`] and [`Act::End`].
#[derive(Debug, PartialEq)]
pub enum Act<E> {
    /// Read the object: [`Answer::Read`].
    Read,
    /// Apply this body, which the server refuses if something bears the name: [`Answer::Applied`]. A namespace that is
    /// missing is created, where it may be.
    Create(Value),
    /// Apply this body: [`Answer::Applied`].
    Apply {
        /// What to send.
        body: Value,
        /// Take fields from other managers.
        force: bool,
    },
    /// Apply as a dry run: [`Answer::DryRun`].
    DryRun {
        /// What to send.
        body: Value,
        /// Take fields from other managers.
        force: bool,
    },
    /// A forced dry run of this body says what an apply would change of the object; that is remembered:
    /// [`Answer::Compared`].
    Compare(Value),
    /// The cache learns the object as it was read, before the next step is decided: [`Answer::Ingested`].
    Ingest,
    /// Merge this patch into the object: [`Answer::Rewritten`].
    Rewrite(Value),
    /// A dry run says whether this body could be created, if nothing bore the name: [`Answer::Creatable`].
    DryRunCreate(Value),
    /// Delete exactly the object, for it cannot be changed: [`Answer::Deleted`].
    Delete {
        /// The fields that cannot be changed.
        fields: Vec<String>,
    },
    /// The apply has ended.
    End(End<E>),
}

/// What came back.
#[derive(Debug)]
pub enum Answer<E> {
    /// The object, if there is one.
    Read(Option<Value>),
    /// It was written, and has this uid.
    Applied(Uid),
    /// What an apply would leave.
    DryRun(Value),
    /// What an apply would do. `None`: the object was changed since it was read.
    Compared(Option<Comparison>),
    /// The cache has it.
    Ingested,
    /// The object as it is after the patch.
    Rewritten(Value),
    /// Whether the server would create it.
    Creatable(bool),
    /// It is deleted. `true`: it goes when its finalizers have run.
    Deleted {
        /// Its finalizers have not run yet.
        is_terminating: bool,
    },
    /// The call failed.
    Failed(Failure<E>),
}

/// What an apply would do to what was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// Nothing.
    Equal,
    /// The values stay, and some of them that only another VidraResource holds now would be this one's too: else they go
    /// with that one.
    Own,
    /// Values change.
    Differs,
}

/// A failed call: how it is to be taken, and the error itself.
#[derive(Clone, Debug)]
pub struct Failure<E> {
    /// What the API server said.
    pub kind: FailureKind,
    /// Another try may succeed without anything being changed by a person.
    pub is_transient: bool,
    /// Handed back as it is.
    pub error: E,
}

/// What an API server said, as far as steps depend on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// Others hold these fields with other values (409 with causes).
    FieldConflict(Vec<String>),
    /// A precondition does not hold, or the name is taken (any other 409).
    Conflict,
    /// It is not there, or its kind is not served (404).
    NotFound,
    /// The namespace of an object that is created is not there (404).
    NamespaceMissing,
    /// These fields make the object, or the change of it, invalid (422 with causes).
    InvalidFields(Vec<String>),
    /// What was sent is not valid (any other 400 or 422).
    Invalid,
    /// Anything else: says nothing of the object.
    Other,
}

impl FailureKind {
    /// Something bears the name: a server looks at the managers of fields before it looks at the resourceVersion.
    pub(super) fn is_conflict(&self) -> bool {
        matches!(self, Self::Conflict | Self::FieldConflict(_))
    }
}

/// How an apply ended.
#[derive(Debug, PartialEq)]
pub enum End<E> {
    /// The object is as declared.
    Applied {
        /// Its uid.
        uid: Uid,
        /// Drift was corrected.
        corrected: bool,
    },
    /// It was deleted and created again.
    Recreated {
        /// Its new uid.
        uid: Uid,
        /// The fields that could not be changed.
        fields: Vec<String>,
    },
    /// It was others', and is ours and as declared.
    Adopted {
        /// Its uid.
        uid: Uid,
        /// What earlier appliers keep of it.
        other_versions: Vec<OtherVersion>,
    },
    /// It was deleted to be created again, and goes when its finalizers have run.
    Leaving,
    /// It is wanted only where there is none, and there is one.
    Present,
    /// An object of its name is being deleted.
    InTheWay,
    /// It was looked at; what was found is in the cache.
    Seen,
    /// There is nothing to apply.
    Gone,
    /// Writes of the process that led before may take effect for this long: nothing is deleted until then.
    TooEarly(Duration),
    /// A person must decide.
    Refused(Refusal<E>),
    /// Look again: the member may answer otherwise next time.
    Retry(Retry),
    /// This call failed.
    Failed(E),
}

/// Why an apply was given up, and is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// Another object bears the name.
    Replaced,
    /// Another object bears the name, or none does.
    GoneOrReplaced,
    /// It was created again and again by somebody else.
    ReplacedAgain,
    /// The name was taken, and is free.
    CameAndWent,
    /// The name is free, and was taken when it was to be created.
    ComesAndGoes,
    /// It was changed between each read and the apply after it.
    ChangesAgain,
    /// It was changed between the read and the dry run after it.
    ChangedMeanwhile,
    /// The VidraResource that it was another's has released it.
    Released,
    /// The hub's entry in its managedFields is gone, and the inventory does not have its uid yet.
    LostEntry,
    /// What was answered is not what was asked.
    Unanswered,
}

/// What a person must decide. Paths are as the API server writes them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal<E> {
    /// A controller in the member makes the object.
    Controlled,
    /// It exists, and is not to be adopted.
    Exists,
    /// It exists, and an apply would change these.
    Differs(Vec<String>),
    /// It is of another hub.
    OtherHub {
        /// That hub, as the label has it.
        hub: String,
    },
    /// Others hold fields that are not to be taken from them.
    FieldConflict {
        /// Each manager, with what it holds. None: nobody knows who.
        holders: Vec<(String, Vec<String>)>,
        /// All the fields.
        contested: Vec<String>,
    },
    /// Another VidraResource declares the object otherwise, and comes first.
    Shared {
        /// Its field manager.
        holder: String,
        /// In what.
        what: Disagreement<E>,
    },
    /// Fields cannot be changed on a live object, and it is not deleted for them.
    Immutable {
        /// The fields.
        fields: Vec<String>,
        /// The server's refusal.
        error: E,
        /// Why it is not deleted.
        obstacle: Obstacle,
    },
}

/// In what two VidraResources disagree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Disagreement<E> {
    /// As the server said.
    Fields(E),
    /// An apply would change what is at these paths.
    Values(Vec<String>),
}

/// Why an object is not deleted to be created again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// Nothing proves that it is the hub's.
    Unproved,
    /// It must stay, for this.
    MustStay(&'static str),
    /// The manifest does not ask for it.
    NotAsked,
    /// Others have it too.
    NotAlone,
}
