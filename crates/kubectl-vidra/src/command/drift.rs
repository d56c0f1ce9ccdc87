//! `kubectl vidra drift`.

use vidra_api::VidraTarget;

use crate::arguments::{DriftFlags, Format};
use crate::cluster::{Cluster, Place};
use crate::output::print;
use crate::report::drift::Report;
use crate::{DONE, Ended, OTHERWISE, text};

/// Lists the targets, and groups what differs.
///
/// # Errors
/// They cannot be listed.
pub async fn run(place: &Place, flags: &DriftFlags) -> Ended {
    let hub = Cluster::hub(place).await?;
    let fields = flags.cluster.as_ref().map(|name| format!("spec.cluster={name}")).unwrap_or_default();
    let targets: Vec<VidraTarget> = hub.list(&hub.api(flags.all_namespaces), &fields).await?;
    if targets.is_empty() {
        hub.check_place(flags.all_namespaces, flags.cluster.as_deref()).await?;
    }
    let report = Report::of(&targets, flags.corrected);
    let value = || serde_json::to_value(&report).unwrap_or_default();
    print(&match flags.output {
        Format::Table => report.text(false, flags.corrected, crate::now()),
        Format::Wide => report.text(true, flags.corrected, crate::now()),
        Format::Json => text::json(&value()),
        Format::Yaml => text::yaml(&value()),
    })?;
    Ok(if flags.exit_code && report.has_drift() { OTHERWISE } else { DONE })
}
