//! Known failures: what the hub is known to do wrong, each shown by a test that fails. A test that holds is a failure of
//! the check: its row has to go, so that nothing is fixed, or hidden, unnoticed. So is a program that does not end as a
//! failing test does.

use anyhow::{Context, Result, bail};

use super::{
    build::Binaries,
    part::{Part, Tests},
};
use crate::run::root;

/// Where they are listed, a row each: kind and name, id, reason, with `|` between.
const FILE: &str = "tests/known-failures.txt";

/// Deadline of each, in seconds.
const SECONDS: u64 = 120;

/// One row.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Known {
    /// A scenario in memory, by the name of its test.
    Scenario(String),
    /// A random walk, by its seed.
    Walk(u64),
}

/// All of them, one after the other, each in a process of its own.
pub fn part(binaries: &Binaries) -> Result<Part> {
    let rows =
        read(&std::fs::read_to_string(root().join(FILE)).with_context(|| format!("cannot read {FILE}"))?)?;
    let commands: Result<Vec<_>> = rows
        .into_iter()
        .map(|known| match &known {
            Known::Scenario(name) => {
                let mut command = binaries.command("vidra-hub", "scenarios")?;
                command.env("VIDRA_BED", "memory").args(["--ignored", "--exact", name]);
                Ok((known, command))
            }
            Known::Walk(seed) => {
                let mut command = binaries.command("testkit", "simulation")?;
                command.env("VIDRA_SIM_WALK", seed.to_string());
                command.args(["--ignored", "--exact", "walk::many::one_walk"]);
                Ok((known, command))
            }
        })
        .collect();
    let commands = commands?;
    Ok(Part::new("known failures", move |log| {
        let (mut held, mut tests) = (Vec::new(), Tests::default());
        for (known, command) in commands {
            let before = log.text().len();
            let ended = log.end_within(&command, SECONDS)?;
            let fails = log.text().get(before..).is_some_and(|text| text.contains("0 passed; 1 failed"));
            match ended {
                Some(status) if status.code() == Some(101) && fails => tests.passed += 1,
                Some(status) => held.push(format!("{known:?} ended with {status}")),
                None => held.push(format!("{known:?} was ended after {SECONDS} s")),
            }
        }
        match held.is_empty() {
            true => Ok(tests),
            false => bail!(
                "not failures of one test: {}\nA row whose test holds is taken out of {FILE}, with the test's mark",
                held.join("; ")
            ),
        }
    }))
}

/// The rows of the file.
fn read(text: &str) -> Result<Vec<Known>> {
    let rows = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    rows.map(|row| {
        let mut columns = row.split('|').map(str::trim);
        let name = columns.next().unwrap_or_default();
        if columns.filter(|column| !column.is_empty()).count() < 2 {
            bail!("{FILE}: {row:?} lacks an id or a reason");
        }
        match name.split_once(' ') {
            Some(("scenario", test)) => Ok(Known::Scenario(test.to_owned())),
            Some(("walk", seed)) => {
                Ok(Known::Walk(seed.parse().with_context(|| format!("{FILE}: {row:?}"))?))
            }
            _ => bail!("{FILE}: {row:?} names neither a scenario nor a walk"),
        }
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_a_scenario_or_a_walk_with_an_id_and_a_reason() {
        let text = "# head\n\nscenario removal::a | H5 | why\nwalk 17 | L1 | why\n";
        let rows = read(text).ok();
        assert_eq!(rows, Some(vec![Known::Scenario("removal::a".into()), Known::Walk(17)]));
        for wrong in ["scenario a | H5", "walk x | H5 | why", "seed 1 | H5 | why", "scenario a | | why"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
