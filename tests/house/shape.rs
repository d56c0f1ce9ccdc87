//! The shape of sources and pages: how long a function is, how a file is named, how long a page is. What is otherwise
//! today stands in a list, which may only get shorter.

use std::{collections::BTreeMap, path::Path};

use super::{files, is_test, read, relative, sources, without_tests};

/// Most lines of a function: one screen.
const FUNCTION_MAX: usize = 60;
/// Most words of a guide or a concept: ten minutes.
const PAGE_MAX: usize = 2500;

/// Functions that are longer, by file and name, with their lines.
const LONGER: &[(&str, &str, usize)] = &[
    ("crates/kubectl-vidra/src/command/join.rs", "run", 64),
    ("crates/memkube/src/builtin.rs", "complete", 73),
    ("crates/memkube/src/custom/node.rs", "shape", 77),
    ("crates/memkube/src/handle.rs", "answer", 89),
    ("crates/memkube/src/handle.rs", "list", 63),
    ("crates/memkube/src/handle.rs", "objects", 107),
    ("crates/memkube/src/lifecycle.rs", "finish", 87),
    ("crates/memkube/src/service.rs", "carry_out", 69),
    ("crates/memkube/src/shape.rs", "entries", 64),
    ("crates/memkube/src/validate.rs", "builtin", 141),
    ("crates/memkube/src/workloads/status.rs", "advance", 69),
    ("crates/testkit/src/sim/declared.rs", "select", 76),
    ("crates/testkit/src/sim/index.rs", "target", 71),
    ("crates/testkit/src/sim/judge/told.rs", "told_by_target", 85),
    ("crates/testkit/src/sim/observer.rs", "fault", 69),
];

/// Files whose name is a participle. `desired` is the field's own word.
const PARTICIPLES: &[&str] = &[
    "crates/kubectl-vidra/src/report/declared.rs",
    "crates/kubectl-vidra/src/report/pending.rs",
    "crates/memkube/src/aggregated.rs",
    "crates/memkube/src/managed.rs",
    "crates/memkube/src/smd/typed.rs",
    "crates/memkube/src/starting.rs",
    "crates/testkit/src/bench/attacked.rs",
    "crates/testkit/src/bench/watched.rs",
    "crates/testkit/src/sim/declared.rs",
    "crates/testkit/src/sim/judge/told.rs",
    "crates/testkit/src/sim/sparing.rs",
    "crates/vidra-core/src/fields/declared.rs",
    "crates/vidra-core/src/fields/taken.rs",
    "crates/vidra-core/src/status/drifted.rs",
    "crates/vidra-core/src/status/removing.rs",
    "crates/vidra-core/src/unseen.rs",
    "crates/xtask/src/test/known.rs",
    "src/desired.rs",
    "src/member/reading.rs",
    "src/config/tuning.rs",
];

/// Participles that no ending shows.
const IRREGULAR: [&str; 21] = [
    "begun", "broken", "built", "done", "found", "given", "gone", "held", "kept", "known", "left", "lost",
    "made", "seen", "sent", "taken", "told", "undone", "unread", "unseen", "written",
];

/// Nouns that end as participles do.
const NOUNS: [&str; 6] = ["bed", "feed", "ring", "seed", "string", "testbed"];

/// Whether it is built into a program, or is what tests use; not a test, whose tables and stories may be long.
fn is_code(path: &Path) -> bool {
    let place = relative(path);
    !is_test(path) && (place.starts_with("src") || place.starts_with("crates"))
}

/// The functions of a source, but for those of its tests, each with its number of lines. rustfmt has laid it out: the
/// first brace that stands exactly below a function's beginning ends it.
fn functions(source: &str) -> Vec<(String, usize)> {
    let lines: Vec<_> = without_tests(source).lines().collect();
    let name = |line: &str| {
        let (before, behind) = line.split_once("fn ")?;
        let is_head = |word: &str| {
            word.starts_with("pub")
                || word.ends_with(')')
                || ["const", "async", "default", "unsafe"].contains(&word)
        };
        let name: String = behind.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        (before.split_whitespace().all(is_head) && !name.is_empty()).then_some(name)
    };
    let length = |at: usize| {
        let indent = " ".repeat(lines[at].len() - lines[at].trim_start().len());
        let ends = |line: &&str| {
            let rest = line.strip_prefix(&indent).unwrap_or_default();
            // The second is one without a body, whose parameters have lines of their own.
            rest == "}" || rest.starts_with(')') && rest.ends_with(';')
        };
        let is_one_line = lines[at].ends_with(['}', ';']);
        if is_one_line { 1 } else { lines[at..].iter().position(ends).map_or(1, |end| end + 1) }
    };
    let named = lines.iter().enumerate().filter_map(|(at, line)| Some((at, name(line)?)));
    named.map(|(at, name)| (name, length(at))).collect()
}

