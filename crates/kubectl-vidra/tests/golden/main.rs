//! What the commands print, held to snapshots: reports of hand-made objects at a fixed time.
//! A change that is meant: `INSTA_UPDATE=always cargo test -p kubectl-vidra --test golden`, and read the difference.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on stops")]

mod differences;
mod feedback;
mod fleet;
mod health;
mod reports;
