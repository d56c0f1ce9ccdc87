//! What an object has to do with Namespaces and CRDs beside its own: a CRD brings a kind, and webhooks, aggregated APIs and
//! admission policies stand in the way of others while what they call or read is not there.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Stage;

/// A kind by its group.
pub type GroupKind = (Box<str>, Box<str>);

/// What an object is to others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// Nothing that counts here.
    #[default]
    Plain,
    /// The CRD of this kind.
    Brings(GroupKind),
    /// It answers for the requests of others, with these.
    Admits {
        /// The Namespaces of the Services that it calls.
        calls: BTreeSet<Box<str>>,
        /// The kind of its parameters.
        reads: Option<GroupKind>,
    },
}

impl Role {
    /// That of a declared object.
    pub fn of(stage: Stage, body: &Value) -> Self {
        let spec = &body["spec"];
        match stage {
            Stage::Foundations => {
                let kind = spec["group"].as_str().zip(spec["names"]["kind"].as_str());
                kind.map_or(Self::Plain, |(group, kind)| Self::Brings((group.into(), kind.into())))
            }
            Stage::Admission => Self::Admits { calls: calls(body), reads: reads(&spec["paramKind"]) },
            Stage::Dependencies | Stage::Rest => Self::Plain,
        }
    }

    /// It does not work without the Services of this Namespace.
    pub fn calls(&self, namespace: &str) -> bool {
        matches!(self, Self::Admits { calls, .. } if calls.contains(namespace))
    }

    /// It does not work without objects of this kind.
    pub fn reads(&self, kind: &GroupKind) -> bool {
        matches!(self, Self::Admits { reads: Some(reads), .. } if reads == kind)
    }
}

fn calls(body: &Value) -> BTreeSet<Box<str>> {
    let webhooks = body["webhooks"].as_array().into_iter().flatten();
    let services =
        webhooks.map(|webhook| &webhook["clientConfig"]["service"]).chain([&body["spec"]["service"]]);
    services.filter_map(|service| service["namespace"].as_str()).map(Box::from).collect()
}

fn reads(param_kind: &Value) -> Option<GroupKind> {
    let (group, _) = param_kind["apiVersion"].as_str()?.split_once('/').unwrap_or_default();
    Some((group.into(), param_kind["kind"].as_str()?.into()))
}
