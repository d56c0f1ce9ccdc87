//! What can go wrong, each in one line: what failed, where, and what to do.

use kube::core::Status;

use crate::text::brief;

/// Longest part of a message that a server wrote.
const SAID_MAX: usize = 600;

/// Why a command could not be done. The process ends with 2.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// No client can be made of the kubeconfig.
    #[error("the kubeconfig of the {role} cannot be used: {why}; see {flags}")]
    Kubeconfig {
        /// hub or member.
        role: &'static str,
        /// Why.
        why: String,
        /// What to change.
        flags: &'static str,
    },
    /// No answer came.
    #[error("cannot {action}: {cluster} does not answer: {why}; see that it runs, and that {flags} name it")]
    NoAnswer {
        /// What was to be done.
        action: String,
        /// Which cluster.
        cluster: String,
        /// Why.
        why: String,
        /// What names it.
        flags: &'static str,
    },
    /// The kinds of the hub are not there.
    #[error(
        "cannot {action}: {cluster} does not serve vidra.dev/v1alpha1; name the hub's context with --context, or install its CRDs: kubectl apply --server-side -f crds/"
    )]
    NotInstalled {
        /// What was to be done.
        action: String,
        /// Which cluster.
        cluster: String,
    },
    /// 401.
    #[error(
        "cannot {action}: {cluster} does not accept your credentials; log in again, or choose others with {flags}"
    )]
    Unauthorized {
        /// What was to be done.
        action: String,
        /// Which cluster.
        cluster: String,
        /// What names it.
        flags: &'static str,
    },
    /// 403.
    #[error("cannot {action}: {why}; ask for the right, {hint}")]
    Forbidden {
        /// What was to be done.
        action: String,
        /// What the server said.
        why: String,
        /// Which role gives it.
        hint: &'static str,
    },
    /// The object is not there.
    #[error("{what} does not exist; {hint}")]
    NotFound {
        /// What.
        what: String,
        /// What to do.
        hint: String,
    },
    /// Anything else that a server says.
    #[error("cannot {action}: {cluster} says: {why}")]
    Refused {
        /// What was to be done.
        action: String,
        /// Which cluster.
        cluster: String,
        /// What it said.
        why: String,
    },
    /// What the user gave cannot be used.
    #[error("{0}")]
    Input(String),
    /// The output cannot be written.
    #[error("cannot write the output: {0}")]
    Output(std::io::Error),
    /// Whoever read the output has gone.
    #[error("the reader of the output has gone")]
    Pipe,
}

/// Which rights are to be asked for.
pub const READING: &str = "such as the ClusterRole vidra-view on the hub, or choose the namespace with -n";
/// To see the members, which are in no namespace.
pub const MEMBERS: &str = "by a ClusterRoleBinding to the ClusterRole vidra-members on the hub";
/// To see the health rules of the fleet.
pub const CONFIG_MAPS: &str =
    "list on ConfigMaps in the hub's own namespace, or name that with --hub-namespace";
/// To change VidraResources.
pub const EDITING: &str = "such as the ClusterRole vidra-edit on the hub";
/// To register members.
pub const JOINING: &str = "or have somebody join the member who may do that";

/// What failed, where.
pub struct Doing<'a> {
    /// `list VidraTargets`.
    pub action: &'a str,
    /// `the hub at https://…`.
    pub cluster: &'a str,
    /// Which rights are to be asked for.
    pub rights: &'static str,
    /// What names the cluster on the command line.
    pub flags: &'static str,
}

impl Doing<'_> {
    /// A failed call in a line.
    pub fn failed(&self, error: kube::Error) -> Failure {
        let (action, cluster) = (self.action.to_owned(), self.cluster.to_owned());
        match error {
            kube::Error::Api(status) => self.answered(&status),
            kube::Error::SerdeError(error) => Failure::Refused {
                action,
                cluster,
                why: brief(
                    &format!("what this plug-in cannot read ({error}); use one of the hub's version"),
                    SAID_MAX,
                ),
            },
            error => Failure::NoAnswer { action, cluster, why: cause(&error), flags: self.flags },
        }
    }

    fn answered(&self, status: &Status) -> Failure {
        let (action, cluster) = (self.action.to_owned(), self.cluster.to_owned());
        let why = brief(&status.message, SAID_MAX);
        let names_something = status.details.as_ref().is_some_and(|details| !details.name.is_empty());
        match status.code {
            401 => Failure::Unauthorized { action, cluster, flags: self.flags },
            403 => Failure::Forbidden { action, why, hint: self.rights },
            404 if !names_something => Failure::NotInstalled { action, cluster },
            _ => Failure::Refused { action, cluster, why },
        }
    }
}

/// Whether the server says that this very object is not there.
pub fn is_missing(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404
        && status.details.as_ref().is_some_and(|details| !details.name.is_empty()))
}

/// The innermost cause in a line, without what leads to it.
fn cause(error: &kube::Error) -> String {
    let mut innermost: &dyn std::error::Error = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    brief(&innermost.to_string(), SAID_MAX)
}
