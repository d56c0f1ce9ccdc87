//! What expressions may say, what they give and see, that they give what the crate `cel` gives, and that none is dear.

mod bounds;
mod oracle;

use serde_json::{Value, json};

use super::{Expression, Stop, View};

fn object() -> Value {
    json!({
        "apiVersion": "example.com/v1", "kind": "Widget",
        "metadata": {
            "name": "w", "generation": 3, "creationTimestamp": "2026-01-02T03:04:05Z",
            "managedFields": [{"manager": "hub"}],
            "annotations": {"a": "b", "kubectl.kubernetes.io/last-applied-configuration": "{}"},
        },
        "spec": {"replicas": 2, "paused": false, "empty": [], "hosts": ["a", "b"]},
        "status": {
            "phase": "Running", "ratio": 0.5, "count": 2, "none": null, "empty": [], "nothing": {},
            "version": "v1.2.3", "at": "2026-01-02T03:05:05.5Z",
            "conditions": [
                {"type": "Ready", "status": "True", "reason": "Fine"},
                {"type": "Issuing", "status": "False"},
            ],
        },
    })
}

fn truth(text: &str) -> Result<bool, Stop> {
    let expression =
        Expression::compile(text).unwrap_or_else(|fault| panic!("{text}: {}", fault.describe(text)));
    expression.truth(&View::new(&object()))
}

#[test]
fn every_function_of_the_reference_works() {
    for (text, told) in [
        ("status.conditions.exists(c, c.type == 'Ready' && c.status == 'True')", true),
        ("status.conditions.exists(c, c.type == 'Ready' && c.reason == 'Bad')", false),
        ("status.conditions.all(c, c.type != 'Stalled')", true),
        ("status.conditions.filter(e, e.type == 'Ready').all(e, e.status == 'True')", true),
        ("status.conditions.exists_one(c, has(c.reason))", true),
        ("status.conditions.existsOne(c, has(c.type))", false),
        ("status.conditions.map(c, c.type) == ['Ready', 'Issuing']", true),
        ("status.conditions.map(c, c.status == 'True', c.type) == ['Ready']", true),
        ("status.nothing.all(key, true) || spec.hosts.exists(h, h in ['b'])", true),
        ("metadata.annotations.exists(key, key == 'a')", true),
        ("has(status.phase) && !has(status.other)", true),
        ("has(status.none) && status.none == null", true),
        ("status.?other.orValue('x') == 'x' && status.?phase.orValue('x') == 'Running'", true),
        ("status.?other.deep.?deeper.orValue(1) == 1", true),
        ("status.conditions[?7].hasValue()", false),
        ("status.conditions[?0].type.orValue('') == 'Ready'", true),
        ("status.conditions[0].type == 'Ready' && status['phase'] == 'Running'", true),
        ("status.?other.or(status.?phase).value() == 'Running'", true),
        ("status.?phase.optMap(p, p + '!').orValue('') == 'Running!'", true),
        ("status.?phase.optFlatMap(p, optional.of(p)).value() == 'Running'", true),
        ("optional.none().hasValue() || optional.ofNonZeroValue('').hasValue()", false),
        ("[?status.?other, ?status.?phase] == ['Running']", true),
        ("{'a': 1, ?'b': status.?other} == {'a': 1}", true),
        ("'phase' in status && !('Failed' in ['a', 'b'])", true),
        ("status.phase == 'Running' ? spec.replicas == 2 : false", true),
        ("status.version.matches('^v[0-9]+(\\\\.[0-9]+)*$') && !matches(status.phase, '^run')", true),
        (
            "status.phase.startsWith('Run') && status.phase.endsWith('ing') && status.phase.contains('nn')",
            true,
        ),
        ("status.version.split('.')[1] == '2' && ['a', 'b'].join('-') == 'a-b'", true),
        ("status.version.substring(1) == '1.2.3' && status.version.substring(1, 2) == '1'", true),
        ("status.version.charAt(0) == 'v' && status.version.indexOf('.') == 2", true),
        ("status.version.lastIndexOf('.') == 4 && status.version.replace('.', '') == 'v123'", true),
        ("' A '.trim().lowerAscii() == 'a' && 'a'.upperAscii() == 'A'", true),
        ("size(status.conditions) == 2 && status.phase.size() == 7 && size(status.nothing) == 0", true),
        (
            "int('7') == 7 && int(7.9) == 7 && double('1.5') == 1.5 && uint('7') == 7u && string(7) == '7'",
            true,
        ),
        ("bool('true') && dyn(1) == 1.0 && 0x10 == 16 && 1e3 == 1000.0", true),
        ("spec.replicas * 2 - 1 == 3 && 7 / 2 == 3 && 7 % 2 == 1 && -spec.replicas == -2", true),
        ("status.ratio < 1 && status.ratio >= 0.5 && 'a' < 'b' && false < true", true),
        ("timestamp(status.at) > timestamp(metadata.creationTimestamp)", true),
        ("timestamp(status.at) - timestamp(metadata.creationTimestamp) == duration('1m0.5s')", true),
        ("timestamp('2026-01-02T04:04:05+01:00') == timestamp(metadata.creationTimestamp)", true),
        ("timestamp('1970-01-02T00:00:00Z') + duration('1h') > timestamp('1970-01-02T00:59:59.9Z')", true),
        (
            "int(timestamp('2024-02-29T00:00:00Z')) == 1709164800 && duration('-1.5h') < duration('100ms')",
            true,
        ),
        ("kind == 'Widget' && apiVersion.startsWith('example.com/') // and no more", true),
        ("r'\\d' == '\\\\d' && \"\"\"it's\"\"\" == 'it\\x27s' && '\\u00fc' == 'ü'", true),
    ] {
        assert_eq!(truth(text), Ok(told), "{text}");
    }
}

