//! Which words stand in the text of a manifest, whether or not it can be read: an object whose name does not stand there
//! is not declared there, whatever was meant.

use std::{borrow::Cow, collections::BTreeSet, iter};

use crate::object::ObjectKey;

/// The words of texts that nobody could read as manifests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Words {
    words: BTreeSet<Box<str>>,
    /// Some may stand there in base64.
    encoded: bool,
}

impl Words {
    /// Those of these texts, YAML or JSON.
    pub fn of<'t>(texts: impl IntoIterator<Item = &'t str>) -> Self {
        let mut all = Self::default();
        for text in texts {
            all.encoded |= text.contains('!') && text.contains("binary");
            // A backslash means something within some quotes only: both ways are looked at.
            let unescaped = text.contains('\\').then(|| unescaped(text));
            for text in iter::once(Cow::Borrowed(text)).chain(unescaped.map(Cow::Owned)) {
                for word in split(&text) {
                    if !all.words.contains(word) {
                        all.words.insert(word.into());
                    }
                }
            }
        }
        all
    }

    /// The texts may declare this object: its kind and its name stand there.
    pub fn may_declare(&self, key: &ObjectKey) -> bool {
        let has = |word: &str| self.words.contains(word);
        // In a typed list the items need no kind.
        let kind = has(&key.kind) || has(&format!("{}List", key.kind));
        self.encoded || kind && split(&key.name).all(has)
    }
}

/// Whatever is in a name of most kinds stands in one word.
fn split(text: &str) -> impl Iterator<Item = &str> {
    let in_word = |c: char| c.is_alphanumeric() || matches!(c, '-' | '.');
    text.split(move |c| !in_word(c)).filter(|word| !word.is_empty())
}

/// The text with what escapes may spell of a name: characters by number, and lines that go on. Other escapes stand for
/// what is in no name.
fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        out.push_str(before);
        let mut after = after.chars();
        let digits = match after.next() {
            Some('x') => 2,
            Some('u') => 4,
            Some('U') => 8,
            Some('\n' | '\r') => {
                rest = after.as_str().trim_start();
                continue;
            }
            // Of two backslashes the second escapes nothing.
            _ => {
                out.push(' ');
                rest = after.as_str();
                continue;
            }
        };
        let number = after.as_str().get(..digits).and_then(|digits| u32::from_str_radix(digits, 16).ok());
        rest = match number.and_then(char::from_u32) {
            Some(spelt) => {
                out.push(spelt);
                after.as_str().get(digits..).unwrap_or_default()
            }
            None => {
                out.push(' ');
                after.as_str()
            }
        };
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::Gvk;

    #[test]
    fn what_is_not_named_in_a_text_is_not_declared_there_however_broken_it_is() {
        let gvk = Gvk::new("", "v1", "ConfigMap");
        let rows = [
            ("kind: ConfigMap\nmetadata: {name: settings}\n---\nkind: [", true),
            (r#"{"kind":"ConfigMap","metadata":{"name":"settings","#, true),
            ("kind: ConfigMapList\nitems:\n- metadata:\n    name: 'settings' # ours\n", true),
            // Nobody can tell that it does not.
            ("kind: ConfigMap\ndata:\n  of: the settings of all\n", true),
            (r#"{"kind":"ConfigMap","metadata":{"name":"\u0073ett\u0069ngs"}"#, true),
            (r#"{kind: ConfigMap, metadata: {name: "\x73ettings"}"#, true),
            (r#"{kind: ConfigMap, metadata: {name: "\U00000073ettings"}"#, true),
            ("kind: ConfigMap\nmetadata:\n  name: \"set\\\n    tings\"\n", true),
            ("kind: ConfigMap\nmetadata: {name: !!binary c2V0dGluZ3M=}\n", true),
            ("kind: ConfigMap\nmetadata: {name: app-settings}\n", false),
            ("kind: ConfigMap\nmetadata: {name: settings.v2}\n", false),
            ("kind: Secret\nmetadata: {name: settings}\n", false),
            (r#"{kind: ConfigMap, metadata: {name: "\\x73ettings"}"#, false),
            ("kind: ConfigMap\nmetadata: {name: \"\\u00\"}\n", false),
            ("kind: ConfigMap\n\\", false),
            ("", false),
        ];
        for (text, may) in rows {
            let key = ObjectKey::new(&gvk, "shop", "settings");
            assert_eq!(Words::of([text]).may_declare(&key), may, "{text}");
        }
        let role =
            ObjectKey::new(&Gvk::new("rbac.authorization.k8s.io", "v1", "Role"), "shop", "system:shop");
        assert!(Words::of(["kind: Role", "metadata: {name: system:shop}"]).may_declare(&role));
        assert!(!Words::of(["kind: Role\nmetadata: {name: system}"]).may_declare(&role));
    }
}
