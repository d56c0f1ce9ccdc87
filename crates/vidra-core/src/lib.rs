//! Every decision of the hub, as pure functions: no I/O, no async, no clock, no chance. What they need is
//! handed to them, what they decide is data.

pub mod annotations;
pub mod apply;
pub mod contact;
pub mod contention;
pub mod departure;
pub mod directives;
pub mod drift;
pub mod duration;
pub mod feedback;
pub mod fields;
pub mod first_of;
pub mod guard;
pub mod health;
#[cfg(test)]
mod hostile;
pub mod identity;
pub mod ignore;
pub mod kubeconfig;
pub mod leader_change;
pub mod manifest;
pub mod merge_lookup;
pub mod mutants;
pub mod object;
pub mod overrides;
pub mod owner;
pub mod plan;
pub mod registration_labels;
pub mod render;
pub mod restraint;
pub mod select;
pub mod status;
pub mod uid;
pub mod unseen;
pub mod weight;
