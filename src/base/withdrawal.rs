//! Why what was decided before is not sent any more, or its answer not waited for.

use std::fmt;

use super::error::{CallError, Class};

/// Why a leave counts no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Withdrawn {
    /// The session is not open, or was not in between.
    Contact,
    /// The session has ended: the member has other credentials, or none. Unlike all others, this may be said of a call that
    /// was sent.
    Ended,
    /// The VidraTarget says something else, or is another.
    Target,
    /// The member is suspended.
    Suspended,
    /// The Lease was not renewed lately: another process may have it.
    Lease,
    /// What the VidraTarget asks for is not what the VidraResource and the MemberCluster ask for.
    Unwanted,
    /// Another VidraResource has come to declare the object.
    Claimed,
}

impl fmt::Display for Withdrawn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Contact => "contact with the member was lost",
            Self::Ended => "the member's credentials were replaced",
            Self::Target => "something else is wanted now",
            Self::Suspended => "the member is suspended",
            Self::Lease => "the Lease was not renewed lately",
            Self::Unwanted => "it is not wanted any more",
            Self::Claimed => "another VidraResource may declare it now",
        })
    }
}

/// The error of a call that is not sent, or whose answer nobody waits for.
impl From<Withdrawn> for CallError {
    fn from(why: Withdrawn) -> Self {
        Self { class: Class::Withdrawn, message: why.to_string() }
    }
}
