//! The rules of the house that a machine can check.
#![allow(clippy::expect_used, clippy::panic, reason = "a check that cannot read the sources stops")]

#[path = "house/shape.rs"]
mod shape;
#[path = "house/wording.rs"]
mod wording;

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::Command,
};

use testkit::tables::{cells, reasons};
use vidra_core::status::Reason;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The files of a kind that git tracks or would track.
fn files(kind: &str) -> Vec<PathBuf> {
    let listed = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard", kind])
        .current_dir(root())
        .output()
        .expect("git runs");
    let text = String::from_utf8(listed.stdout).expect("paths are text");
    text.lines().map(|line| root().join(line)).filter(|path| path.exists()).collect()
}

fn sources() -> Vec<PathBuf> {
    let files = files("*.rs");
    assert!(files.len() > 30, "git lists the sources: {} found", files.len());
    files
}

/// Where a file is in the repository.
fn relative(path: &Path) -> &Path {
    path.strip_prefix(root()).expect("files are below the root")
}

/// Whether it is of tests only.
fn is_test(path: &Path) -> bool {
    relative(path).iter().any(|part| part == "tests" || part == "tests.rs")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).expect("a source can be read")
}

/// A source without its tests.
fn without_tests(source: &str) -> &str {
    source.split_once("#[cfg(test)]\nmod tests {").map_or(source, |(code, _)| code)
}

#[test]
fn every_file_opens_by_saying_what_it_is_for() {
    let silent: Vec<_> = sources().into_iter().filter(|path| !read(path).starts_with("//! ")).collect();
    assert!(silent.is_empty(), "these do not open with `//! `: {silent:#?}");
}

/// A long file may hold one concept; the warning asks whether it does.
#[test]
#[allow(clippy::print_stderr, reason = "a warning that fails nothing")]
fn a_file_that_cannot_be_read_at_once_is_named() {
    let lengths: Vec<_> = sources().into_iter().map(|path| (read(&path).lines().count(), path)).collect();
    for (lines, path) in lengths.iter().filter(|(lines, _)| *lines > 700) {
        eprintln!("warning: {} has {lines} lines; does it hold one concept?", path.display());
    }
    assert!(lengths.iter().any(|(lines, _)| *lines > 100), "lines were counted");
}

