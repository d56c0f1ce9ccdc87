//! What expressions may say, what they give, and that none of them is dear.

mod hostile;

use serde_json::json;

use super::*;

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn give(text: &str) -> Result<Value, String> {
    let labels = map(&[("region", "eu"), ("example.com/tier", "gold"), ("n", "3")]);
    let values = map(&[("registry", "https://eu.registry.example:5000/x")]);
    let cluster = Inputs { name: "berlin-1", labels: &labels, values: &values };
    Expression::compile(text)?.evaluate(&cluster)
}

#[test]
fn expressions_give_values() {
    for (text, value) in [
        ("cluster.name", json!("berlin-1")),
        ("cluster.labels['region']", json!("eu")),
        ("cluster.labels.region + '-' + cluster.name", json!("eu-berlin-1")),
        ("cluster.labels[\"example.com/tier\"]", json!("gold")),
        ("cluster.values.registry + '/app:1'", json!("https://eu.registry.example:5000/x/app:1")),
        ("int(cluster.labels.n) * 2", json!(6)),
        ("double(cluster.labels.n) / 2.0", json!(1.5)),
        ("'gpu' in cluster.labels ? cluster.labels['gpu'] : 'none'", json!("none")),
        ("has(cluster.labels.gpu) ? 1 : 0", json!(0)),
        ("has(cluster.labels.region)", json!(true)),
        ("cluster.labels[?'gpu'].orValue('none')", json!("none")),
        ("cluster.labels.?region.orValue('none')", json!("eu")),
        ("cluster.name.replace('-', '_').upperAscii()", json!("BERLIN_1")),
        ("cluster.name.split('-')[0]", json!("berlin")),
        ("cluster.name.startsWith('berlin') && size(cluster.name) > 3", json!(true)),
        ("[cluster.name, 'b']", json!(["berlin-1", "b"])),
        ("{'b': 1, 'a': [cluster.labels.region]}", json!({"a": ["eu"], "b": 1})),
        ("null", json!(null)),
    ] {
        assert_eq!(give(text), Ok(value), "{text}");
    }
}

#[test]
fn what_is_wrong_is_told_with_what_to_do() {
    for (text, why) in [
        ("cluster.labels[", "no expression in CEL"),
        ("cluster", "use cluster.name"),
        ("cluster.labels", "name the key of cluster.labels"),
        ("cluster.labels[cluster.name]", "name the key of cluster.labels"),
        ("cluster.label.region", "cluster has no label; it has name, labels and values"),
        ("cluster.region", "cluster has no region"),
        ("cluster.name.first", "has nothing below it"),
        ("region", "there is no variable region"),
        ("cluster.name.matches('x')", "there is no function matches"),
        ("[1, 2].map(x, x)", "loops"),
        ("[1].exists(x, x > 0)", "loops"),
        ("cluster.name.replace(cluster.name, 'b')", "use replace once"),
        ("cluster.name.replace('a', 'b').replace('b', 'c')", "use replace once"),
        ("['a', 'b'].join(',')", "there is no function join"),
        ("Thing{a: 1}", "no messages"),
        (
            "cluster.labels.gpu",
            "cluster.labels has no key \"gpu\"; label MemberCluster berlin-1, or write 'gpu' in",
        ),
        (
            "cluster.values['mirror']",
            "cluster.values has no key \"mirror\"; set spec.values of MemberCluster berlin-1",
        ),
        ("{'a': 1}['b']", "no key \"b\" in a map"),
        ("cluster.labels[?'gpu']", "gives an optional"),
        ("cluster.name + 1", "the values do not fit together"),
        ("size(1)", "found no matching overload"),
        ("1 / 0", "divides by zero"),
        ("{1: 2}", "keys that are no texts"),
        ("b'x'", "what no object can hold"),
    ] {
        let error = give(text).unwrap_err();
        assert!(error.contains(why), "{text}: {error}");
    }
}