#[test]
fn what_is_missing_or_does_not_fit_is_not_true_and_neither_is_its_opposite() {
    for text in [
        "status.other == 'x'",
        "other.phase == 'x'",
        "has(other.phase)",
        "status.phase.deep == 'x'",
        "status.conditions[7].type == 'x'",
        "status.conditions.exists(c, c.reason == 'Bad')",
        "status.conditions.all(c, c.reason == 'Fine')",
        "status.phase > 1",
        "status.phase + 1 == 'x'",
        "1 / 0 == 1",
        "9223372036854775807 + 1 > 0",
        "int('x') == 1",
        "timestamp('2026-02-30T00:00:00Z') == timestamp('2026-02-28T00:00:00Z')",
        "duration('1 hour') == duration('1h')",
        "duration('99999999999h') > duration('1h')",
        "timestamp('99999-01-01T00:00:00Z') > timestamp('2026-01-02T03:04:05Z')",
        "int('9223372036854775808') > 0 || int(1e19) > 0",
        "optional.none().value()",
        "status.phase.exists(c, true)",
        "status.phase && true",
        "status.phase",
        "1",
        // Nothing to ask is nothing known: not what CEL says, but what a new object means.
        "status.empty.all(c, c.status == 'False')",
        "status.nothing.all(key, false)",
        "status.conditions.filter(c, c.type == 'X').all(c, c.status == 'False')",
        "spec.hosts.filter(h, h == 'x').all(h, true)",
        "status.?other.orValue([]).all(c, c.status == 'False')",
        "status.conditions.all(c, status.empty.all(d, d == c))",
        "[status].all(s, s.empty.all(d, true))",
    ] {
        for text in [
            text.to_owned(),
            format!("!({text})"),
            format!("!!({text}) && true"),
            format!("({text}) || false"),
        ] {
            assert!(matches!(truth(&text), Err(Stop::Undefined(_))), "{text}: {:?}", truth(&text));
        }
        // As in CEL, what decides by itself does.
        assert_eq!(truth(&format!("({text}) || true")), Ok(true), "{text}");
        assert_eq!(truth(&format!("({text}) && false")), Ok(false), "{text}");
    }
    // A list that is declared empty is empty, not absent.
    assert_eq!(truth("spec.empty.all(h, h == 'x')"), Ok(true));
}

#[test]
fn what_nobody_may_learn_is_not_seen() {
    let live = json!({
        "apiVersion": "v1", "kind": "Secret", "data": {"password": "YQ=="}, "stringData": {"password": "a"},
        "type": "Opaque", "metadata": object()["metadata"],
    });
    let view = View::new(&live);
    for text in [
        "data.password.startsWith('Y')",
        "stringData.password == 'a'",
        "has(data.password)",
        "metadata.managedFields.exists(f, true)",
        "metadata.annotations['kubectl.kubernetes.io/last-applied-configuration'] == '{}'",
    ] {
        let given = Expression::compile(text).unwrap().truth(&view);
        assert!(matches!(given, Err(Stop::Undefined(_))), "{text}: {given:?}");
    }
    for text in [
        "type == 'Opaque' && metadata.annotations.a == 'b' && metadata.generation == 3",
        "!has(metadata.managedFields) && size(metadata.annotations) == 1",
        "metadata == {'name': 'w', 'generation': 3, 'creationTimestamp': '2026-01-02T03:04:05Z', 'annotations': {'a': 'b'}}",
    ] {
        assert_eq!(Expression::compile(text).unwrap().truth(&view), Ok(true), "{text}");
    }
    // Only Secrets are such.
    for live in [
        json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}}),
        json!({"apiVersion": "example.com/v1", "kind": "Secret", "data": {"a": "b"}}),
    ] {
        let expression = Expression::compile("data.a == 'b'").unwrap();
        assert_eq!(expression.truth(&View::new(&live)), Ok(true), "{live}");
    }
}

