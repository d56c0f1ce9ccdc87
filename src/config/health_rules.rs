//! The health rules that hold for all members: the fleet's, and those that the hub ships.

use std::sync::Arc;

use vidra_core::health::{library, rules::RuleSet};

/// What holds now. Reading it is cheap.
#[derive(Debug)]
pub struct HealthRules {
    now: Arc<RuleSet>,
}

impl Default for HealthRules {
    /// Those that the hub ships.
    fn default() -> Self {
        Self { now: Arc::new(library::rule_set()) }
    }
}

impl HealthRules {
    /// What holds now.
    pub fn now(&self) -> Arc<RuleSet> {
        self.now.clone()
    }
}
