//! The crate `cel` gives the same, where it and the reference agree on what there is.

use std::sync::Arc;

use cel::{Context, Env, Value as Cel, extensions, parser::Parser};

use super::{object, truth};

/// What `cel` says: true, false, or nothing.
fn other(text: &str) -> Option<bool> {
    let mut env = Env::stdlib();
    let _ = env.add_extension(extensions::strings);
    let mut context = Context::with_env(Arc::new(env));
    for (name, value) in object().as_object().unwrap() {
        context.add_variable_from_value(name.clone(), cel::to_value(value).unwrap());
    }
    let tree = Parser::new().enable_optional_syntax(true).parse(text).ok()?;
    match Cel::resolve(&tree, &context) {
        Ok(Cel::Bool(truth)) => Some(truth),
        _ => None,
    }
}

#[test]
fn another_interpreter_gives_the_same() {
    let mut parts = vec![
        "status.phase == 'Running'",
        "status.count < spec.replicas",
        "status.count <= 2 && spec.paused",
        "status.other",
        "has(status.other)",
        "has(status.none)",
        "has(other.x)",
        "status.conditions.exists(c, c.status == 'False')",
        "status.conditions.exists(c, c.reason == 'Fine')",
        "status.conditions.exists(c, c.reason == 'Bad')",
        "status.conditions.all(c, c.status in ['True', 'False'])",
        "status.conditions.exists_one(c, c.type == 'Ready')",
        "status.conditions.filter(c, c.type == 'Ready').map(c, c.status) == ['True']",
        "status.conditions[1].type == 'Issuing'",
        "status.conditions[2].type == 'Issuing'",
        "status.phase.startsWith('Run') ? status.count == 2 : status.other",
        "1 + 2 * 3 - 4 / 2 == 5",
        "(1 + 2) * 3 == 9 || false",
        "1 - 2 - 3 == -4",
        "!true == false",
        "-1 + 2 == 1",
        "1 < 2 == true",
        "7 % 4 == 3",
        "'a' + 'b' == 'ab'",
        "[1, 2] + [3] == [1, 2, 3]",
        "{'a': 1}.a == 1",
        "'a' in {'a': 1}",
        "status.?other.orValue(true)",
        "status.conditions[?0].hasValue()",
        "status.version.split('.').size() == 3",
        "status.version.substring(1, 4) == '1.2'",
        "size('ü') == 1",
        "int('12') + int(1.9) == 13",
        "string(12) == '12' && double(1) == 1.0",
        "1 / 0 == 1",
        "spec.empty.all(h, false)",
        "true ? false : true ? true : false",
        "status.ratio + 0.5 == 1.0",
        "\"\\t\" == '\\x09' && r'\\t' != '\\t'",
    ];
    let pairs: Vec<String> = parts
        .iter()
        .zip(parts.iter().skip(3))
        .flat_map(|(one, other)| [format!("!({one}) && ({other})"), format!("({one}) || !({other})")])
        .collect();
    parts.extend(pairs.iter().map(String::as_str));
    let differ: Vec<_> = parts.iter().filter(|text| truth(text).ok() != other(text)).collect();
    assert!(differ.is_empty(), "{differ:#?}");
}
