//! Guards and the tests that hold them: docs/reference/safety.md names a mutant of vidra-core, which takes the guard
//! away, and the test that notices it. Each is run by itself with its mutant, and must fail; without it, it passes among
//! all others.

use std::path::Path;

use anyhow::{Context, Result, bail};

use super::{
    build::Binaries,
    part::{Part, Tests},
};
use crate::run::root;

/// Where they are listed: in its last column, `` `Mutant`: `test` ``, with semicolons between.
const FILE: &str = "docs/reference/safety.md";

/// Deadline of each, in seconds.
const SECONDS: u64 = 120;

/// The sources of a test program, its package and its name.
const PROGRAMS: [(&str, &str, &str); 3] = [
    ("crates/vidra-core/src", "vidra-core", "vidra_core"),
    ("src", "vidra-hub", "vidra_hub"),
    ("tests/scenarios", "vidra-hub", "scenarios"),
];

/// A mutant, and the test that notices it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    mutant: String,
    test: String,
}

/// All of them, one after the other, each in a process of its own.
pub fn part(binaries: &Binaries) -> Result<Part> {
    let rows = read(&text(&root().join(FILE))?)?;
    let mut commands = Vec::new();
    for row in rows {
        let mut found = None;
        for (sources, package, target) in PROGRAMS {
            if holds(&root().join(sources), &format!("fn {}(", row.test))? {
                found = Some((package, target));
            }
        }
        let (package, target) =
            found.with_context(|| format!("{FILE}: no program has the test {}", row.test))?;
        let mut command = binaries.command(package, target)?;
        command.env("VIDRA_BED", "memory").env("VIDRA_MUTANT", &row.mutant).arg(&row.test);
        commands.push((row, command));
    }
    Ok(Part::new("mutants of guards", move |log| {
        let (mut alive, mut tests) = (Vec::new(), Tests::default());
        for (Row { mutant, test }, command) in commands {
            let before = log.text().len();
            let ended = log.end_within(&command, SECONDS)?;
            let fails = log.text().get(before..).is_some_and(|text| text.contains("0 passed; 1 failed"));
            match ended {
                Some(status) if status.code() == Some(101) && fails => tests.passed += 1,
                Some(status) => alive.push(format!("{mutant}: {test} ended with {status}")),
                None => alive.push(format!("{mutant}: {test} was ended after {SECONDS} s")),
            }
        }
        match alive.is_empty() {
            true => Ok(tests),
            false => bail!(
                "not noticed: {}\nA mutant must make the test of its row in {FILE} fail",
                alive.join("; ")
            ),
        }
    }))
}

fn text(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Does a file below this folder hold this text?
fn holds(folder: &Path, what: &str) -> Result<bool> {
    for entry in std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        let is_source = path.extension().is_some_and(|extension| extension == "rs");
        if path.is_dir() && holds(&path, what)? || is_source && text(&path)?.contains(what) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The last columns of the table's rows.
fn read(text: &str) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for line in text.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| # ")) {
        let last = line.trim_end_matches('|').trim_end().rsplit('|').next().unwrap_or_default();
        for pair in last.split(';').map(str::trim).filter(|pair| !pair.is_empty()) {
            let named: Vec<_> = pair.split('`').skip(1).step_by(2).collect();
            let [mutant, test] = named[..] else { bail!("{FILE}: {pair:?} is no mutant and a test") };
            rows.push(Row { mutant: mutant.to_owned(), test: test.to_owned() });
        }
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_column_names_mutants_and_tests() {
        let row = |mutant: &str, test: &str| Row { mutant: mutant.into(), test: test.into() };
        let text = "| # | promise | mutant |\n|---|---|---|\n| a | `x` | `One`: `t1`; `Two`: `t2` |\n| b | `y` | |\n";
        assert_eq!(read(text).ok(), Some(vec![row("One", "t1"), row("Two", "t2")]));
        assert!(read("| a | b | `One` |").is_err());
    }
}
