//! What is said: functions of what the hub's API answered and of the time. No I/O.

pub mod change;
pub mod check;
pub mod clusters;
pub mod declared;
pub mod diff;
pub mod drift;
pub mod feedback;
pub mod health;
pub mod pending;
pub mod rules;
pub mod status;
pub mod suggest;