#[test]
fn what_an_expression_uses_is_known() {
    let text = "cluster.labels['a'] + (has(cluster.labels.b) ? 'x' : cluster.values.c) + string('d' in cluster.labels)";
    let uses = Expression::compile(text).unwrap().uses;
    assert!(!uses.name);
    assert_eq!(uses.labels.into_iter().collect::<Vec<_>>(), ["a", "b", "d"]);
    assert_eq!(uses.values.into_iter().collect::<Vec<_>>(), ["c"]);
    assert!(Expression::compile("[{'x': cluster.name}]").unwrap().uses.name);
}

/// On a smaller stack than the hub's threads have, in a build that takes more of it than a release.
#[test]
fn no_expression_of_the_longest_length_takes_long_or_deep() {
    let fill = |piece: &str| piece.repeat(EXPRESSION_MAX / piece.chars().count());
    let texts = [
        fill("("),
        fill("["),
        fill("-"),
        fill("!"),
        fill("a."),
        fill("a["),
        fill("1+"),
        format!("{}1", "1+".repeat(511)),
        format!("{}1", "1+".repeat(15)),
        format!("{}1", "true?".repeat(15) + "1" + &":1".repeat(15)),
        format!("cluster.name{}", ".trim()".repeat(15)),
        format!("{}1{}", "{'a':[".repeat(2), "]}".repeat(2)),
        format!("{}1", "1?1:".repeat(255)),
        format!("{}true", "!".repeat(1000)),
        format!("{}1", "-".repeat(1000)),
        format!("a{}", ".b".repeat(511)),
        format!("a{}", "[0]".repeat(340)),
        format!("true{}", "&&true".repeat(170)),
        format!("{}1{}", "[".repeat(5), "]".repeat(5)),
        format!("{}1{}", "(".repeat(5), ")".repeat(5)),
        format!("{}1{}", "size(".repeat(5), ")".repeat(5)),
        format!("{}1{}", "{1:".repeat(5), "}".repeat(5)),
        format!("{}1{}", "[0][".repeat(5), "]".repeat(5)),
        format!("{}1{}", "1?[".repeat(5), "]:1".repeat(5)),
        fill("?:"),
        fill("\""),
        fill("{"),
        fill("\\"),
        fill("ü"),
        fill("1,"),
        format!("[{}1]", "1,".repeat(500)),
    ];
    let run = move || {
        for text in texts {
            // Said before: a stack that overflows ends the process, and this is all that is left.
            println!("{text}");
            let _ = give(&text);
        }
    };
    std::thread::Builder::new().stack_size(1_500_000).spawn(run).unwrap().join().unwrap();
}

#[test]
fn the_largest_result_is_bounded() {
    let long = "x".repeat(2048);
    let values = map(&[("v", &long)]);
    let cluster = Inputs { name: "berlin", labels: &BTreeMap::new(), values: &values };
    let list = |count: usize| {
        Expression::compile(&format!("[{}]", ["cluster.values.v"].repeat(count).join(","))).unwrap()
    };
    assert_eq!(list(30).evaluate(&cluster).unwrap().as_array().unwrap().len(), 30);
    assert!(list(35).evaluate(&cluster).unwrap_err().contains("gives more than"));
    // Neither texts without letters nor keys are for nothing.
    let keys: Vec<String> = (0..35).map(|at| format!("cluster.values.v+'{at}':''")).collect();
    for text in
        ["cluster.values.v.replace('x', 'xxxxx').split('x')".to_owned(), format!("{{{}}}", keys.join(","))]
    {
        let given = Expression::compile(&text).unwrap().evaluate(&cluster);
        assert!(given.unwrap_err().contains("gives more than"), "{text}");
    }
}

#[test]
fn what_is_wrong_is_told_in_clean_words() {
    for text in [
        "\u{1b}[2J",
        "'\u{202e}",
        "cluster.`\u{1b}x`",
        "cluster.name.`\u{202e}x`()",
        "'a' + \u{202e}b",
        "\u{ad}(1)",
    ] {
        let told = Expression::compile(text).unwrap_err();
        assert!(!told.chars().any(crate::unseen::is_unseen), "{text:?}: {told:?}");
    }
}
