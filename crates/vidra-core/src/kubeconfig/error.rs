//! Why a kubeconfig is refused. Messages name the field and what to do; they never quote a value that is or
//! could be a credential.

use thiserror::Error;

/// Why a kubeconfig is refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum KubeconfigError {
    /// Nothing is in it.
    #[error("the kubeconfig is empty: put the member's kubeconfig into the Secret")]
    Empty,
    /// It is longer than any kubeconfig.
    #[error("the kubeconfig is {bytes} bytes, more than the {limit} that are read: keep one context in it")]
    TooLarge {
        /// The length.
        bytes: usize,
        /// The longest that is read.
        limit: usize,
    },
    /// It is not UTF-8.
    #[error("the kubeconfig is not text: put it into the Secret as it is, encoded once")]
    NotText,
    /// It is neither YAML nor JSON.
    #[error("the kubeconfig cannot be read{}: it must be one document of YAML or JSON", at(.line))]
    Unreadable {
        /// The line, 1 for the first; None when it is not known.
        line: Option<usize>,
    },
    /// It is a document of another kind.
    #[error("this is no kubeconfig: `kind` must be Config")]
    OtherKind,
    /// A field is of another type.
    #[error("{field} of {of} must be {expected}")]
    WrongType {
        /// The field.
        field: &'static str,
        /// What has the field, in words.
        of: String,
        /// What it must be.
        expected: &'static str,
    },
    /// A field that is needed is not there.
    #[error("{field} of {of} is missing: {fix}")]
    Missing {
        /// The field.
        field: &'static str,
        /// What lacks it, in words.
        of: String,
        /// What to do.
        fix: &'static str,
    },
    /// What is referred to by name is not there.
    #[error("{field} names {name:?}, which is not among the {list}: add it, or name another")]
    NotFound {
        /// The field that refers.
        field: &'static str,
        /// The name.
        name: String,
        /// The list that lacks it.
        list: &'static str,
    },
    /// A name stands twice in a list.
    #[error("{name:?} stands twice among the {list}: remove one")]
    Twice {
        /// The name.
        name: String,
        /// The list.
        list: &'static str,
    },
    /// A field that would run code, read files or weaken the connection.
    #[error("{field} of {of} is refused: {fix}")]
    Refused {
        /// The field.
        field: &'static str,
        /// What has the field, in words.
        of: String,
        /// Why, and what to do.
        fix: &'static str,
    },
    /// A URL that cannot be used.
    #[error("{field} of {of} {problem}")]
    Url {
        /// The field.
        field: &'static str,
        /// What has the field, in words.
        of: String,
        /// What is wrong, and what to write.
        problem: &'static str,
    },
    /// A URL that leads to where no member is.
    #[error("{field} of {of} points at {host}, {what}: {fix}")]
    Address {
        /// The field.
        field: &'static str,
        /// What has the field, in words.
        of: String,
        /// The host in the URL.
        host: String,
        /// What kind of address it is.
        what: &'static str,
        /// What to do.
        fix: &'static str,
    },
    /// A certificate or key that cannot be read.
    #[error("{field} of {of} {problem}")]
    Material {
        /// The field.
        field: &'static str,
        /// What has the field, in words.
        of: String,
        /// What is wrong, and what to put there.
        problem: &'static str,
    },
    /// The user has neither certificate nor token.
    #[error("{of} has no credentials: give it client-certificate-data and client-key-data, or a token")]
    NoCredentials {
        /// The user, in words.
        of: String,
    },
}

fn at(line: &Option<usize>) -> String {
    line.map(|line| format!(" at line {line}")).unwrap_or_default()
}