/// The packages that a package is built with, without those of its tests.
fn dependencies(package: &str) -> Vec<String> {
    let tree = Command::new(env!("CARGO"))
        .args([
            "tree",
            "--offline",
            "--package",
            package,
            "--edges",
            "normal",
            "--prefix",
            "none",
            "--format",
            "{p}",
        ])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
    let text = String::from_utf8(tree.stdout).expect("names are text");
    text.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

#[test]
fn decisions_are_built_without_any_way_to_a_cluster_or_a_clock() {
    for package in ["vidra-api", "vidra-core"] {
        let all = dependencies(package);
        assert!(all.iter().any(|name| name == "serde_json"), "{package}: the tree was read");
        for forbidden in ["tokio", "kube-client", "hyper", "rustls", "vidra-hub", "testkit"] {
            assert!(!all.iter().any(|name| name == forbidden), "{package} is built with {forbidden}");
        }
    }
}

#[test]
fn chores_link_no_client_and_releases_link_no_test_bed() {
    assert!(!dependencies("xtask").iter().any(|name| name.starts_with("kube")), "xtask is built with kube");
    assert!(!dependencies("vidra-hub").iter().any(|name| name == "testkit"), "the hub is built with testkit");
}

#[test]
fn the_plug_in_is_built_without_the_hub_and_the_hub_without_the_plug_in() {
    let plugin = dependencies("kubectl-vidra");
    assert!(plugin.iter().any(|name| name == "vidra-core"), "the tree was read");
    for forbidden in ["vidra-hub", "testkit", "memkube"] {
        assert!(!plugin.iter().any(|name| name == forbidden), "kubectl-vidra is built with {forbidden}");
    }
    assert!(
        !dependencies("vidra-hub").iter().any(|name| name == "kubectl-vidra"),
        "the hub is built with it"
    );
}

/// What each folder of `src/`, or file that stands there by itself, may import, as docs/architecture.md has it: in its
/// order, which is that of the layers.
fn layers() -> Vec<(String, Vec<String>)> {
    let text = read(&root().join("docs/architecture.md"));
    let (_, table) = text.split_once("| folder | may import |\n").expect("the table is there");
    let rows = table.lines().skip(1).take_while(|line| line.starts_with('|'));
    let named = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
    let read = |row: &str| {
        let cells: Vec<_> = row.split('|').collect();
        (named(cells[1]).remove(0), named(cells[2]))
    };
    rows.map(read).collect()
}

/// The files of a crate's `src/` but for tests: where each one's module is, and its text without comments.
fn modules(folder: &str) -> Vec<(Vec<String>, String)> {
    let source = |path: PathBuf| {
        let below = path.strip_prefix(root().join(folder)).ok()?.with_extension("");
        let mut module: Vec<_> =
            below.iter().map(|part| part.to_str().expect("names are text").to_owned()).collect();
        module.pop_if(|last| last == "mod");
        let text = read(&path);
        let lines = without_tests(&text).lines().map(|line| line.split("//").next().unwrap_or_default());
        let is_of_code = module != ["lib"] && !is_test(&path);
        is_of_code.then(|| (module, lines.collect::<Vec<_>>().join("\n")))
    };
    sources().into_iter().filter_map(source).collect()
}

/// Reads a path, or a tree of them as `use` has it, that goes on after `at`; returns what stands behind it.
fn tree<'t>(mut rest: &'t str, at: &[String], all: &mut Vec<Vec<String>>) -> &'t str {
    let mut path = at.to_vec();
    loop {
        rest = rest.trim_start();
        if let Some(mut inner) = rest.strip_prefix('{') {
            while !inner.trim_start().starts_with('}') {
                inner = tree(inner, &path, all);
                // A name that it gets here, and the comma.
                let end = inner.find([',', '}']).expect("a tree ends");
                inner = inner[end..].trim_start_matches(',');
            }
            return &inner.trim_start()[1..];
        }
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        path.extend((end > 0).then(|| rest[..end].to_owned()));
        rest = &rest[end..];
        match rest.strip_prefix("::") {
            Some(more) if end > 0 => rest = more,
            _ => break,
        }
    }
    all.push(path);
    rest
}

/// The paths from the crate's root that a module names.
fn imports(module: &[String], text: &str) -> Vec<Vec<String>> {
    let mut all = Vec::new();
    for start in ["crate::", "vidra_hub::", "super::", "self::"] {
        for (at, _) in text.match_indices(start) {
            let is_inside = |c: char| c.is_alphanumeric() || matches!(c, '_' | ':' | '$');
            if text[..at].ends_with(is_inside) {
                continue;
            }
            let (mut rest, mut base) = (&text[at..], module.to_vec());
            while let Some(more) = rest.strip_prefix("super::") {
                (rest, _) = (more, base.pop());
            }
            if let Some((word @ ("crate" | "vidra_hub" | "self"), more)) = rest.split_once("::") {
                rest = more;
                base.truncate(if word == "self" { base.len() } else { 0 });
            }
            tree(rest, &base, &mut all);
        }
    }
    all
}

#[test]
fn a_folder_imports_only_what_its_row_names_which_stands_above_it() {
    let layers = layers();
    let place = |folder: &str| layers.iter().position(|(name, _)| name == folder);
    let mut wrong = BTreeSet::new();
    for (nth, (folder, allowed)) in layers.iter().enumerate() {
        let above = |name: &&String| place(name).is_some_and(|other| other < nth);
        wrong.extend(allowed.iter().filter(|name| !above(name)).map(|name| format!("{name} above {folder}")));
    }
    let (mut seen, modules) = (BTreeSet::new(), modules("src"));
    for (module, text) in &modules {
        let Some(nth) = place(&module[0]) else {
            wrong.insert(format!("a row for {}", module[0]));
            continue;
        };
        seen.insert(nth);
        for path in imports(module, text) {
            let Some(other) = path.first().filter(|other| place(other).is_some() && **other != module[0])
            else {
                continue;
            };
            if !layers[nth].1.contains(other) {
                wrong.insert(format!("{} without {}", module.join("/"), path.join("::")));
            }
        }
        // What one names where it is not would hide who imports whom.
        if text.lines().any(|line| line.starts_with("pub") && line.contains(" use crate::")) {
            wrong.insert(format!("{} without its re-export", module.join("/")));
        }
    }
    assert!(wrong.is_empty(), "docs/architecture.md, \"may import\", and the code want: {wrong:#?}");
    assert_eq!(seen.len(), layers.len(), "each row is of something that is there");
}

