//! A revision as Secrets: packed, and cut into several where one cannot hold it. The first of them is named
//! after the revision and says how many there are; it is written last, so that where it is, all are.

use std::{collections::BTreeMap, io::Read};

use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{Api, Resource, ResourceExt};
use vidra_api::{
    VidraResource,
    labels::REVISION_SECRET_TYPE,
    names::{revision_part_name, revision_secret_name},
};

use super::{Content, RevisionError};
use crate::{
    hub::api::{HubApi, REVISION_LABEL},
    workqueue::ResourceKey,
};

const PAYLOAD: &str = "revision.json.zst";
/// How many Secrets hold the revision, as text; only where it is more than one.
const PARTS: &str = "parts";
/// More cannot come of what is read: a manifest is bounded before it is packed.
const PARTS_MAX: usize = 32;
const UNPACKED_MAX: u64 = 64 << 20;

/// The Secrets that keep a revision, in the order in which they are to be written; at most so many bytes in each.
pub(super) fn pack(
    resource: &VidraResource,
    owner: &str,
    content: &Content,
    name: &str,
    part: usize,
) -> Result<Vec<Secret>, RevisionError> {
    let damaged = |why: String| RevisionError::Damaged { name: name.to_owned(), why };
    let json = serde_json::to_vec(content).map_err(|error| damaged(error.to_string()))?;
    let packed = zstd::encode_all(json.as_slice(), zstd::DEFAULT_COMPRESSION_LEVEL)
        .map_err(|error| damaged(error.to_string()))?;
    let pieces: Vec<_> = packed.chunks(part).collect();
    if pieces.len() > PARTS_MAX {
        return Err(RevisionError::TooLarge(packed.len()));
    }
    let secret = |(number, piece): (usize, &&[u8])| {
        let mut data = BTreeMap::from([(PAYLOAD.to_owned(), ByteString(piece.to_vec()))]);
        if number == 0 && pieces.len() > 1 {
            data.insert(PARTS.to_owned(), ByteString(pieces.len().to_string().into_bytes()));
        }
        let mut secret = Secret {
            type_: Some(REVISION_SECRET_TYPE.to_owned()),
            immutable: Some(true),
            data: Some(data),
            ..Secret::default()
        };
        secret.metadata.name = Some(part_name(&resource.name_any(), name, number));
        secret.metadata.namespace = resource.namespace();
        secret.metadata.labels = Some(BTreeMap::from([(REVISION_LABEL.to_owned(), owner.to_owned())]));
        secret.metadata.owner_references =
            resource.controller_owner_ref(&()).map(|reference| vec![reference]);
        secret
    };
    Ok(pieces.iter().enumerate().map(secret).rev().collect())
}

fn part_name(resource: &str, revision: &str, number: usize) -> String {
    match number {
        0 => revision_secret_name(resource, revision),
        number => revision_part_name(resource, revision, number),
    }
}

/// Reads a revision from its Secrets, packed as it is.
pub(super) async fn fetch(api: &HubApi, key: &ResourceKey, revision: &str) -> Result<Vec<u8>, RevisionError> {
    let first = part_name(&key.name, revision, 0);
    let damaged = |why: String| RevisionError::Damaged { name: first.clone(), why };
    let secret = get(api, key, &first).await?;
    let parts = match secret.get(PARTS) {
        None => 1,
        Some(text) => std::str::from_utf8(&text.0)
            .ok()
            .and_then(|text| text.parse().ok())
            .filter(|parts| *parts <= PARTS_MAX)
            .ok_or_else(|| damaged("it does not say how many parts it has".into()))?,
    };
    let mut packed = payload(&secret).map_err(damaged)?.to_vec();
    for number in 1..parts {
        let name = part_name(&key.name, revision, number);
        packed.extend_from_slice(payload(&get(api, key, &name).await?).map_err(damaged)?);
    }
    Ok(packed)
}

/// What was packed.
pub(super) fn open(key: &ResourceKey, revision: &str, packed: &[u8]) -> Result<Content, RevisionError> {
    unpack(packed).map_err(|why| RevisionError::Damaged { name: part_name(&key.name, revision, 0), why })
}

type Data = BTreeMap<String, ByteString>;

async fn get(api: &HubApi, key: &ResourceKey, name: &str) -> Result<Data, RevisionError> {
    let secrets: Api<Secret> = Api::namespaced(api.client.clone(), &key.namespace);
    let secret = api.call("get", secrets.get(name)).await;
    let secret = secret.map_err(|source| RevisionError::Call { name: name.to_owned(), source })?;
    Ok(secret.data.unwrap_or_default())
}

fn payload(data: &Data) -> Result<&[u8], String> {
    data.get(PAYLOAD).map(|bytes| bytes.0.as_slice()).ok_or_else(|| "it has no payload".to_owned())
}

fn unpack(packed: &[u8]) -> Result<Content, String> {
    let mut json = Vec::new();
    zstd::stream::read::Decoder::with_buffer(packed)
        .and_then(|decoder| decoder.take(UNPACKED_MAX).read_to_end(&mut json))
        .map_err(|error| error.to_string())?;
    // serde's words could quote the content.
    serde_json::from_slice(&json).map_err(|_| "its payload is no revision".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hub::sources::Source;
    use serde_json::json;

    fn resource() -> VidraResource {
        let mut resource = VidraResource::new("shop", Default::default());
        resource.metadata.namespace = Some("team".into());
        resource
    }

    fn round_trip(content: &Content) -> Vec<String> {
        let secrets = pack(&resource(), "owner", content, "00ff", 1_000_000).unwrap();
        let pieces = secrets.iter().rev().map(|secret| payload(secret.data.as_ref().unwrap()).unwrap());
        assert_eq!(&unpack(&pieces.collect::<Vec<_>>().concat()).unwrap(), content);
        secrets.iter().map(|secret| secret.metadata.name.clone().unwrap()).collect()
    }

    #[test]
    fn a_revision_is_one_secret_or_several_and_reads_back_the_same() {
        let mut content = Content {
            manifest: "a: 1\n".into(),
            manifests: vec![json!({"kind": "ConfigMap", "n": 1.5}).into()],
            sources: Vec::new(),
            create_namespaces: true,
            overrides: Vec::new(),
        };
        assert_eq!(round_trip(&content), ["shop.00ff"]);
        // Text that does not pack.
        let mut rng = 7u64;
        let mut noise = String::new();
        while noise.len() < 3_000_000 {
            rng = rng.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            noise.push_str(&format!("{rng:016x}"));
        }
        content.sources.push(Source { name: "Secret big, key a".into(), text: noise });
        assert_eq!(round_trip(&content), ["shop.00ff.1", "shop.00ff"], "the first is written last");
    }

    #[test]
    fn a_revision_of_the_first_release_is_still_read() {
        let old = json!({"manifest": "a: 1\n", "createNamespaces": false}).to_string();
        let read =
            unpack(&zstd::encode_all(old.as_bytes(), zstd::DEFAULT_COMPRESSION_LEVEL).unwrap()).unwrap();
        assert_eq!((read.manifest.as_str(), read.create_namespaces), ("a: 1\n", false));
        assert!(read.sources.is_empty() && read.manifests.is_empty());
        // And what such a resource is kept as now is what was kept then.
        assert_eq!(
            serde_json::to_value(&read).unwrap().to_string(),
            json!({"manifest": "a: 1\n", "createNamespaces": false}).to_string()
        );
    }
}
