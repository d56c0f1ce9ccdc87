//! HorizontalPodAutoscalers. They are never Failed: metrics may come later, and the workload that is scaled has a
//! verdict of its own.

use serde_json::Value;

use super::read::condition;
use super::{Basis, Health, Verdict, facts::Facts};

pub(super) fn judge<'r>(live: &Value, facts: &Facts) -> Verdict<'r> {
    let basis = Basis::Builtin;
    match condition(live, "ScalingActive") {
        Some(c) if c.status == "True" => basis.gives(Health::current("Scaling is active")),
        Some(c) if c.status == "False" && c.reason == "ScalingDisabled" => {
            basis.gives(Health::current("Scaling is disabled, since the target has no replicas"))
        }
        _ => match facts.waits.no_metrics.checked_sub(facts.age.unwrap_or(facts.waits.no_metrics)) {
            Some(left) if !left.is_zero() && !facts.was_current => {
                let health =
                    Health::in_progress("ScalingNotActive", "The condition ScalingActive is not True");
                Verdict { ends: Some(left), ..basis.gives(health) }
            }
            _ => {
                let message = "The condition ScalingActive is not True, and no later wave waits for it";
                basis.gives(Health::of(super::HealthStatus::Current, "NoMetrics", message))
            }
        },
    }
}
