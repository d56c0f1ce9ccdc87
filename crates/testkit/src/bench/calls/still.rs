//! What costs nothing although the hub looks at it all the time: an object that two VidraResources declare, and
//! replicas that an autoscaler sets.

use anyhow::Result;
use serde_json::{Value, json};

use super::{Bench, config_maps, deployment};
use crate::{
    bench::{
        fleet::{NAMESPACE, resource},
        ledger,
        report::Report,
    },
    world::At,
};

/// Each VidraResource is compared every second.
fn every_second() -> Value {
    json!({"interval": "1s"})
}

/// A Deployment, with or without a number of replicas.
fn scaled(name: &str, replicas: Option<u32>) -> String {
    let mut object: Value = serde_json::from_str(&deployment(name)).unwrap_or_default();
    object["spec"]["replicas"] = json!(replicas);
    if replicas.is_none() {
        object["spec"].as_object_mut().map(|spec| spec.remove("replicas"));
    }
    object.to_string()
}

impl Bench<'_> {
    /// Two VidraResources that declare the same objects. Beside [`Bench::idle`]'s, which is compared too.
    pub(super) async fn idle_shared(&self, report: &mut Report) -> Result<()> {
        tracing::info!("waiting while two VidraResources share objects");
        let manifest = config_maps("shared", "as declared");
        for owner in ["one-owner", "other-owner"] {
            let spec = json!({"reconcile": every_second()});
            self.apply(resource(owner, &manifest, spec)).await?;
            self.ready(owner).await?;
        }
        let seen = self.through_intervals(3, async |_| Ok(())).await?;
        report.condition("at the member, two owners idle", json!(ledger::sorts(&seen)));
        report.figure(
            "idle_shared",
            seen.len() as f64,
            Some(0.0),
            "... while two VidraResources share its objects",
        );
        Ok(())
    }

    /// An autoscaler sets the replicas of one Deployment that declares none, and of one where they are ignored.
    pub(super) async fn scaled(&self, report: &mut Report) -> Result<()> {
        tracing::info!("scaling as an autoscaler does");
        let ignored = json!({"yield": "None",
            "ignore": [{"target": {"kind": "Deployment"}, "paths": [".spec.replicas"]}]});
        let all = [("undeclared", None, json!({})), ("ignored", Some(1), ignored)];
        for (name, replicas, drift) in &all {
            let spec = json!({"reconcile": every_second(), "drift": drift});
            self.apply(resource(name, &scaled(name, *replicas), spec)).await?;
            self.run_pods(name, 1).await?;
            self.ready(name).await?;
        }
        let seen = self
            .through_intervals(5, async |round| {
                let replicas = 2 + (round % 3) as u32;
                for (name, _, _) in &all {
                    self.admin.scale(&At::new("apps/v1", "Deployment", NAMESPACE, name), replicas).await;
                }
                Ok(())
            })
            .await?;
        report.condition("at the member, scaling", json!(ledger::sorts(&seen)));
        report.figure(
            "scaled",
            seen.len() as f64,
            Some(0.0),
            "... while an autoscaler sets replicas that are not declared, or ignored",
        );
        Ok(())
    }
}
