//! Scenarios that only clusters in memory can show: what takes hours or is a matter of a moment, late answers, objects
//! that etcd does not take, watches that lie, webhooks, many targets.

mod clockwork;
mod hurried;
mod late;
mod oversized;
mod patience;
mod restored;
mod returning;
mod slander;
mod watching;
mod webhooks;

use testkit::world::in_memory as scenario;