#[test]
fn a_function_fits_a_screen() {
    let known: BTreeMap<_, _> = LONGER.iter().map(|(file, name, lines)| ((*file, *name), *lines)).collect();
    let (mut longest, mut count) = (BTreeMap::<(String, String), usize>::new(), 0);
    for path in sources().into_iter().filter(|path| is_code(path)) {
        for (name, lines) in functions(&read(&path)) {
            let most = longest.entry((relative(&path).display().to_string(), name)).or_default();
            *most = lines.max(*most);
            count += 1;
        }
    }
    assert!(count > 2000, "functions were read: {count}");
    let mut wrong = Vec::new();
    for ((file, name), lines) in &longest {
        match known.get(&(file.as_str(), name.as_str())) {
            None if *lines > FUNCTION_MAX => {
                wrong.push(format!(
                    "{file}: `{name}` has {lines} lines; a function has {FUNCTION_MAX} at most"
                ));
            }
            Some(most) if lines > most => {
                wrong.push(format!("{file}: `{name}` has {lines} lines, and had {most}"))
            }
            Some(most) if lines < most && *lines > FUNCTION_MAX => {
                wrong.push(format!("{file}: `{name}` is shorter now; write {lines} in LONGER"));
            }
            _ => {}
        }
    }
    let lines =
        |file: &str, name: &str| longest.get(&(file.to_owned(), name.to_owned())).copied().unwrap_or(0);
    let fits = known.keys().filter(|(file, name)| lines(file, name) <= FUNCTION_MAX);
    wrong.extend(
        fits.map(|(file, name)| format!("{file}: `{name}` fits, or is gone; take its row out of LONGER")),
    );
    let at_home = known.keys().filter(|(file, _)| file.starts_with("src/"));
    wrong.extend(
        at_home.map(|(file, name)| format!("{file}: `{name}` is the hub's, which has no exceptions")),
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_lines_of_functions_are_counted() {
    let rows = [
        ("fn a() {}\n", vec![("a", 1)]),
        (
            "impl A {\n    pub(crate) async fn b(\n        &self,\n    ) {\n        if c {\n        }\n    }\n}\n",
            vec![("b", 6)],
        ),
        (
            "trait A {\n    fn c(\n        &self,\n    ) -> u8;\n    fn d(&self);\n}\n",
            vec![("c", 3), ("d", 1)],
        ),
        ("/// A fn of all.\nlet f: fn (u8) = g;\n", vec![]),
        ("fn e() {\n}\n#[cfg(test)]\nmod tests {\n    fn f() {\n    }\n}\n", vec![("e", 2)]),
    ];
    for (source, expected) in rows {
        let all = functions(source);
        let all: Vec<_> = all.iter().map(|(name, lines)| (name.as_str(), *lines)).collect();
        assert_eq!(all, expected, "{source}");
    }
}

/// `leaving`, `faults_watching`, `held`; not `ignored_fields`, which says of what it is.
fn is_participle(stem: &str) -> bool {
    let last = stem.rsplit('_').next().unwrap_or(stem);
    let is_regular = (last.ends_with("ed") || last.ends_with("ing")) && !NOUNS.contains(&last);
    is_regular || IRREGULAR.contains(&last)
}

#[test]
fn a_file_is_named_by_a_noun() {
    let is_named = |path: &Path| {
        path.file_stem().and_then(|stem| stem.to_str()).is_some_and(|stem| !is_participle(stem))
    };
    let code: Vec<_> = sources().into_iter().filter(|path| is_code(path)).collect();
    assert!(code.len() > 200, "sources were read: {}", code.len());
    let participles: Vec<_> =
        code.iter().filter(|path| !is_named(path)).map(|path| relative(path).display().to_string()).collect();
    let new: Vec<_> = participles.iter().filter(|file| !PARTICIPLES.contains(&file.as_str())).collect();
    assert!(new.is_empty(), "a participle is no name; find the noun that the field has for these: {new:#?}");
    let old: Vec<_> =
        PARTICIPLES.iter().filter(|file| !participles.iter().any(|other| other == *file)).collect();
    assert!(old.is_empty(), "these have another name now; take them out of PARTICIPLES: {old:#?}");
}

#[test]
fn a_guide_and_a_concept_can_be_read_in_ten_minutes() {
    let pages: Vec<_> = files("*.md")
        .into_iter()
        .filter(|path| {
            ["docs/guides", "docs/concepts"].iter().any(|folder| relative(path).starts_with(folder))
        })
        .collect();
    assert!(pages.len() > 10, "pages were read: {}", pages.len());
    let is_word = |word: &&str| word.contains(char::is_alphanumeric);
    let count = |path: &Path| read(path).split_whitespace().filter(is_word).count();
    let long = pages.iter().map(|path| (count(path), relative(path))).filter(|(words, _)| *words > PAGE_MAX);
    let long: Vec<_> = long.map(|(words, page)| format!("{}: {words} words", page.display())).collect();
    assert!(long.is_empty(), "{PAGE_MAX} words at most; divide these, or shorten them: {long:#?}");
}
