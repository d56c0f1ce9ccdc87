//! Server-side apply against apimachinery's own field managers: random sequences of applies and other writes
//! over one object, each step compared: the object, who owns what, the conflicts.
//!
//! The other side is `tests/oracle` at the root, a Go program that builds the field managers of a
//! kube-apiserver from the OpenAPI components given to it; its `build.sh` builds it when it is not yet there.
//! `MEMKUBE_ORACLE_SEQUENCES` and `MEMKUBE_ORACLE_SEED` ask for more sequences, or others; the seed of one is
//! the first seed plus its number, so that `MEMKUBE_ORACLE_SEQUENCES=1` with the seed that a failure names
//! runs it alone.

mod generate;
mod sequence;
mod shrink;
mod types;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Sender, channel};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use sequence::Sequence;
use types::{Types, types};

/// The Go program.
struct Oracle {
    child: Child,
    /// Lines for it, written by a thread: it must not wait for one who waits for it.
    lines: Option<Sender<String>>,
    answers: BufReader<ChildStdout>,
}

impl Oracle {
    fn start(types: &Types) -> Result<Self> {
        let build = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/oracle/build.sh");
        let built = Command::new(&build).stderr(Stdio::inherit()).output()?;
        ensure!(built.status.success(), "{} failed; it needs Go and a module proxy", build.display());
        let binary = String::from_utf8(built.stdout)?;
        let mut child = Command::new(binary.trim()).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut input = child.stdin.take().context("its input")?;
        let answers = BufReader::new(child.stdout.take().context("its output")?);
        let (lines, wanted) = channel::<String>();
        std::thread::spawn(move || {
            // Its end shows where the answers are read.
            wanted.into_iter().try_for_each(|line| writeln!(input, "{line}"))
        });
        let oracle = Oracle { child, lines: Some(lines), answers };
        let kinds: serde_json::Map<String, Value> = types
            .kinds
            .iter()
            .map(|of| {
                let kind = json!({"group": of.group, "version": of.version, "kind": of.kind,
                    "custom": of.custom, "reset": of.reset});
                (of.kind.to_owned(), kind)
            })
            .collect();
        oracle.send(json!({"components": types.components, "kinds": kinds}).to_string())?;
        Ok(oracle)
    }

    fn send(&self, line: String) -> Result<()> {
        self.lines.as_ref().context("it runs")?.send(line).context("send to the oracle; it has ended")
    }

    fn answer(&mut self) -> Result<Vec<Value>> {
        let mut line = String::new();
        ensure!(self.answers.read_line(&mut line)? > 0, "the oracle has ended; its message is above");
        Ok(serde_json::from_str(&line)?)
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        drop(self.lines.take());
        drop(self.child.wait());
    }
}

fn setting(name: &str, otherwise: u64) -> Result<u64> {
    match std::env::var(name) {
        Ok(text) => text.parse().with_context(|| format!("{name}={text}: a number is wanted")),
        Err(_) => Ok(otherwise),
    }
}

#[test]
fn memkube_applies_as_apimachinery_does() -> Result<()> {
    const BATCH: u64 = 100;
    let types = types()?;
    let mut oracle = Oracle::start(&types)?;
    let count = setting("MEMKUBE_ORACLE_SEQUENCES", 2_000)?;
    let first = setting("MEMKUBE_ORACLE_SEED", 1)?;
    // How many differing sequences are told of.
    let most = setting("MEMKUBE_ORACLE_FAILURES", 3)?;
    let (mut steps, mut applied, mut conflicts, mut refused) = (0, 0, 0, 0);
    let mut wrong = Vec::new();
    let mut done = 0;
    while done < count && (wrong.len() as u64) < most {
        let batch: Vec<_> = (done..count.min(done + BATCH))
            .map(|number| Sequence::generate(first.wrapping_add(number), &types))
            .collect();
        for sequence in &batch {
            oracle.send(sequence.line())?;
        }
        for sequence in &batch {
            let wanted = oracle.answer()?;
            steps += wanted.len();
            applied += wanted.iter().filter(|answer| answer["object"].is_object()).count();
            conflicts += wanted.iter().filter(|answer| answer["conflicts"].is_array()).count();
            refused += wanted.iter().filter(|answer| answer["refused"].is_string()).count();
            if sequence.difference(&wanted).is_some() && (wrong.len() as u64) < most {
                wrong.push(sequence.clone());
            }
        }
        done += batch.len() as u64;
    }
    println!(
        "{done} sequences from seed {first}, {steps} steps: {applied} done, {conflicts} conflicts, {refused} \
         refused"
    );
    if wrong.is_empty() {
        // Nothing was compared if one of these never happens.
        ensure!(count < 1_000 || (applied > steps / 2 && conflicts > steps / 50), "too little happens");
        return Ok(());
    }
    let mut told = Vec::new();
    for sequence in wrong {
        let small = shrink::smallest(&sequence, &mut |candidate| {
            oracle.send(candidate.line())?;
            Ok(candidate.difference(&oracle.answer()?))
        })?;
        oracle.send(small.line())?;
        let wanted = oracle.answer()?;
        told.push(small.told(&wanted));
    }
    bail!("memkube differs from apimachinery:\n{}", told.join("\n"))
}
