//! `kubectl vidra clusters`.

use kube::Api;
use vidra_api::MemberCluster;

use crate::arguments::{ClustersFlags, Width};
use crate::cluster::{Cluster, Place};
use crate::output::print;
use crate::report::clusters;
use crate::{DONE, Ended};

/// Lists the members.
///
/// # Errors
/// They cannot be listed.
pub async fn run(place: &Place, flags: &ClustersFlags) -> Ended {
    let hub = Cluster::hub(place).await?;
    let members: Vec<MemberCluster> = hub.list(&Api::all(hub.client.clone()), "").await?;
    print(&clusters::text(&members, flags.output == Width::Wide, crate::now()))?;
    Ok(DONE)
}