/// How many files of a crate import each other in circles today, and why; there may only be fewer.
const CIRCLES: &[(&str, usize, &str)] = &[
    (
        "crates/memkube/src",
        42,
        "one server over one store: what is written is admitted, listed and watched at once",
    ),
    ("crates/testkit/src", 16, "the world, its judge and its observer look at each other"),
    ("crates/vidra-api/src", 9, "the types of one API name each other"),
    ("crates/vidra-core/src", 13, "steps that lead to each other, expressions that contain each other"),
    ("crates/kubectl-vidra/src", 0, ""),
    ("crates/xtask/src", 0, ""),
    ("src", 0, ""),
];

#[test]
fn no_files_import_each_other_in_a_circle() {
    let mut wrong = Vec::new();
    for (folder, most, _) in CIRCLES {
        let back = circular(folder);
        let files: BTreeSet<_> = back.iter().map(|(importer, _)| importer).collect();
        if files.len() != *most {
            wrong.push(format!(
                "{folder}: {} files are in circles, and CIRCLES says {most}: {back:#?}",
                files.len()
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The imports that lead back to the importer. A parent declares its children and they use what it has: that is no circle
/// between concepts.
fn circular(folder: &str) -> Vec<(String, String)> {
    let modules = modules(folder);
    let known: BTreeSet<_> = modules.iter().map(|(module, _)| module.clone()).collect();
    let mut arrows = BTreeSet::new();
    for (module, text) in &modules {
        for path in imports(module, text) {
            let longest =
                (1..=path.len()).rev().map(|length| &path[..length]).find(|path| known.contains(*path));
            let Some(other) = longest else { continue };
            if !other.starts_with(module) && !module.starts_with(other) {
                arrows.insert((module.join("/"), other.join("/")));
            }
        }
    }
    assert!(arrows.len() > if folder == "src" { 300 } else { 10 }, "the imports were read: {}", arrows.len());
    let mut back = Vec::new();
    for (importer, imported) in &arrows {
        let (mut reached, mut next) = (BTreeSet::new(), vec![imported]);
        while let Some(at) = next.pop() {
            if reached.insert(at) {
                next.extend(arrows.iter().filter(|(from, _)| from == at).map(|(_, to)| to));
            }
        }
        back.extend(reached.contains(importer).then(|| (importer.clone(), imported.clone())));
    }
    back
}

/// A test that is known to fail: what it is called, and the finding that it shows.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct KnownFailure {
    /// `scenario PATH`, as the test binary names it.
    test: String,
    id: String,
}

/// Those that the tests' sources mark.
fn marked_as_known_failures() -> Vec<KnownFailure> {
    let mut all = Vec::new();
    for path in sources() {
        let (relative, text) = (relative(&path), read(&path));
        if !is_test(&path) || relative.ends_with("house.rs") {
            continue;
        }
        let mut marks = text.split("#[ignore = \"known failure: ");
        for mark in marks.by_ref().skip(1) {
            let (id, rest) = mark.split_once('"').expect("the reason ends");
            let (_, name) = rest.split_once("fn ").expect("a function follows");
            let (name, _) = name.split_once('(').expect("it has parameters");
            let module = relative.strip_prefix("tests/scenarios").expect("only scenarios are marked so");
            let module = module.with_extension("").to_string_lossy().replace('/', "::");
            let test = format!("scenario {}::{name}", module.trim_end_matches("::mod"));
            all.push(KnownFailure { test, id: id.to_owned() });
        }
    }
    all.sort();
    all
}

#[test]
fn a_test_is_ignored_only_where_somebody_asks_for_it_or_as_a_known_failure() {
    let asked = [
        "as many seeds as one asks for",
        "the seed that one asks for",
        "the run that one asks for",
        "the real server that one names",
        "the earlier build that one names",
    ];
    for path in sources().into_iter().filter(|path| !path.ends_with("house.rs")) {
        for line in read(&path).lines().filter(|line| line.trim_start().starts_with("#[ignore")) {
            let is_asked = asked.iter().any(|reason| line.contains(reason));
            assert!(is_asked || line.contains("\"known failure: "), "{}: {line}", path.display());
        }
    }
}

#[test]
fn known_failures_stand_in_their_file_and_the_file_names_tests() {
    let text = read(&root().join("tests/known-failures.txt"));
    // A walk is named by its seed, and stands in no source.
    let other = |line: &&str| line.is_empty() || line.starts_with('#') || line.starts_with("walk ");
    let rows = text.lines().filter(|line| !other(line));
    let mut told: Vec<_> = rows
        .map(|row| {
            let cells: Vec<_> = row.split(" | ").collect();
            let [test, id, instead] = cells[..] else { panic!("a row has three cells: {row}") };
            assert!(instead.ends_with('.') && instead.len() > 10, "the third cell is a sentence: {row}");
            assert!(test.starts_with("scenario "), "the first cell is a kind and a test: {row}");
            KnownFailure { test: test.to_owned(), id: id.to_owned() }
        })
        .collect();
    told.sort();
    assert_eq!(
        told,
        marked_as_known_failures(),
        "left: tests/known-failures.txt; right: the marks in the tests"
    );
}

/// Is there a test of this name in a source, and is it not ignored?
fn has_test(text: &str, name: &str) -> bool {
    let Some((above, _)) = text.split_once(&format!("fn {name}(")) else { return false };
    let attributes = above.rsplit("\n\n").next().unwrap_or_default();
    let is_test = attributes.contains("#[test]") || attributes.contains("#[tokio::test");
    is_test && !attributes.contains("#[ignore")
}

#[test]
fn what_walks_need_not_reach_is_told_with_why_and_with_the_test_that_does_where_no_walk_can() {
    let exempt = read(&root().join("tests/marks-exempt.txt"));
    let texts: Vec<String> = sources().iter().map(|path| read(path)).collect();
    for row in exempt.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let cells: Vec<&str> = row.split(" | ").collect();
        let (mark, test, why) = match cells[..] {
            ["rare", mark, why] => (mark, None, why),
            ["apart", mark, test, why] => (mark, Some(test), why),
            _ => panic!("a row is rare, with a mark and why, or apart, with a mark, a test and why: {row}"),
        };
        assert!(why.ends_with('.') && why.len() > 10, "the last cell is a sentence: {row}");
        let (_, reason) = mark.split_once(':').expect("a mark is a kind and a reason");
        let Some(test) = test else { continue };
        let is_there = texts.iter().any(|text| has_test(text, test) && text.contains(reason));
        assert!(is_there, "no source has the reason, and this test, and runs it: {row}");
    }
}

#[test]
fn the_ledger_of_safety_names_tests_that_exist_and_run() {
    let ledger = read(&root().join("docs/reference/safety.md"));
    let rows = ledger.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| # "));
    let rows: Vec<Vec<&str>> = rows.map(|line| line.split(" | ").collect()).collect();
    assert!(rows.len() > 10, "the rows are read");
    let texts: Vec<String> = sources().iter().map(|path| read(path)).collect();
    let mut wrong = Vec::new();
    for row in &rows {
        let named: Vec<&str> =
            row.get(3).map_or(Vec::new(), |cell| cell.split('`').skip(1).step_by(2).collect());
        let open = row.iter().any(|cell| cell.contains("open: "));
        if named.is_empty() && !open {
            wrong.push(format!("{} names no test and is not open", row[0]));
        }
        for name in named {
            if !texts.iter().any(|text| has_test(text, name)) {
                wrong.push(format!("{}: {name} is no test that runs", row[0]));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What reviews found that this ledger answers for: the review, and the numbers of its findings.
const FINDINGS: [(&str, &[&str]); 8] = [
    (
        "safety ",
        &[
            "H1", "H2", "H3", "H4", "H5", "H6", "H7", "H8", "H9", "H10", "H11", "S1", "S2", "S7", "L1", "L2",
            "L3", "L4", "L6", "P4", "P5", "P6", "P9", "S5", "P7", "P8", "P1", "P2", "P3", "S3", "S4", "S6",
            "L5", "G1", "G2", "G3", "G4", "G5",
        ],
    ),
    ("security ", &["T2", "T3", "T4", "M1", "M2", "M3", "M4", "U1", "U2", "C1"]),
    ("security L", &["1", "2", "3", "4", "5", "6", "7", "8", "9"]),
    ("seeds F", &["1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13"]),
    ("outside ", &["1", "2", "3", "4", "5", "6", "7", "8", "9", "10"]),
    ("newcomer ", &["1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12"]),
    (
        "decision ",
        &[
            "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15", "16", "17",
            "18", "19", "20", "21", "22", "23", "24",
        ],
    ),
    ("hole ", &["1", "2"]),
];

#[test]
fn the_ledger_of_safety_has_a_row_for_each_finding() {
    let ledger = read(&root().join("docs/reference/safety.md"));
    let rows = ledger.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    let told: Vec<&str> = rows.flat_map(|ids| ids.split(", ")).collect();
    let all =
        FINDINGS.iter().flat_map(|(review, numbers)| numbers.iter().map(move |id| format!("{review}{id}")));
    let missing: Vec<_> = all.filter(|id| !told.contains(&&**id)).collect();
    assert!(missing.is_empty(), "docs/reference/safety.md has no row for {missing:?}");
}

#[test]
fn each_mutant_of_a_guard_has_a_row_in_the_ledger_of_safety_with_a_test_that_exists() {
    let ledger = read(&root().join("docs/reference/safety.md"));
    let texts: Vec<String> = sources().iter().map(|path| read(path)).collect();
    let mut named = Vec::new();
    for line in ledger.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| # ")) {
        let last = line.trim_end_matches('|').trim_end().rsplit('|').next().expect("a row has columns");
        for pair in last.split(';').map(str::trim).filter(|pair| !pair.is_empty()) {
            let both: Vec<_> = pair.split('`').skip(1).step_by(2).collect();
            let [mutant, test] = both[..] else { panic!("{pair:?} is no mutant and a test") };
            assert!(texts.iter().any(|text| text.contains(&format!("fn {test}("))), "no test {test}");
            named.push(mutant.to_owned());
        }
    }
    named.sort();
    let mut guards: Vec<_> =
        vidra_core::mutants::Mutant::GUARDS.iter().map(|mutant| format!("{mutant:?}")).collect();
    guards.sort();
    assert_eq!(named, guards, "left: docs/reference/safety.md; right: Mutant::GUARDS");
}

/// All pages of the reference.
fn reference() -> String {
    let pages = std::fs::read_dir(root().join("docs/reference")).expect("the reference is a folder");
    let pages: Vec<_> = pages.map(|page| read(&page.expect("it can be listed").path())).collect();
    pages.join("\n\n")
}

#[test]
fn the_tables_of_the_reference_name_each_reason_that_the_hub_gives_and_no_other() {
    // A call that was not sent: nothing tells it.
    let given = Reason::ALL.iter().filter(|reason| **reason != Reason::Withdrawn);
    let given: BTreeSet<_> = given.map(ToString::to_string).collect();
    let documented = reasons(&reference());
    let (rowless, unknown): (Vec<_>, Vec<_>) =
        (given.difference(&documented).collect(), documented.difference(&given).collect());
    assert!(rowless.is_empty(), "give these a row in a table of docs/reference: {rowless:?}");
    assert!(unknown.is_empty(), "crates/vidra-core/src/status/reason.rs has none of these: {unknown:?}");
}

/// The reasons of conditions and Events and the metrics that the tables of the reference name.
fn documented() -> BTreeSet<String> {
    let manual = reference();
    let mut all = BTreeSet::new();
    for (column, cell) in cells(&manual) {
        // Links lead elsewhere, and labels of metrics have a column of their own.
        let outside = cell.split('(').map(|part| part.rsplit(')').next().unwrap_or_default());
        let is_named = |word: &&str| match column.as_str() {
            "reason" => word.len() > 3 && word.starts_with(|first: char| first.is_ascii_uppercase()),
            "name" => !word.is_empty(),
            _ => false,
        };
        all.extend(outside.flat_map(words).filter(is_named).map(str::to_owned));
    }
    all
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
}

/// What the tests have between quotes, or by its variant.
fn quoted_by_tests() -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for path in sources().into_iter().filter(|path| !path.ends_with("house.rs")) {
        let text = read(&path);
        let tests = match is_test(&path) {
            true => text.as_str(),
            false => &text[without_tests(&text).len()..],
        };
        for line in tests.lines().filter(|line| !line.trim_start().starts_with("//")) {
            let line = line.replace("\\\"", " ").replace("\\n", " ");
            let quoted = line.split('"').skip(1).step_by(2);
            let variants = line.split("Reason::").skip(1).filter_map(|rest| words(rest).next());
            all.extend(quoted.flat_map(words).chain(variants).map(str::to_owned));
        }
    }
    all
}

#[test]
fn what_the_reference_says_of_reasons_events_and_metrics_is_looked_for_by_tests() {
    let (documented, quoted) = (documented(), quoted_by_tests());
    for known in ["RemovalHeld", "DriftDetected", "vidra_leader", "workqueue_depth"] {
        assert!(documented.contains(known), "the tables were read: {known}");
    }
    // A histogram's values are named after it.
    let is_quoted = |word: &String| quoted.contains(word) || quoted.contains(&format!("{word}_count"));
    let missing: Vec<_> = documented.iter().filter(|word| !is_quoted(word)).collect();
    assert!(missing.is_empty(), "no test looks for these, which docs/reference names: {missing:?}");
}

#[test]
fn the_reference_has_a_row_for_each_metric_and_each_setting() {
    let quoted = |paths: &[&str], is_meant: fn(&str) -> bool| -> BTreeSet<String> {
        let files =
            sources().into_iter().filter(|file| paths.iter().any(|path| file.starts_with(root().join(path))));
        let texts = files.map(|file| read(&file)).collect::<Vec<_>>();
        let code = texts.iter().map(|text| without_tests(text)).flat_map(str::lines);
        let code = code.filter(|line| is_meant(line)).flat_map(|line| line.split('"').skip(1).step_by(2));
        code.map(str::to_owned).collect()
    };
    let mut metrics = quoted(&["src/metrics", "src/workqueue"], |_| true);
    metrics.retain(|name| name.starts_with("vidra_") || name.starts_with("workqueue_"));
    let settings = quoted(&["src/config/dynamic_settings.rs"], |line| {
        line.trim_start().starts_with("key: ") || line.trim_start().starts_with("alias: ")
    });
    assert!(metrics.contains("vidra_leader") && settings.contains("interval"), "they were read");
    let page = |name: &str| read(&root().join("docs/reference").join(name));
    let (of_metrics, of_settings) = (page("metrics.md"), page("settings.md"));
    // A counter's name ends so where it is read.
    let has_row = |name: &&String| {
        let of_counter = format!("`{name}_total`");
        of_metrics.contains(&format!("`{name}`")) || of_metrics.contains(&of_counter)
    };
    let rowless: Vec<_> = metrics.iter().filter(|name| !has_row(name)).collect();
    assert!(rowless.is_empty(), "give these a row in docs/reference/metrics.md: {rowless:?}");
    let rowless: Vec<_> =
        settings.iter().filter(|name| !of_settings.contains(&format!("`{name}`"))).collect();
    assert!(rowless.is_empty(), "give these a row in docs/reference/settings.md: {rowless:?}");
}
