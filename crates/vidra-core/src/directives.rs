//! What a manifest's annotations ask of the hub for one object: in which wave it is applied, how often, what is waited
//! for, and what becomes of it when a field of it cannot be changed.
//!
//! They are instructions to the hub. They are no part of what is declared: they are taken off before an
//! object is hashed and sent, so that a change of an instruction alone changes nothing in a member, and
//! nobody can make them drift.

use serde_json::Value;
use vidra_api::labels::{APPLY, ON_IMMUTABLE, WAIT_FOR, WAVE};

/// The first and the last wave.
pub const WAVES: std::ops::RangeInclusive<i32> = -1000..=1000;

/// How often an object is applied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum ApplyMode {
    /// Whenever it differs from what is declared.
    #[default]
    Always,
    /// When there is none of its name; what is there is never changed.
    IfAbsent,
    /// Once for each declared content, also when it is changed or deleted afterwards.
    Once,
}

/// What becomes of an object whose change the API server refuses because a field cannot be changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum OnImmutable {
    /// It stays, and a person is told.
    #[default]
    Fail,
    /// It is deleted and made again.
    Recreate,
}

/// What of an object its target and later waves wait for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum WaitFor {
    /// That it is healthy.
    #[default]
    Health,
    /// Nothing but that it is applied.
    Nothing,
    /// That it is healthy and has got its address: a Service, an Ingress, a Gateway.
    Address,
    /// That it is healthy and has completed: a Job.
    Complete,
}

impl WaitFor {
    /// Kinds that may be waited for so, by group; `None`: all.
    fn kinds(self) -> Option<&'static [(&'static str, &'static str)]> {
        match self {
            Self::Health | Self::Nothing => None,
            Self::Address => Some(&[
                ("", "Service"),
                ("networking.k8s.io", "Ingress"),
                ("gateway.networking.k8s.io", "Gateway"),
            ]),
            Self::Complete => Some(&[("batch", "Job")]),
        }
    }

    fn is_for(self, object: &Value) -> bool {
        let api_version = object["apiVersion"].as_str().unwrap_or_default();
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        let kind = object["kind"].as_str().unwrap_or_default();
        self.kinds().is_none_or(|kinds| kinds.contains(&(group, kind)))
    }
}

/// The instructions for one object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Directives {
    /// Its wave; lower ones come first.
    pub wave: i32,
    /// How often it is applied.
    pub apply: ApplyMode,
    /// What becomes of it when a field cannot be changed.
    pub on_immutable: OnImmutable,
    /// What is waited for once it is applied.
    pub wait_for: WaitFor,
}

/// An instruction that is none. Field and reason make a sentence with the object between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadDirective {
    /// The field.
    pub field: &'static str,
    /// What it must be.
    pub why: &'static str,
}

const BAD_WAIT_FOR: BadDirective = BadDirective {
    field: "metadata.annotations[\"vidra.dev/wait-for\"]",
    why: "must be Nothing; for a Service, Ingress or Gateway it may be Address, for a Job Complete",
};

impl Directives {
    /// Reads them off an object.
    ///
    /// # Errors
    /// When one has a value that it cannot have.
    pub fn of(object: &Value) -> Result<Self, BadDirective> {
        let annotation = |key: &str| {
            let value = object.get("metadata")?.get("annotations")?.get(key)?;
            // Anything else than text is refused with all annotations.
            value.as_str()
        };
        let wave = match annotation(WAVE) {
            None => 0,
            Some(text) => text.parse().ok().filter(|wave| WAVES.contains(wave)).ok_or(BadDirective {
                field: "metadata.annotations[\"vidra.dev/wave\"]",
                why: "must be a whole number from -1000 to 1000, in quotes",
            })?,
        };
        let apply = match annotation(APPLY) {
            None | Some("Always") => ApplyMode::Always,
            Some("IfAbsent") => ApplyMode::IfAbsent,
            Some("Once") => ApplyMode::Once,
            Some(_) => {
                let field = "metadata.annotations[\"vidra.dev/apply\"]";
                return Err(BadDirective { field, why: "must be Always, IfAbsent or Once" });
            }
        };
        let on_immutable = match annotation(ON_IMMUTABLE) {
            None | Some("Fail") => OnImmutable::Fail,
            Some("Recreate") => OnImmutable::Recreate,
            Some(_) => {
                let field = "metadata.annotations[\"vidra.dev/on-immutable\"]";
                return Err(BadDirective { field, why: "must be Fail or Recreate" });
            }
        };
        let wait_for = match annotation(WAIT_FOR) {
            None => WaitFor::Health,
            Some("Nothing") => WaitFor::Nothing,
            Some("Address") => WaitFor::Address,
            Some("Complete") => WaitFor::Complete,
            Some(_) => return Err(BAD_WAIT_FOR),
        };
        if !wait_for.is_for(object) {
            return Err(BAD_WAIT_FOR);
        }
        Ok(Self { wave, apply, on_immutable, wait_for })
    }

