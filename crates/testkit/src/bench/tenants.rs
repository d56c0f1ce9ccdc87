//! VidraResources of a tenant who means harm: each takes as much as a declaration may. At rest, and in a control, each is
//! about as long and takes no work.

use anyhow::{Context, Result};
use http::Request;
use serde_json::{Value, json};
use vidra_core::weight;

use super::{
    fleet::{resource, resource_at},
    watched::object,
};
use crate::world::Access;

/// Bytes of objects that overrides may look at, as vidra-core bounds them; the bench takes nine tenths.
const WORK: usize = (8 << 30) / 10 * 9;
/// Overrides of a VidraResource, and operations of each.
const OVERRIDES: usize = 50;
/// The deepest that API servers take is some 10,000.
const LEVELS: usize = 9000;
/// Bytes of a manifest's text that means much more than it says.
const TEXT: usize = 512 << 10;

/// A VidraResource that takes as much as one may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tenant {
    /// A manifest of as many levels as a server takes.
    Deep,
    /// A manifest of small maps, which take many times their text, and of names for lists of names of lists.
    Yaml,
    /// Overrides that move a value to and fro in all objects, as often as the bound of the work lets them.
    Overrides,
}

impl Tenant {
    /// All.
    pub const ALL: [Self; 3] = [Self::Deep, Self::Yaml, Self::Overrides];

    /// Its VidraResource's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Deep => "deep",
            Self::Yaml => "yaml",
            Self::Overrides => "bomb",
        }
    }

    /// The VidraResource after so many changes, without what only [`Self::change`] puts in.
    pub fn declares(self, is_harm: bool, number: usize, targets: &[String]) -> Value {
        let mut declared = match self {
            Self::Overrides => overrides(is_harm, number),
            Self::Yaml => resource(self.name(), &yaml(is_harm, number), json!({})),
            Self::Deep => resource(self.name(), &object("hub", "deep").to_string(), json!({})),
        };
        declared["spec"]["targets"] = json!([{"clusterNames": targets}]);
        declared
    }

    /// Changes it.
    pub async fn change(self, hub: &Access, is_harm: bool, number: usize, targets: &[String]) -> Result<()> {
        if self != Self::Deep {
            return apply(hub, &self.declares(is_harm, number, targets)).await;
        }
        // As text: what is so deep is read by no client.
        let request = Request::patch(format!("{}?fieldManager=bench", resource_at(self.name()).path()))
            .header("content-type", "application/merge-patch+json")
            .body(deep(is_harm, number).into_bytes())?;
        hub.client.request_text(request).await.context("VidraResource deep")?;
        Ok(())
    }

    /// Has it do nothing more.
    pub async fn rest(self, hub: &Access, targets: &[String]) -> Result<()> {
        if self == Self::Deep {
            hub.merge(&resource_at(self.name()), json!({"spec": {"manifests": null}})).await;
            return Ok(());
        }
        apply(hub, &self.declares(false, 0, targets)).await
    }
}

/// Declares an object, by force.
pub async fn apply(access: &Access, object: &Value) -> Result<()> {
    let applied = access.apply(object, true).await;
    applied.map(drop).map_err(|refused| anyhow::anyhow!("{}: {refused}", object["metadata"]["name"]))
}

fn overrides(is_harm: bool, number: usize) -> Value {
    let one = |number: usize| object("hub", &format!("bomb-{number:04}"));
    // Each operation and each override looks at an object once.
    let each = weight::of(&one(0)) * OVERRIDES * (OVERRIDES + 1);
    let count = (WORK / each).clamp(1, 1500);
    let manifest: Vec<_> = (0..count).map(|number| one(number).to_string()).collect();
    let moves: Vec<Value> = [("/data/value", "/data/other"), ("/data/other", "/data/value")]
        .into_iter()
        .cycle()
        .take(OVERRIDES)
        .map(|(from, to)| json!({"op": "move", "from": from, "path": to}))
        .collect();
    let mut overrides = vec![json!({
        "target": {"kind": "ConfigMap", "name": "bomb-0000"},
        "mergePatch": {"data": {"word": format!("{is_harm} {number}")}},
    })];
    if is_harm {
        overrides.extend((1..OVERRIDES).map(|_| json!({"target": {}, "jsonPatch": moves})));
    }
    resource("bomb", &manifest.join("\n---\n"), json!({"overrides": overrides}))
}

/// A ConfigMap, and by turns one of the two ways to mean much by little; otherwise a comment as long.
fn yaml(is_harm: bool, number: usize) -> String {
    let mut one = object("hub", "yaml");
    one["data"]["word"] = format!("{is_harm} {number}").into();
    let more = match (is_harm, number % 2) {
        (false, _) => format!("# {}", "x".repeat(TEXT)),
        (true, 0) => {
            let maps = "{a: 0},".repeat(TEXT / 7);
            format!("apiVersion: example.com/v1\nkind: Maps\nmetadata: {{name: maps}}\nmaps: [{maps}]")
        }
        (true, _) => {
            let lists: String = (1..30)
                .map(|level| {
                    format!("l{level}: &l{level} [{}]\n", vec![format!("*l{}", level - 1); 9].join(","))
                })
                .collect();
            format!(
                "apiVersion: example.com/v1\nkind: Names\nmetadata: {{name: names}}\nl0: &l0 [x]\n{lists}"
            )
        }
    };
    format!("{one}\n---\n{more}\n")
}

/// A merge patch.
fn deep(is_harm: bool, number: usize) -> String {
    let value = match is_harm {
        true => format!("{}{}", "[".repeat(LEVELS), "]".repeat(LEVELS)),
        false => format!("\"{}\"", "x".repeat(2 * LEVELS)),
    };
    let begin = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"deeper"}"#;
    let data = format!(r#""data":{{"number":"{number}","value":{value}}}"#);
    format!(r#"{{"spec":{{"manifests":[{begin},{data}}}]}}}}"#)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bomb_is_near_the_bound_of_the_work_and_each_fits_a_declaration() {
        for tenant in Tenant::ALL {
            for number in 0..2 {
                let text = tenant.declares(true, number, &["berlin".to_owned()]).to_string();
                assert!(text.len() < 1 << 20, "{tenant:?}: {} bytes", text.len());
            }
        }
        let bomb = Tenant::Overrides.declares(true, 0, &["berlin".to_owned()]);
        assert_eq!(bomb["spec"]["overrides"].as_array().map(Vec::len), Some(OVERRIDES));
    }
}
