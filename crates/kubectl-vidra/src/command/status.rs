//! `kubectl vidra status`.

use vidra_api::{VidraResource, VidraTarget};

use crate::arguments::StatusFlags;
use crate::cluster::{Cluster, Place};
use crate::error::{Failure, READING};
use crate::output::print;
use crate::report::{feedback, status};
use crate::{DONE, Ended};

/// Reads one VidraResource or all, and their targets.
///
/// # Errors
/// They cannot be read, or there is no such VidraResource.
pub async fn run(place: &Place, flags: &StatusFlags) -> Ended {
    let hub = Cluster::hub(place).await?;
    let (resources, fields) = match &flags.name {
        Some(name) => (vec![resource(&hub, name).await?], format!("spec.resource={name}")),
        None => (hub.list(&hub.api(flags.all_namespaces), "").await?, String::new()),
    };
    let targets: Vec<VidraTarget> = hub.list(&hub.api(flags.all_namespaces), &fields).await?;
    if resources.is_empty() && targets.is_empty() {
        hub.check_place(flags.all_namespaces, None).await?;
        let place = if flags.all_namespaces {
            "any namespace".to_owned()
        } else {
            format!("namespace {}", hub.namespace)
        };
        print(&format!("No VidraResources in {place}.\n"))?;
        return Ok(DONE);
    }
    // With a name there is one.
    let rules = resources.first().map_or(&[][..], |resource| &resource.spec.status_feedback);
    if flags.values {
        print(&feedback::values(rules, &targets, crate::now()))?;
        return Ok(DONE);
    }
    if let Some(value) = &flags.by {
        print(&feedback::by(rules, &targets, value, crate::now()).map_err(Failure::Input)?)?;
        return Ok(DONE);
    }
    print(&status::text(&resources, &targets, flags.name.is_some(), crate::now()))?;
    Ok(DONE)
}

/// A VidraResource that must be there.
///
/// # Errors
/// It cannot be read, or is not there.
pub async fn resource(hub: &Cluster, name: &str) -> Result<VidraResource, Failure> {
    let found = hub.find(&hub.api(false), name, READING).await?;
    found.ok_or_else(|| Failure::NotFound {
        what: format!("VidraResource {name} in namespace {}", hub.namespace),
        hint: "see `kubectl get vr -A`, and choose its namespace with -n".to_owned(),
    })
}
