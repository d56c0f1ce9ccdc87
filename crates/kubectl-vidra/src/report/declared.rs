//! What a VidraResource declares for each cluster, with what its sources hold as far as the user may read them. The
//! scope of a kind is taken from a list, since members are not asked.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use vidra_api::{MemberCluster, VidraResourceSpec};
use vidra_core::annotations;
use vidra_core::manifest::{ManifestError, ManifestObject, Reader};
use vidra_core::object::{Gvk, ObjectKey, Scope};
use vidra_core::overrides::{Cluster, Effective, Overrides};
use vidra_core::render::{Changes, Declared as Rendered, HashKey, render_with};
use vidra_core::select::{Member, Selection, select};

/// The objects of a cluster, or why they cannot be had.
pub type Objects = Result<BTreeMap<ObjectKey, Value>, String>;

/// What is declared.
#[derive(Clone, Debug, Default)]
pub struct Declared {
    /// The namespace on each cluster that is selected.
    pub selection: Selection,
    /// Renderings, each for some clusters.
    pub renderings: Vec<Objects>,
    /// The rendering of each cluster, by its place above.
    pub clusters: BTreeMap<String, usize>,
    /// The clusters that each entry of `spec.overrides` is for.
    pub overridden: BTreeMap<i32, Vec<String>>,
    /// Entries of `spec.overrides` whose target no object is.
    pub unmatched: Vec<usize>,
    /// An annotation that the hub does not know: it refuses this, though what it has delivered stays.
    pub unknown: Option<String>,
}

/// What the sources of a spec hold.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// Each text with where it stood, in words: `ConfigMap shop-crds, key crds.yaml.gz`.
    pub texts: Vec<(String, String)>,
    /// A line for each source that could not be read.
    pub unread: Vec<String>,
}

/// Renders a spec for the members that it selects.
///
/// # Errors
/// The manifest or an override is wrong everywhere, in a sentence.
pub fn declared(
    namespace: &str,
    spec: &VidraResourceSpec,
    sources: &Sources,
    members: &[MemberCluster],
) -> Result<Declared, String> {
    let objects = objects(spec, sources)?;
    if objects.is_empty() && !spec.allow_empty && sources.unread.is_empty() {
        return Err(ManifestError::Empty.to_string());
    }
    let overrides = Overrides::compile(&spec.overrides).map_err(|invalid| invalid.to_string())?;
    let unknown = annotations::check(&objects).err().map(|error| error.to_string());
    let unknown = unknown.or_else(|| overrides.unknown_annotation().map(|invalid| invalid.to_string()));
    let selection = selection(namespace, spec, members);
    let scopes = Scopes::of(&objects);
    let mut declared = Declared { selection, unknown, ..Declared::default() };
    let mut known: BTreeMap<(String, Effective), usize> = BTreeMap::new();
    let no_values = BTreeMap::new();
    for member in members {
        let name = member.metadata.name.as_deref().unwrap_or_default();
        let Some(destination) = declared.selection.targets.get(name) else { continue };
        let labels = member.metadata.labels.as_ref().unwrap_or(&no_values);
        let inputs = overrides.inputs(&Cluster { name, labels, values: &member.spec.values });
        for entry in inputs.iter().flat_map(|inputs| &inputs.apply) {
            declared.overridden.entry(*entry).or_default().push(name.to_owned());
        }
        let effective = overrides.effective(name, inputs.as_ref());
        let place = *known.entry((destination.clone(), effective.clone())).or_insert_with(|| {
            let changes = Changes { overrides: &overrides, effective: &effective, cluster: name };
            let key = HashKey::new([0; 32]);
            let rendered =
                render_with(&objects, &|gvk| Some(scopes.of_kind(gvk)), destination, &key, Some(changes));
            declared.renderings.push(match rendered {
                Ok(rendered) => {
                    let unknown = rendered.unknown.map(|unknown| unknown.to_string());
                    declared.unknown = declared.unknown.take().or(unknown);
                    let objects = rendered.objects.into_iter();
                    Ok(objects.map(|object| (object.key.clone(), with_instructions(&object))).collect())
                }
                Err(error) => Err(error.to_string()),
            });
            declared.renderings.len() - 1
        });
        declared.clusters.insert(name.to_owned(), place);
    }
    let namespaces: BTreeSet<&str> = declared.selection.targets.values().map(String::as_str).collect();
    declared.unmatched = overrides.unmatched(&objects, |namespace| namespaces.contains(namespace));
    Ok(declared)
}

