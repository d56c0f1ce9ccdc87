//! The reasons of conditions, of a VidraTarget's state and of Events. The tables of docs/reference say of each what it
//! means and what to do; tests/house.rs checks that each stands there, and that no other does.

use std::fmt;

use vidra_api::VidraTargetStatus;

macro_rules! reasons {
    ($($reason:ident)*) => {
        /// Why something is as it is, in one CamelCase word.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[expect(missing_docs, reason = "docs/reference says what each means")]
        pub enum Reason {
            $($reason),*
        }

        impl Reason {
            /// Each, once.
            pub const ALL: &[Self] = &[$(Self::$reason),*];

            /// The variant's name, which is how the API has it.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$reason => stringify!($reason)),*
                }
            }

            /// The one of this text; `None`: this version knows none.
            pub fn parse(text: &str) -> Option<Self> {
                match text {
                    $(stringify!($reason) => Some(Self::$reason),)*
                    _ => None,
                }
            }
        }
    };
}

reasons! {
    // Of several owners.
    Ready Suspended NamespaceNotAllowed HubFull IgnoreInvalid RemovalHeld Contention WriteRefused HubTooOld
    ResourceMissing IdentityNotConfirmed ObjectUnreadable HubRestored HealthCheckTimeout
    PruneDelayed HandingOver Settling Removing Moving

    // Of a VidraResource.
    Progressing TargetsSuspended TargetsWaiting TargetsFailed MembersUnreachable NoTargets ClusterNotFound
    ManifestInvalid NamespaceFull SourceNotFound SourceInvalid SourceForbidden OverridesInvalid OverrideMatchesNothing
    HealthChecksInvalid HealthRuleDuplicate FeedbackInvalid FeedbackUnmatched
    RevisionRefused TargetRefused Terminating CRDTerminating Settled
    TargetsDrifted InSync NotCompared PathMatchesNothing TargetMatchesNothing Finalizers Nothing

    // Of a VidraTarget.
    ObjectsProgressing WaitingForObject WaitingForWave WaitingForSuspended ObjectTerminating LooksFirst ListFailed
    ObjectFailed ObjectsMissing ImmutableField AlreadyExists ExistingDiffers NotOurs ControlledByOther OwnedByOtherHub
    SharedObjectConflict CannotWatch KindUnknown RevisionUnavailable OverrideFailed HubNamespace InventoryMissing InventoryUnreadable
    MemberUnreachable NoCredentials MemberMissing Removed

    // Of a MemberCluster.
    Accepted SecretMissing KubeconfigMissing KubeconfigInvalid Answers Connecting NotTried Confirmed AnotherCluster

    // Of a call that failed, whoever tells it.
    NoAnswer AnswerTooLarge CredentialsRefused Forbidden NamespaceMissing NamespaceTerminating NotFound NotServed
    Conflict FieldConflict InvalidField Invalid Expired Throttled ServerError Withdrawn

    // Of Events alone.
    TargetReady TargetUnknown TargetRestored DriftDetected DriftCorrected Recreated Adopted AdoptedInPart LeftBehind
    CRDUnreadable IgnoreUnmatched ApprovalIgnored StatusShortened InventoryEntryUnproven MemberClusterRefused
    WatchEventsMissed WatchStalled WatchFloods ListEndless MemberRestored InvalidName AlreadyRegistered
    AllowedNamespacesInvalid LabelsKept SettingInvalid SettingUnknown HealthRuleInvalid HealthRulesChanged
}

impl Reason {
    /// Of a target's status; `None`: it gives none, or one that this version does not know.
    pub fn of(status: &VidraTargetStatus) -> Option<Self> {
        status.reason.as_deref().and_then(Self::parse)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A reason that a status on the hub has. Another version of vidra-hub may have written one that this version does not
/// know: its text is kept, and nothing is decided by it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StatusReason {
    /// One of this version's.
    Known(Reason),
    /// The text of any other.
    Other(String),
}

impl StatusReason {
    /// As the status has it.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Known(reason) => reason.as_str(),
            Self::Other(text) => text,
        }
    }

    /// What may be decided by.
    pub fn known(&self) -> Option<Reason> {
        match self {
            Self::Known(reason) => Some(*reason),
            Self::Other(_) => None,
        }
    }
}

impl From<Reason> for StatusReason {
    fn from(reason: Reason) -> Self {
        Self::Known(reason)
    }
}

impl From<String> for StatusReason {
    fn from(text: String) -> Self {
        Reason::parse(&text).map_or(Self::Other(text), Self::Known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_is_one_word_that_is_read_back() {
        for reason in Reason::ALL {
            let text = reason.to_string();
            assert!(text.chars().all(|c| c.is_ascii_alphabetic()) && text.starts_with(char::is_uppercase));
            assert_eq!(StatusReason::from(text.clone()), StatusReason::Known(*reason), "{text}");
        }
    }

    #[test]
    fn a_reason_of_another_version_is_kept_as_it_is() {
        for text in ["", "ready", "Ready ", "ComesLater"] {
            let reason = StatusReason::from(text.to_owned());
            assert_eq!((reason.as_str(), reason.known()), (text, None));
        }
    }
}