#[test]
fn what_is_wrong_is_told_with_its_column_and_what_to_write() {
    for (text, told) in [
        ("", "column 1: the expression is empty; leave the field out"),
        ("status.phase =", "column 14: = assigns nothing here; compare with =="),
        ("status.phase == ", "column 17: the expression ends where a value is missing"),
        ("status.phase 'x'", "column 14: an operator is missing before this"),
        ("status.conditions.exists(c, c.type == 'Ready'", "column 46: ) is missing here"),
        ("(status.phase", "column 14: ) is missing here"),
        ("status.a ? 1", "column 13: : is missing here"),
        ("status.['a']", "column 8: a name is missing here; write keys that are no names as ['a key']"),
        ("status.phase == 'x", "column 17: the text that begins here does not end; end it with '"),
        ("'\\q' == ''", "column 3: no character is written so"),
        ("b'x' == b'x'", "column 1: bytes have no use here"),
        ("status.phase == #", "column 17: '#' means nothing here; put texts in quotes"),
        ("99999999999999999999 == 1", "column 1: this is no number, or too large a one"),
        ("1x == 1", "column 1: this is no number"),
        (
            "status.a.exists(i, v, v == 1)",
            "column 10: write x.exists(c, c.status == 'True'): a name and an expression; there are no loops over two names",
        ),
        ("status.a.exists('c', true)", "column 10: write x.exists"),
        ("status.a.transformList(i, v, v)", "there are no loops over two names; use map"),
        ("sets.contains(status.a, ['b'])", "there is no function sets.contains; write a.all(x, x in b)"),
        ("base64.decode(status.a) == 'b'", "there is no function base64.decode; compare the field as it is"),
        (
            "quantity(status.a) == quantity('1')",
            "column 1: there is no function quantity of this form; quantities are not read here",
        ),
        (
            "cel.bind(x, status.a, x == 1)",
            "column 5: cel.bind is not there; write the value where it is used",
        ),
        ("status.phase.matches(spec.pattern)", "column 14: matches takes a pattern that is written out"),
        ("status.phase.matches('(')", "column 22: this is no pattern"),
        ("status.phase.matches('(((((((((((((x)))))))))))))')", "this is no pattern"),
        ("status.phase.matches('(a{1000}){1000}')", "or too large a one"),
        (
            "a.matches('1') || a.matches('2') || a.matches('3') || a.matches('4') || a.matches('5')",
            "one of more than 4 patterns; join them with |",
        ),
        ("has(status)", "column 1: has asks for a field of something; write has(status.phase)"),
        ("has(status.a, status.b)", "has asks for one field"),
        ("status.phase.size(1)", "column 14: size has 1 arguments, and here 2"),
        ("startsWith(status.phase, 'x')", "column 1: startsWith is called on a value; write x.startsWith()"),
        ("status.phase.int()", "column 14: int is called by itself; write int(x)"),
        (
            "size(object.status.books) > 0",
            "column 6: object is not there; the object's fields are, write status.x and",
        ),
        ("self.status.phase == 'x'", "column 1: self is not there"),
        (".status.books", "column 1: a value is missing before .; write status.x"),
        ("status.a.nope()", "column 10: there is no function nope; there are all, exists"),
        ("math.greatest(1, 2) == 2", "there is no function greatest"),
        ("Thing{a: 1}", "column 1: there are no messages here"),
        ("status.a ==\n  nope()", "line 2, column 3: there is no function nope"),
        ("status.`\u{1b}[2J\u{202e}`()", "there is no function \u{fffd}[2J\u{fffd}; there are all"),
    ] {
        let fault = Expression::compile(text).expect_err(text);
        assert!(fault.describe(text).contains(told), "{text}: {}", fault.describe(text));
    }
}

#[test]
fn the_fields_that_an_expression_names_are_known() {
    for (text, paths) in [
        ("status.conditions.exists(c, c.type == 'Ready')", &["status.conditions"][..]),
        ("has(status.a.b) || status['c'].?d.e == spec.x", &["spec.x", "status.a.b", "status.c.d.e"]),
        ("status.list[0].name == metadata.name", &["metadata.name", "status.list"]),
        ("spec.hosts.all(h, status.certs.exists(c, c.host == h))", &["spec.hosts", "status.certs"]),
        ("'x' in status", &["status"]),
        ("true", &[]),
    ] {
        let expression = Expression::compile(text).unwrap();
        let named: Vec<_> = expression.paths().iter().map(|path| path.join(".")).collect();
        assert_eq!(named, paths, "{text}");
    }
}

#[test]
fn a_message_is_a_text() {
    let live = object();
    let give = |text: &str| Expression::compile(text).unwrap().text(&View::new(&live));
    assert_eq!(give("'phase ' + status.phase"), Ok("phase Running".to_owned()));
    assert!(give("status.count").is_err() && give("status.other").is_err());
}
