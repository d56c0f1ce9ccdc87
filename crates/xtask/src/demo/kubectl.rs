//! kubectl: with the people's own words shown, or quietly to look whether something has come about.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::run::program;

/// The oldest minor version of kubectl that the demo uses: `patch --subresource` is in it.
const OLDEST: u64 = 28;

/// kubectl with one kubeconfig of many contexts.
pub struct Kubectl {
    path: PathBuf,
    kubeconfig: String,
}

impl Kubectl {
    /// The machine's own, if it is there and not too old, else the testbed's.
    pub fn find(testbed: &Path, kubeconfig: &str) -> Self {
        let beside = testbed.with_file_name("kubectl");
        let path =
            if minor("kubectl").is_some_and(|minor| minor >= OLDEST) { "kubectl".into() } else { beside };
        Self { path, kubeconfig: kubeconfig.to_owned() }
    }

    fn command(&self, context: &str, arguments: &str) -> Command {
        let mut command = program(&self.path);
        command.env("KUBECONFIG", &self.kubeconfig).args(["--context", context]).args(words(arguments));
        command
    }

    /// Shows a command, runs it, and shows what it says. A word with spaces stands in single quotes.
    pub fn show(&self, context: &str, arguments: &str) -> Result<()> {
        println!("$ kubectl --context {context} {arguments}");
        let status = self.command(context, arguments).stderr(std::io::stdout()).status();
        let status = status.with_context(|| format!("cannot start {}", self.path.display()))?;
        if !status.success() {
            bail!("kubectl --context {context} {arguments} failed ({status})");
        }
        println!();
        Ok(())
    }

    /// Runs a command quietly. `None`: it failed, because the object is not there yet for example.
    pub fn ask(&self, context: &str, arguments: &str) -> Result<Option<String>> {
        let output = self.command(context, arguments).stderr(Stdio::null()).output();
        let output = output.with_context(|| format!("cannot start {}", self.path.display()))?;
        Ok(output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned()))
    }

    /// The objects that `get` finds; none where it fails.
    pub fn items(&self, context: &str, what: &str) -> Result<Vec<Value>> {
        let Some(text) = self.ask(context, &format!("get {what} -o json"))? else { return Ok(Vec::new()) };
        let mut list: Value = serde_json::from_str(&text).context("kubectl's answer is no JSON")?;
        Ok(match list["items"].take() {
            Value::Array(items) => items,
            _ => vec![list],
        })
    }
}

fn minor(kubectl: &str) -> Option<u64> {
    let output = Command::new(kubectl)
        .args(["version", "--client", "-o", "json"])
        .stdin(Stdio::null())
        .output()
        .ok()?;
    let version: Value = serde_json::from_slice(&output.stdout).ok()?;
    version["clientVersion"]["minor"].as_str()?.trim_end_matches('+').parse().ok()
}

/// Splits a line into words as a shell does, as far as single quotes go.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quoted) = (Vec::new(), None::<String>, false);
    for letter in line.chars() {
        match letter {
            '\'' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            ' ' if !quoted => words.extend(word.take()),
            letter => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_split_as_a_shell_does_it() {
        assert_eq!(words("get vr,vt  -A"), ["get", "vr,vt", "-A"]);
        assert_eq!(words(r#"patch -p '{"a": "b c"}' x"#), ["patch", "-p", r#"{"a": "b c"}"#, "x"]);
        assert_eq!(words("a='' ''"), ["a=", ""]);
    }
}
