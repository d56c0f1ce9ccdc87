//! What an expression costs is bounded by counts, whatever it says and whatever the object holds.

use serde_json::json;

use super::super::{BYTES_MAX, DEPTH_MAX, Expression, STEPS_MAX, Stop, TEXT_MAX, View};

fn evaluate(text: &str) -> Result<Result<bool, Stop>, String> {
    let live = json!({"status": {
        "list": (0..1024).collect::<Vec<_>>(), "long": (0..1025).collect::<Vec<_>>(),
        "text": "a".repeat(100_000), "other": "a".repeat(100_000), "short": "a",
    }});
    let expression = Expression::compile(text).map_err(|fault| fault.describe(text))?;
    Ok(expression.truth(&View::new(&live)))
}

/// A worker's, in a build that takes more of it than a release.
fn on_a_workers_stack(run: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().stack_size(2 * 1024 * 1024).spawn(run).unwrap().join().unwrap();
}

#[test]
fn what_is_too_long_or_too_deep_is_refused_before_it_is_evaluated() {
    let chain = |piece: &str, count: usize| format!("status.short{} == ''", piece.repeat(count));
    for (text, told) in [
        ("a".repeat(TEXT_MAX + 1), "longer than 1024 characters"),
        ("(".repeat(1000), "more than 10 brackets within brackets"),
        ("[".repeat(1000), "more than 10 brackets within brackets"),
        ("{".repeat(1000), "more than 10 brackets within brackets"),
        ("size(".repeat(200), "more than 10 brackets within brackets"),
        ("a[".repeat(500), "more than 10 brackets within brackets"),
        (format!("{}true{}", "(".repeat(11), ")".repeat(11)), "more than 10 brackets within brackets"),
        (format!("{}true", "!".repeat(1000)), "more than 32 steps"),
        (format!("{}1", "-".repeat(1000)), "more than 32 steps"),
        (format!("{}1", "1+".repeat(500)), "more than 32 steps"),
        (format!("{}1", "1?1:".repeat(250)), "more than 32 steps"),
        (chain(".a", 40), "more than 32 steps"),
        (chain("[0]", 40), "more than 32 steps"),
        (chain(".trim()", 40), "more than 32 steps"),
        (format!("['x']{} == []", ".map(a, a + a)".repeat(60)), "more than 32 steps"),
    ] {
        let refused = evaluate(&text).expect_err(&text);
        assert!(refused.contains(told), "{text}: {refused}");
    }
    // As far as this they go; chains of && and || are as flat as they read.
    for text in [
        format!("{}true{}", "(".repeat(10), ")".repeat(10)),
        format!("{}true", "!".repeat(30)),
        format!("{}true", "true&&".repeat(150)),
        format!("{}true", "true||".repeat(150)),
        format!("1{} == 30", "+1".repeat(29)),
    ] {
        assert_eq!(evaluate(&text), Ok(Ok(true)), "{text}");
    }
}

