//! testkit

pub mod memory;
