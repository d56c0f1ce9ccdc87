//! How an object relates to Namespaces and CRDs beside its own: a CRD defines a kind, and a webhook, aggregated API or
//! admission policy refuses the requests of others while its Service, or the kind of its parameters, does not exist.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Stage;
use crate::object::Gvk;

/// A kind by its group.
pub type GroupKind = (Box<str>, Box<str>);

/// What of Namespaces and kinds stands or falls with an object, or it with them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Relation {
    /// Nothing beside its own Namespace and kind.
    #[default]
    None,
    /// It is the CRD of this kind.
    Defines(GroupKind),
    /// It refuses the requests of others without these.
    Requires {
        /// The Namespaces of the Services that it calls.
        namespaces: BTreeSet<Box<str>>,
        /// The kind of its parameters.
        kind: Option<GroupKind>,
    },
}

impl Relation {
    /// That of a declared object.
    pub fn of(stage: Stage, body: &Value) -> Self {
        let spec = &body["spec"];
        match stage {
            Stage::Foundations => {
                let kind = spec["group"].as_str().zip(spec["names"]["kind"].as_str());
                kind.map_or(Self::None, |(group, kind)| Self::Defines((group.into(), kind.into())))
            }
            Stage::Admission => {
                Self::Requires { namespaces: namespaces(body), kind: group_kind(&spec["paramKind"]) }
            }
            Stage::Dependencies | Stage::Rest => Self::None,
        }
    }

    /// It is the CRD of this kind.
    pub fn defines(&self, group: &str, kind: &str) -> bool {
        matches!(self, Self::Defines((own_group, own)) if (&**own_group, &**own) == (group, kind))
    }

    /// It does not work without the Services of this Namespace.
    pub fn requires_namespace(&self, name: &str) -> bool {
        matches!(self, Self::Requires { namespaces, .. } if namespaces.contains(name))
    }

    /// It does not work without objects of this kind.
    pub fn requires_kind(&self, kind: &GroupKind) -> bool {
        matches!(self, Self::Requires { kind: Some(own), .. } if own == kind)
    }
}

fn namespaces(body: &Value) -> BTreeSet<Box<str>> {
    let webhooks = body["webhooks"].as_array().into_iter().flatten();
    let services =
        webhooks.map(|webhook| &webhook["clientConfig"]["service"]).chain([&body["spec"]["service"]]);
    services.filter_map(|service| service["namespace"].as_str()).map(Box::from).collect()
}

fn group_kind(named: &Value) -> Option<GroupKind> {
    let gvk = Gvk::from_api_version(named["apiVersion"].as_str()?, named["kind"].as_str()?)?;
    Some((gvk.group.as_ref().into(), gvk.kind.as_ref().into()))
}