#[test]
fn what_takes_too_many_steps_or_makes_too_much_is_stopped() {
    let within = |inner: &str| format!("!({inner}) || true");
    for (text, told) in [
        ("status.long.all(x, true)".to_owned(), "1,024 items"),
        ("7 in status.long".to_owned(), "1,024 items"),
        ("status.list.all(x, status.list.all(y, x + y >= 0))".to_owned(), "10,000 steps"),
        ("status.list.all(x, x + 1 > x - 1 && x * 2 >= x)".to_owned(), "10,000 steps"),
        ("status.list.all(x, status.list == status.list)".to_owned(), "10,000 steps"),
        ("status.list.all(x, status.text == status.other)".to_owned(), "10,000 steps"),
        ("status.list.exists(x, status.text.contains('b'))".to_owned(), "10,000 steps"),
        ("status.list.exists(x, status.text.matches('b'))".to_owned(), "10,000 steps"),
        // What a pattern does for each byte grows with its size.
        ("status.text.matches('a[ab]{90}[^ab]')".to_owned(), "10,000 steps"),
        ("[{status.text: 1}].all(m, status.list.all(x, m[status.text] == 1))".to_owned(), "10,000 steps"),
        ("[{status.text: 1}].all(m, status.list.all(x, m == m))".to_owned(), "10,000 steps"),
        ("status.text + status.text + status.text == ''".to_owned(), "256 KiB"),
        ("status.text.replace('a', 'aaa') == ''".to_owned(), "256 KiB"),
        ("status.text.split('').size() == 1".to_owned(), "256 KiB"),
        (format!("['xxxxxxxx']{} == []", ".map(a, a + a)".repeat(25)), "256 KiB"),
        (format!("[[1]]{} == []", ".map(a, a + a)".repeat(25)), "1,024 items"),
    ] {
        for text in [text.clone(), within(&text)] {
            let Ok(Err(Stop::Costly(why))) = evaluate(&text) else { panic!("{text}: {:?}", evaluate(&text)) };
            assert!(why.contains(told), "{text}: {why}");
        }
    }
    assert_eq!(evaluate("status.list.all(x, x < 1024 && x >= 0)"), Ok(Ok(true)));
    assert_eq!(evaluate("status.text == status.other"), Ok(Ok(true)));
    assert_eq!(evaluate("status.text.substring(0, 9000).matches('b')"), Ok(Ok(false)));
}

#[test]
fn as_much_as_each_bound_says_is_taken_and_one_more_is_not() {
    // Characters count, and not bytes.
    let long = |characters: usize| format!("'{}' != ''", "ü".repeat(characters - 8));
    let nots = |height: usize| format!("{}{}", "!".repeat(height - 1), height % 2 == 1);
    let sums = |height: usize| format!("1{} == {}", "+1".repeat(height - 2), height - 1);
    for (text, more, told) in [
        (long(TEXT_MAX), long(TEXT_MAX + 1), "longer than 1024 characters"),
        (nots(DEPTH_MAX), nots(DEPTH_MAX + 1), "more than 32 steps"),
        (sums(DEPTH_MAX), sums(DEPTH_MAX + 1), "more than 32 steps"),
    ] {
        assert_eq!(evaluate(&text), Ok(Ok(true)), "{text}");
        let refused = evaluate(&more).expect_err(&more);
        assert!(refused.contains(told), "{more}: {refused}");
    }

    let half = "a".repeat(BYTES_MAX / 2);
    let live = json!({"status": {"list": vec![1; 769], "half": half, "more": format!("{half}b")}});
    let evaluate = |text: &str| Expression::compile(text).unwrap().truth(&View::new(&live));
    // Three to come to the list, one for each item, and twelve for what is asked of it.
    let steps = format!("status.list.all(x, {}true)", "true && ".repeat(10));
    assert_eq!(STEPS_MAX, 3 + 769 * (1 + 12));
    for (text, more, told) in [
        (steps.clone(), format!("!{steps}"), "10,000 steps"),
        (
            "status.half + status.half != ''".to_owned(),
            "status.half + status.more != ''".to_owned(),
            "256 KiB",
        ),
    ] {
        assert_eq!(evaluate(&text), Ok(true), "{text}");
        let Err(Stop::Costly(why)) = evaluate(&more) else { panic!("{more}: {:?}", evaluate(&more)) };
        assert!(why.contains(told), "{more}: {why}");
    }
}

#[test]
fn patterns_are_small_and_know_the_letters_of_ascii() {
    let told = |pattern: &str| evaluate(&format!("status.short.matches(r'{pattern}')"));
    // With Unicode's tables the last one takes seconds to compile.
    for pattern in [r"^\w$", "(?i)^A[^b]?$", &format!("(?i){}|a", r"[\w\W]".repeat(120))] {
        assert_eq!(told(pattern), Ok(Ok(true)), "{pattern}");
    }
    for pattern in ["(?u)a", "(?iu:a)", "(?-u)a", "(?i-s)(?u:a)", "(?x) ( ?u:a)", r"\pL", "[é]", "a{1000}"] {
        let refused = told(pattern).expect_err(pattern);
        assert!(refused.contains("this is no pattern"), "{pattern}: {refused}");
    }
    assert_eq!(evaluate("'größe'.matches('^gr.*ße$') && 'x(?u'.matches('(.?u)$')"), Ok(Ok(true)));
}

