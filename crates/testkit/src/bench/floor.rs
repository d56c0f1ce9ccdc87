//! A bare loop that watches and applies: what the hub is compared with.

use anyhow::Result;
use futures::TryStreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams, WatchEvent},
};

use super::{
    fleet::NAMESPACE,
    watched::{DECLARED, Events, object, value},
};

/// As many as the hub has under way at one member.
pub const IN_FLIGHT: usize = 32;

/// For ever: applies what differs, and creates what is gone.
pub async fn keep(client: Client, owner: &'static str, events: Events) -> Result<()> {
    let undo = |event| {
        let client = client.clone();
        async move {
            match event {
                WatchEvent::Modified(object) if value(&object) != Some(DECLARED) => {
                    put(&client, owner, object.metadata.name.as_deref().unwrap_or_default()).await
                }
                WatchEvent::Deleted(object) => {
                    create(&client, owner, object.metadata.name.as_deref().unwrap_or_default()).await
                }
                _ => Ok(()),
            }
        }
    };
    events.try_for_each_concurrent(IN_FLIGHT, undo).await?;
    Ok(())
}

/// Applies one object of `owner`.
pub async fn put(client: &Client, owner: &str, name: &str) -> kube::Result<()> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    let params = PatchParams::apply(owner).force();
    api.patch(name, &params, &Patch::Apply(object(owner, name))).await?;
    Ok(())
}

async fn create(client: &Client, owner: &str, name: &str) -> kube::Result<()> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    let params = PostParams { field_manager: Some(owner.to_owned()), ..PostParams::default() };
    let declared = serde_json::from_value(object(owner, name)).map_err(kube::Error::SerdeError)?;
    api.create(&params, &declared).await?;
    Ok(())
}
