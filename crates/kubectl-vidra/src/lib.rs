//! `kubectl vidra`: what the hub knows of its fleet, told to people, with a plain user's rights on the hub.
//!
//! ```text
//! main -> arguments -> command/* (calls) -> report/* (functions of what was answered, and of the time) -> output
//! ```
//! It reads the kinds of vidra.dev, and for `diff -f` what `spec.manifestsFrom` names; `reconcile` sets an annotation,
//! `health` asks a cluster only where it is told
//! to; `join` writes into the member that it is given credentials for, and a registration Secret on the hub. It knows
//! nothing that plain kubectl could not show, and has no credentials of members but those that `join`, `check --members` and `health NAME` find in the user's kubeconfig.

pub mod arguments;
pub mod cluster;
pub mod command;
pub mod error;
pub mod output;
pub mod report;
pub mod table;
pub mod text;

use jiff::Timestamp;

use crate::arguments::{Arguments, Command};
use crate::error::Failure;

/// How a command ended: the exit code.
pub type Ended = Result<u8, Failure>;

/// As it was wished.
pub const DONE: u8 = 0;
/// There is drift, a difference, or not (yet) what was waited for or required.
pub const OTHERWISE: u8 = 1;
/// It could not be done.
pub const FAILED: u8 = 2;

/// Runs a command.
///
/// # Errors
/// It could not be done.
pub async fn run(arguments: Arguments) -> Ended {
    let place = arguments.place();
    match arguments.command {
        Command::Drift(flags) => command::drift::run(&place, &flags).await,
        Command::Status(flags) => command::status::run(&place, &flags).await,
        Command::Diff(flags) => command::diff::run(&place, &flags).await,
        Command::Clusters(flags) => command::clusters::run(&place, &flags).await,
        Command::Reconcile(flags) => command::reconcile::run(&place, &flags).await,
        Command::Health(flags) => command::health::run(&place, &flags).await,
        Command::Check(flags) => command::check::run(&place, &flags).await,
        Command::Join(flags) => command::join::run(&place, &flags).await,
    }
}

/// The wall clock, for ages.
pub(crate) fn now() -> Timestamp {
    #[expect(
        clippy::disallowed_methods,
        reason = "people compare ages with their own clock; reports take it as a value"
    )]
    Timestamp::now()
}