    /// As they are written: those that say something else than their default, each with its annotation.
    pub fn annotations(&self) -> Vec<(&'static str, String)> {
        let apply = match self.apply {
            ApplyMode::Always => None,
            ApplyMode::IfAbsent => Some("IfAbsent"),
            ApplyMode::Once => Some("Once"),
        };
        let on_immutable = match self.on_immutable {
            OnImmutable::Fail => None,
            OnImmutable::Recreate => Some("Recreate"),
        };
        let wait_for = match self.wait_for {
            WaitFor::Health => None,
            WaitFor::Nothing => Some("Nothing"),
            WaitFor::Address => Some("Address"),
            WaitFor::Complete => Some("Complete"),
        };
        let wave = (self.wave != 0).then(|| (WAVE, self.wave.to_string()));
        let words = [(APPLY, apply), (ON_IMMUTABLE, on_immutable), (WAIT_FOR, wait_for)];
        let words = words.into_iter().filter_map(|(key, word)| Some((key, word?.to_owned())));
        wave.into_iter().chain(words).collect()
    }

    /// Takes them off an object.
    pub fn strip(object: &mut Value) {
        let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
        let Some(Value::Object(annotations)) = metadata.get_mut("annotations") else { return };
        let before = annotations.len();
        annotations.retain(|key, _| ![WAVE, APPLY, ON_IMMUTABLE, WAIT_FOR].contains(&key.as_str()));
        if annotations.is_empty() && before > 0 {
            metadata.remove("annotations");
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(annotations: Value) -> Result<Directives, &'static str> {
        let object = json!({"metadata": {"name": "a", "annotations": annotations}});
        Directives::of(&object).map_err(|bad| bad.field)
    }

    #[test]
    fn an_annotation_says_one_of_its_words_or_is_refused_by_name() {
        let wave = |wave| Ok(Directives { wave, ..Directives::default() });
        let bad_wave = Err("metadata.annotations[\"vidra.dev/wave\"]");
        let cases = [
            (json!(null), wave(0)),
            (json!({"other": "x"}), wave(0)),
            (json!({"vidra.dev/wave": "-7"}), wave(-7)),
            (json!({"vidra.dev/wave": "1000"}), wave(1000)),
            (json!({"vidra.dev/wave": null}), wave(0)),
            (json!({"vidra.dev/wave": "1001"}), bad_wave),
            (json!({"vidra.dev/wave": "-1001"}), bad_wave),
            (json!({"vidra.dev/wave": "1.5"}), bad_wave),
            (json!({"vidra.dev/wave": ""}), bad_wave),
            (json!({"vidra.dev/wave": "99999999999999"}), bad_wave),
            (json!({"vidra.dev/apply": "once"}), Err("metadata.annotations[\"vidra.dev/apply\"]")),
            (json!({"vidra.dev/on-immutable": ""}), Err("metadata.annotations[\"vidra.dev/on-immutable\"]")),
            (
                json!({"vidra.dev/apply": "Once", "vidra.dev/on-immutable": "Recreate"}),
                Ok(Directives {
                    apply: ApplyMode::Once,
                    on_immutable: OnImmutable::Recreate,
                    ..Directives::default()
                }),
            ),
            (
                json!({"vidra.dev/apply": "IfAbsent", "vidra.dev/on-immutable": "Fail"}),
                Ok(Directives { apply: ApplyMode::IfAbsent, ..Directives::default() }),
            ),
            (json!({"vidra.dev/apply": "Always"}), wave(0)),
        ];
        for (annotations, wanted) in cases {
            assert_eq!(read(annotations.clone()), wanted, "{annotations}");
            // Written again they say the same.
            if let Ok(directives) = wanted {
                let written: serde_json::Map<_, _> = directives
                    .annotations()
                    .into_iter()
                    .map(|(key, word)| (key.to_owned(), word.into()))
                    .collect();
                assert_eq!(read(written.into()), wanted, "{annotations}");
            }
        }
    }

    #[test]
    fn what_is_waited_for_is_a_word_that_fits_the_kind() {
        let of = |api_version: &str, kind: &str, word: &str| {
            let metadata = json!({"name": "a", "annotations": {"vidra.dev/wait-for": word}});
            let object = json!({"apiVersion": api_version, "kind": kind, "metadata": metadata});
            Directives::of(&object).map(|directives| directives.wait_for)
        };
        assert_eq!(of("v1", "ConfigMap", "Nothing"), Ok(WaitFor::Nothing));
        assert_eq!(of("v1", "Service", "Address"), Ok(WaitFor::Address));
        assert_eq!(of("networking.k8s.io/v1", "Ingress", "Address"), Ok(WaitFor::Address));
        assert_eq!(of("batch/v1", "Job", "Complete"), Ok(WaitFor::Complete));
        for (api_version, kind, word) in [
            ("v1", "Service", "Complete"),
            ("serving.knative.dev/v1", "Service", "Address"),
            ("batch/v1", "Job", "Address"),
            ("v1", "ConfigMap", "Complete"),
            ("v1", "Service", "address"),
            ("v1", "Service", ""),
        ] {
            assert_eq!(of(api_version, kind, word), Err(BAD_WAIT_FOR), "{api_version} {kind} {word}");
        }
    }

    #[test]
    fn what_is_left_has_no_instruction_and_everything_else() {
        let mut object = json!({"metadata": {"annotations": {"vidra.dev/wave": "1", "note": "mine"}}});
        Directives::strip(&mut object);
        assert_eq!(object, json!({"metadata": {"annotations": {"note": "mine"}}}));
        let mut only = json!({"metadata": {"annotations": {"vidra.dev/apply": "Once"}}});
        Directives::strip(&mut only);
        assert_eq!(only, json!({"metadata": {}}));
        let mut empty = json!({"metadata": {"annotations": {}}});
        Directives::strip(&mut empty);
        assert_eq!(empty, json!({"metadata": {"annotations": {}}}));
    }
}