#[test]
fn nothing_hostile_exhausts_a_workers_stack() {
    let fill = |piece: &str| piece.repeat(TEXT_MAX / piece.chars().count());
    let mut texts: Vec<_> = [
        "(",
        "[",
        "{",
        "-",
        "!",
        "a.",
        "a[",
        "1+",
        "?:",
        "\"",
        "'",
        "\\",
        "ü",
        "1,",
        "f(",
        "a.f(",
        "a.map(a,",
        "[?",
        "{1:",
        "a?",
        "true?true:",
        "||",
        "&&",
        "`",
        "0x",
        "1e",
        ".",
        "in ",
        "r'",
        "//",
        "has(",
        "!(",
        "-[",
        "a.?",
        "[1",
    ]
    .map(fill)
    .into();
    texts.extend([
        format!("{}1{}", "[".repeat(10), "]".repeat(10)),
        format!("{}1{}", "{'a':".repeat(10), "}".repeat(10)),
        format!("{}status{}", "size(".repeat(10), ")".repeat(10)),
        format!("{}status.list{}", "status.list.all(x, ".repeat(10), ")".repeat(10)),
        format!("{}[x]{}", "[1].map(x, ".repeat(10), ")".repeat(10)),
        format!("{}[[1]]{} == 1", "[".repeat(8), "]".repeat(8)),
        format!("{}true", "!(true) || ".repeat(90)),
        format!("{}1", "true ? 1 : ".repeat(31)),
        format!("['x']{}", ".map(a, a + a)".repeat(30)),
        format!("['x']{}", ".map(a, [a])".repeat(30)),
        format!("status{}", ".?a".repeat(30)),
        format!("optional.of(1){} == 1", ".optMap(a, [a])".repeat(28)),
    ]);
    on_a_workers_stack(move || {
        for text in texts {
            // Said before: a stack that overflows ends the process, and this is all that is left.
            println!("{text}");
            let _ = evaluate(&text);
        }
    });
}

#[test]
fn a_deep_object_is_compared_on_a_workers_stack() {
    on_a_workers_stack(|| {
        // As deep as a text of JSON is read.
        let deep = format!("{}1{}", "[".repeat(120), "]".repeat(120));
        let live = json!({"status": {"a": serde_json::from_str::<serde_json::Value>(&deep).unwrap()}});
        let expression = Expression::compile("status.a == status.a").unwrap();
        assert_eq!(expression.truth(&View::new(&live)), Ok(true));
    });
}

#[test]
fn all_expressions_over_one_object_take_at_most_twice_what_one_may() {
    let live = json!({"status": {"list": (0..1000).collect::<Vec<_>>(), "text": "a".repeat(100_000)}});
    let (steps, bytes) = ("status.list.all(x, x >= 0 && x < 1000)", "(status.text + status.text).size() > 0");
    for (text, told) in [(steps, "before it, it takes more than 20,000 steps"), (bytes, "more than 512 KiB")]
    {
        let (view, expression) = (View::new(&live), Expression::compile(text).unwrap());
        for _ in 0..2 {
            assert_eq!(expression.truth(&view), Ok(true), "{text}");
        }
        let Err(Stop::Costly(why)) = expression.truth(&view) else { panic!("{text}") };
        assert!(why.contains(told), "{text}: {why}");
        assert_eq!(expression.truth(&View::new(&live)), Ok(true), "of another object: {text}");
    }
    // What one alone may not take is told as before.
    let view = View::new(&live);
    let costly = Expression::compile("status.list.all(x, status.list == [])").unwrap();
    assert_eq!(costly.truth(&view), Ok(false));
}
