//! `kubectl vidra clusters`.

use kube::Api;
use vidra_api::{MemberCluster, VidraTarget};

use crate::arguments::{ClustersFlags, Width};
use crate::cluster::{Cluster, Place};
use crate::error::Failure;
use crate::output::print;
use crate::report::clusters;
use crate::{DONE, Ended};

/// Lists the members, and all targets that the user may see.
///
/// # Errors
/// They cannot be listed.
pub async fn run(place: &Place, flags: &ClustersFlags) -> Ended {
    let hub = Cluster::hub(place).await?;
    let members: Vec<MemberCluster> = hub.list(&Api::all(hub.client.clone()), "").await?;
    let (targets, note): (Vec<VidraTarget>, _) = match hub.list(&hub.api(true), "").await {
        Ok(targets) => (targets, String::new()),
        Err(Failure::Forbidden { .. }) => {
            let note = format!(
                "TARGETS, FAILED and DRIFTED count those of namespace {} only: you may not list VidraTargets in all namespaces.\n",
                hub.namespace
            );
            (hub.list(&hub.api(false), "").await?, note)
        }
        Err(failure) => return Err(failure),
    };
    let table = clusters::text(&members, &targets, flags.output == Width::Wide, crate::now());
    print(&format!("{table}{note}"))?;
    Ok(DONE)
}
