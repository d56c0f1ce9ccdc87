//! Which words stand in the text of a manifest, whether or not it can be read: an object whose name does not stand there
//! is not declared there, whatever was meant.

use std::{borrow::Cow, collections::BTreeSet, iter};

use super::check::MAX_LIST_DEPTH;
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
        // In a typed list the items need no kind, and in a list of such lists these need none.
        let mut kinds = (0..=MAX_LIST_DEPTH).map(|lists| format!("{}{}", key.kind, "List".repeat(lists)));
        let kind = kinds.any(|kind| has(&kind));
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
        rest = match spelt(after.as_str(), digits) {
            Some((character, behind)) => {
                out.push(character);
                behind
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

/// The character that so many digits spell, and what stands behind it. JSON spells one beyond 16 bits in two halves.
fn spelt(text: &str, digits: usize) -> Option<(char, &str)> {
    let number = |text: &str| u32::from_str_radix(text.get(..digits)?, 16).ok();
    let (first, behind) = (number(text)?, text.get(digits..)?);
    if let Some(character) = char::from_u32(first) {
        return Some((character, behind));
    }
    let second = behind.strip_prefix("\\u")?;
    let halves = [first, number(second)?].map(|half| u16::try_from(half).unwrap_or_default());
    let character = char::decode_utf16(halves).next()?.ok()?;
    Some((character, second.get(digits..)?))
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
            ("kind: ConfigMapListList\nitems: [{items: [{metadata: {name: settings}}]}]\n---\nkind: [", true),
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
        // As json.dumps writes it.
        let beyond = ObjectKey::new(&gvk, "shop", "\u{20000}x");
        assert!(
            Words::of([r#"{"kind":"ConfigMap","metadata":{"name":"\ud840\udc00x"}"#]).may_declare(&beyond)
        );
        assert!(
            !Words::of([r#"{"kind":"ConfigMap","metadata":{"name":"\ud840\u0041x"}"#]).may_declare(&beyond)
        );
    }
}