/// What is declared of an object, and with it what its annotations ask of the hub, which are not sent.
fn with_instructions(object: &Rendered) -> Value {
    let mut body = Value::clone(&object.body);
    for (key, word) in object.directives.annotations() {
        body["metadata"]["annotations"][key] = Value::from(word);
    }
    body
}

/// Which members a spec selects.
pub fn selection(namespace: &str, spec: &VidraResourceSpec, members: &[MemberCluster]) -> Selection {
    let no_labels = BTreeMap::new();
    let members: Vec<_> = members
        .iter()
        .map(|member| Member {
            name: member.metadata.name.as_deref().unwrap_or_default(),
            labels: member.metadata.labels.as_ref().unwrap_or(&no_labels),
            allowed_namespaces: member.spec.allowed_namespaces.as_deref(),
            leaving: member.metadata.deletion_timestamp.is_some(),
        })
        .collect();
    select(namespace, &spec.targets, &spec.exclude_clusters, &members)
}

fn objects(spec: &VidraResourceSpec, sources: &Sources) -> Result<Vec<ManifestObject>, String> {
    let mut reader = Reader::default();
    let mut read = || {
        if let Some(text) = &spec.manifest {
            reader.read_text(Some(&"spec.manifest".into()), text)?;
        }
        let inline = "spec.manifests".into();
        for (index, raw) in spec.manifests.iter().enumerate() {
            let value = reader.value(Some(&inline), index + 1, raw.text())?;
            reader.read_value(Some(&inline), index + 1, value)?;
        }
        sources.texts.iter().try_for_each(|(name, text)| reader.read_text(Some(&name.as_str().into()), text))
    };
    read().map_err(|error| error.to_string())?;
    Ok(reader.finish())
}

/// The kinds of Kubernetes that live in no namespace.
const CLUSTER_SCOPED: [(&str, &[&str]); 15] = [
    ("", &["ComponentStatus", "Namespace", "Node", "PersistentVolume"]),
    (
        "admissionregistration.k8s.io",
        &[
            "MutatingAdmissionPolicy",
            "MutatingAdmissionPolicyBinding",
            "MutatingWebhookConfiguration",
            "ValidatingAdmissionPolicy",
            "ValidatingAdmissionPolicyBinding",
            "ValidatingWebhookConfiguration",
        ],
    ),
    ("apiextensions.k8s.io", &["CustomResourceDefinition"]),
    ("apiregistration.k8s.io", &["APIService"]),
    ("certificates.k8s.io", &["CertificateSigningRequest", "ClusterTrustBundle"]),
    ("flowcontrol.apiserver.k8s.io", &["FlowSchema", "PriorityLevelConfiguration"]),
    ("internal.apiserver.k8s.io", &["StorageVersion"]),
    ("networking.k8s.io", &["IPAddress", "IngressClass", "ServiceCIDR"]),
    ("node.k8s.io", &["RuntimeClass"]),
    ("policy", &["PodSecurityPolicy"]),
    ("rbac.authorization.k8s.io", &["ClusterRole", "ClusterRoleBinding"]),
    ("resource.k8s.io", &["DeviceClass", "DeviceTaintRule", "ResourceSlice"]),
    ("scheduling.k8s.io", &["PriorityClass"]),
    (
        "storage.k8s.io",
        &["CSIDriver", "CSINode", "StorageClass", "VolumeAttachment", "VolumeAttributesClass"],
    ),
    ("storagemigration.k8s.io", &["StorageVersionMigration"]),
];

/// Kinds in no namespace that the manifest itself defines, by group and kind.
struct Scopes(Vec<(String, String)>);

impl Scopes {
    fn of(objects: &[ManifestObject]) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let definitions = objects.iter().filter(|object| &*object.gvk.kind == "CustomResourceDefinition");
        let specs = definitions.map(|object| &object.value["spec"]);
        let cluster = specs.filter(|spec| spec["scope"] == "Cluster");
        Self(cluster.map(|spec| (text(&spec["group"]), text(&spec["names"]["kind"]))).collect())
    }

    fn of_kind(&self, gvk: &Gvk) -> Scope {
        let (group, kind) = (&*gvk.group, &*gvk.kind);
        let builtin = CLUSTER_SCOPED.iter().any(|(known, kinds)| *known == group && kinds.contains(&kind));
        if builtin || self.0.iter().any(|(defined, of)| defined == group && of == kind) {
            Scope::Cluster
        } else {
            Scope::Namespaced
        }
    }
}
