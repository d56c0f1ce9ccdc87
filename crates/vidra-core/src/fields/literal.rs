//! JSON values inside path elements: what a list item is recognised by. Ordered, compact, canonical.

use std::cmp::Ordering;
use std::fmt;

use serde_json::{Number, Value};

/// A JSON value with a total order, so that path elements can be sorted and searched.
///
/// Numbers are canonical: 1 and 1.0 are the same, as they are for structured-merge-diff (value/value.go, Equals).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Literal {
    /// JSON null.
    Null,
    /// A boolean.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A number that is not whole, or beyond 64 bits.
    Float(Real),
    /// A string.
    Str(Box<str>),
    /// A list: an item of a set may be an atomic list.
    List(Box<[Literal]>),
    /// A map, keys sorted: an item of a set may be an atomic map.
    Map(Box<[(Box<str>, Literal)]>),
}

/// A floating point number ordered by IEEE 754 totalOrder.
#[derive(Debug, Clone, Copy)]
pub struct Real(f64);

impl PartialEq for Real {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Real {}

impl PartialOrd for Real {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Real {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// A JSON number in its one canonical form.
pub(super) enum Canonical {
    Int(i64),
    Float(f64),
}

/// 1.0 becomes 1; -0.0 becomes 0; what fits neither i64 nor 53 bits stays a float, as in Go's JSON decoder.
pub(super) fn canonical(number: &Number) -> Canonical {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if let Some(whole) = number.as_i64() {
        return Canonical::Int(whole);
    }
    let float = number.as_f64().unwrap_or(f64::NAN);
    if float.fract() == 0.0 && float.abs() <= EXACT {
        return Canonical::Int(float as i64);
    }
    Canonical::Float(float)
}

impl From<&Value> for Literal {
    fn from(value: &Value) -> Self {
        match value {
            Value::Null => Literal::Null,
            Value::Bool(b) => Literal::Bool(*b),
            Value::Number(n) => match canonical(n) {
                Canonical::Int(i) => Literal::Int(i),
                Canonical::Float(f) => Literal::Float(Real(f)),
            },
            Value::String(s) => Literal::Str(s.as_str().into()),
            Value::Array(items) => Literal::List(items.iter().map(Literal::from).collect()),
            Value::Object(map) => {
                let mut pairs: Vec<(Box<str>, Literal)> =
                    map.iter().map(|(k, v)| (k.as_str().into(), Literal::from(v))).collect();
                pairs.sort_by(|a, b| a.0.cmp(&b.0));
                Literal::Map(pairs.into())
            }
        }
    }
}

impl Literal {
    /// As [`Ord::cmp`] with the literal that `value` would make; scalars are compared without making it.
    pub(super) fn cmp_value(&self, value: &Value) -> Ordering {
        match (self, value) {
            (Literal::Bool(a), Value::Bool(b)) => a.cmp(b),
            (Literal::Str(a), Value::String(b)) => a.as_ref().cmp(b.as_str()),
            (_, Value::Array(_) | Value::Object(_)) => self.cmp(&Literal::from(value)),
            (_, Value::Number(n)) => match canonical(n) {
                Canonical::Int(i) => self.cmp(&Literal::Int(i)),
                Canonical::Float(f) => self.cmp(&Literal::Float(Real(f))),
            },
            (_, Value::Null) => self.cmp(&Literal::Null),
            (_, Value::Bool(b)) => self.cmp(&Literal::Bool(*b)),
            // Only the kinds differ here: strings against strings are above.
            (Literal::List(_) | Literal::Map(_), Value::String(_)) => Ordering::Greater,
            (_, Value::String(_)) => Ordering::Less,
        }
    }

    /// Whether the literal is this value.
    pub(super) fn is(&self, value: &Value) -> bool {
        self.cmp_value(value) == Ordering::Equal
    }
}

impl Real {
    pub(super) fn bits(self) -> u64 {
        self.0.to_bits()
    }
}

impl fmt::Display for Literal {
    /// As structured-merge-diff prints values in conflicts (value/value.go, ToString): strings as Go's %q, lists in
    /// brackets, maps as `key=value` without a separator.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Literal::Null => f.write_str("null"),
            Literal::Bool(b) => write!(f, "{b}"),
            Literal::Int(i) => write!(f, "{i}"),
            Literal::Float(r) => write!(f, "{}", r.0),
            Literal::Str(s) => quote(f, s),
            Literal::List(items) => {
                f.write_str("[")?;
                for (i, item) in items.iter().enumerate() {
                    if i > 0 {
                        f.write_str(",")?;
                    }
                    write!(f, "{item}")?;
                }
                f.write_str("]")
            }
            Literal::Map(pairs) => pairs.iter().try_for_each(|(key, value)| write!(f, "{key}={value}")),
        }
    }
}

/// Go's strconv.Quote, but for letters that Unicode calls unprintable outside the control characters.
fn quote(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    f.write_str("\"")?;
    for c in text.chars() {
        match c {
            '"' => f.write_str("\\\"")?,
            '\\' => f.write_str("\\\\")?,
            '\u{7}' => f.write_str("\\a")?,
            '\u{8}' => f.write_str("\\b")?,
            '\u{c}' => f.write_str("\\f")?,
            '\n' => f.write_str("\\n")?,
            '\r' => f.write_str("\\r")?,
            '\t' => f.write_str("\\t")?,
            '\u{b}' => f.write_str("\\v")?,
            c if c.is_ascii_control() => write!(f, "\\x{:02x}", u32::from(c))?,
            c if c.is_control() => write!(f, "\\u{:04x}", u32::from(c))?,
            c => write!(f, "{c}")?,
        }
    }
    f.write_str("\"")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            (-3i64..4).prop_map(Value::from),
            (-3i64..4).prop_map(|n| Value::from(n as f64 / 2.0)),
            "[a-c]{0,2}".prop_map(Value::from),
        ];
        leaf.prop_recursive(2, 8, 3, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::btree_map("[a-c]", inner, 0..3)
                    .prop_map(|m| Value::Object(m.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn comparing_with_a_value_is_comparing_with_its_literal(a in any_value(), b in any_value()) {
            let (left, right) = (Literal::from(&a), Literal::from(&b));
            prop_assert_eq!(left.cmp_value(&b), left.cmp(&right));
            prop_assert_eq!(left.is(&a), true);
        }
    }

    #[test]
    fn whole_floats_are_integers() {
        assert_eq!(Literal::from(&json!(1.0)), Literal::from(&json!(1)));
        assert_eq!(Literal::from(&json!(-0.0)), Literal::from(&json!(0)));
        assert_ne!(Literal::from(&json!(1.5)), Literal::from(&json!(1)));
    }

    #[test]
    fn literals_print_as_the_api_server_prints_them() {
        for (value, text) in [
            (json!("a\"b\n"), r#""a\"b\n""#),
            (json!(1.5), "1.5"),
            (json!(80), "80"),
            (json!(false), "false"),
            (json!(null), "null"),
            (json!(["a", 1]), r#"["a",1]"#),
            (json!("\u{1}ü"), r#""\x01ü""#),
        ] {
            assert_eq!(Literal::from(&value).to_string(), text);
        }
    }
}
