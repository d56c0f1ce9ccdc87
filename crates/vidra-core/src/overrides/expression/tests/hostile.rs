//! Expressions that somebody has meddled with, or that say more than anybody would: each is refused or gives a value, the
//! same each time, of what it says it uses, and no larger than it may be.

use proptest::{collection::vec, prelude::*, sample::select};

use super::*;
use crate::hostile::meddled;

const PIECES: &[&str] = &[
    "cluster",
    ".name",
    ".labels",
    ".values",
    ".region",
    "['n']",
    "[?'gpu']",
    ".?zone",
    ".size()",
    ".trim()",
    ".split('')",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "'",
    "\"",
    "'''",
    "\\",
    "\\u00e9",
    "\\xff",
    "r'",
    "b'",
    ".",
    ",",
    ":",
    "?",
    "!",
    "-",
    "+",
    "*",
    "/",
    "%",
    "==",
    "<",
    "&&",
    "||",
    " in ",
    "has(",
    "optional.of(",
    "9223372036854775808",
    "1u",
    "1e309",
    "0x",
    "é",
    "//",
    "\n",
    "\0",
    "true",
    "null",
    "for",
];

const TEXTS: &[&str] = &[
    "cluster.labels['region'] + '-' + cluster.name",
    "'gpu' in cluster.labels ? cluster.labels['gpu'] : cluster.values.e",
    "cluster.labels[?'gpu'].orValue({'a': [1, 2.5, null]}.a[0])",
    "has(cluster.labels.region) && size(cluster.values.v.split('x', 3)) > 2",
    "int(cluster.labels.n) * -2 % 7 == 1 || !cluster.name.startsWith(\"ber\")",
    "cluster.name.replace('-', '_').upperAscii().substring(1, 4)",
];

/// Parts of expressions, and what they are put into, for `@`, `#` and `~`.
const LEAVES: &[&str] = &[
    "cluster.name",
    "cluster.labels.region",
    "cluster.labels['n']",
    "cluster.labels[?'gpu']",
    "cluster.labels.?region",
    "'gpu' in cluster.labels",
    "has(cluster.labels.gpu)",
    "cluster.values.v",
    "cluster.values.v.replace('x', 'xxxxxxxxxx')",
    "cluster.values.e",
    "cluster.values['missing']",
    "0",
    "-1",
    "3",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551615u",
    "1.5",
    "-0.0",
    "1e308",
    "''",
    "'x'",
    "'aü😀'",
    "b'\\xff'",
    "true",
    "null",
    "[]",
    "{}",
    "optional.none()",
];
const FORMS: &[&str] = &[
    "@ + #",
    "@ - #",
    "@ * #",
    "@ / #",
    "@ % #",
    "@ == #",
    "@ < #",
    "@ && #",
    "@ || #",
    "@ in #",
    "@ ? # : ~",
    "!@",
    "-@",
    "(@)",
    "[@, #]",
    "[@, #, ~]",
    "{'k': @, 'l': #}",
    "{@: #, 'k': ''}",
    "@[#]",
    "@[?#]",
    "@.k",
    "@.?k",
    "@.charAt(#)",
    "@.contains(#)",
    "@.endsWith(#)",
    "@.indexOf(#)",
    "@.indexOf(#, ~)",
    "@.lastIndexOf(#)",
    "@.lastIndexOf(#, ~)",
    "@.lowerAscii()",
    "@.upperAscii()",
    "@.trim()",
    "@.split('x')",
    "@.split('')",
    "@.split(#)",
    "@.split(#, ~)",
    "@.substring(#)",
    "@.substring(#, ~)",
    "@.startsWith(#)",
    "@.orValue(#)",
    "@.or(#)",
    "@.hasValue()",
    "@.value()",
    "size(@)",
    "int(@)",
    "uint(@)",
    "double(@)",
    "string(@)",
    "bool(@)",
    "dyn(@)",
    "optional.of(@)",
    "optional.ofNonZeroValue(@)",
];

/// Of these a text comes of texts.
const TEXT_LEAVES: &[&str] = &[
    "cluster.name",
    "cluster.labels['k']",
    "cluster.values.v",
    "cluster.values.v.replace('x', 'xxxxxxxxxx')",
    "cluster.values.e",
    "cluster.values['k']",
    "'x'",
    "''",
];
const TEXT_FORMS: &[&str] = &[
    "@ + #",
    "@.trim()",
    "@.upperAscii()",
    "@.substring(1)",
    "@.charAt(0)",
    "@.split('x')[0]",
    "@.replace('x', 'xxxxxxxxxx')",
    "@.replace('', 'é')",
    "@.split(#)[0]",
    "'gpu' in cluster.labels ? @ : #",
    "cluster.labels[?'gpu'].orValue(@)",
    "string(@)",
];

fn grown() -> impl Strategy<Value = String> {
    let fill = |forms: &'static [&'static str], part: BoxedStrategy<String>| {
        (select(forms), vec(part, 3)).prop_map(|(form, parts)| {
            let filled = |letter| match letter {
                '@' => parts[0].clone(),
                '#' => parts[1].clone(),
                '~' => parts[2].clone(),
                _ => letter.to_string(),
            };
            form.chars().map(filled).collect::<String>()
        })
    };
    let text = select(TEXT_LEAVES).prop_map(str::to_owned);
    let text = text.prop_recursive(3, 6, 3, move |part| fill(TEXT_FORMS, part));
    let leaf = prop_oneof![3 => text, 2 => select(LEAVES).prop_map(str::to_owned)];
    leaf.prop_recursive(2, 6, 3, move |part| fill(FORMS, part))
}

/// How much is in a value, as `RESULT_MAX` has it: bytes of texts, and eight for everything.
fn size(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len().max(8),
        Value::Array(items) => 8 + items.iter().map(size).sum::<usize>(),
        Value::Object(fields) => 8 + fields.iter().map(|(key, value)| key.len() + size(value)).sum::<usize>(),
        _ => 8,
    }
}

proptest! {
    #[test]
    fn what_an_expression_gives_is_bounded_and_a_function_of_what_it_says_it_uses(
        text in prop_oneof![3 => grown(), 1 => meddled(select(TEXTS).prop_map(str::to_owned), &[PIECES], 3)],
    ) {
        let Ok(expression) = Expression::compile(&text) else { return Ok(()) };
        let labels = map(&[("region", "eu"), ("n", "3"), ("k", "k")]);
        let long = "x".repeat(2048);
        let values = map(&[("v", &long), ("e", ""), ("k", "ü")]);
        let given = expression.evaluate(&Inputs { name: "berlin-1", labels: &labels, values: &values });
        if let Ok(value) = &given {
            prop_assert!(size(value) <= RESULT_MAX, "{}", size(value));
        }
        let only = |all: &BTreeMap<String, String>, used: &BTreeSet<String>| {
            let is_used = all.iter().filter(|(key, _)| used.contains(*key));
            is_used.map(|(key, value)| (key.clone(), value.clone())).collect::<BTreeMap<_, _>>()
        };
        let uses = &expression.uses;
        let (labels, values) = (only(&labels, &uses.labels), only(&values, &uses.values));
        let name = if uses.name { "berlin-1" } else { "tokyo" };
        let again = expression.evaluate(&Inputs { name, labels: &labels, values: &values });
        prop_assert_eq!(given.ok(), again.ok());
    }

    #[test]
    fn a_text_that_is_no_expression_is_refused_in_words(text in ".{0,40}|[a-z.()'\\[\\]? +]{0,60}") {
        if let Err(why) = Expression::compile(&text) {
            prop_assert!(!why.is_empty());
        }
    }
}
