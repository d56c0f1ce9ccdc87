//! Running kubectl: where it is, what it is given, and what it prints, made comparable.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt};
use tempfile::TempDir;
use tokio::process::Command;

/// A release of kubectl.
pub struct Kubectl {
    pub path: PathBuf,
    /// Of the files with what it prints.
    pub suffix: &'static str,
}

/// Both, built where they have not been.
pub async fn kubectls() -> Result<Vec<Kubectl>> {
    let new = build("testbed").await?.with_file_name("kubectl");
    Ok(vec![Kubectl { path: new, suffix: "" }, Kubectl { path: build("kubectl").await?, suffix: ".old" }])
}

async fn build(what: &str) -> Result<PathBuf> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests").join(what).join("build.sh");
    let built = Command::new("bash").arg(&script).stderr(Stdio::inherit()).output().await?;
    ensure!(built.status.success(), "{} failed: see above", script.display());
    Ok(PathBuf::from(String::from_utf8(built.stdout)?.trim()))
}

/// As many at a time as there are processors.
pub async fn side_by_side<T, F: Future<Output = Result<T>>>(runs: impl Iterator<Item = F>) -> Result<Vec<T>> {
    let most = std::thread::available_parallelism().map_or(2, usize::from);
    futures::stream::iter(runs).buffer_unordered(most).try_collect().await
}

/// A server, and the kubectl that is used on it.
pub struct Bed {
    pub kubeconfig: String,
    pub kubectl: PathBuf,
    /// Namespaces are distinguished there, as nothing else is.
    pub real: bool,
}

/// What commands may use beside kubectl: `await`, which tries a command until it succeeds.
const PRELUDE: &str = r#"
await() { n=0; until "$@" >/dev/null 2>&1; do n=$((n+1)); [ $n -lt 200 ] || { echo "await $*: it did not come"; return 1; }; sleep 0.05; done; }
"#;

const NAMESPACE: &str = "sessions";

impl Bed {
    /// Runs the commands of a session again; gives it with what they print now.
    pub async fn session(&self, text: &str) -> Result<String> {
        let directory = tempfile::tempdir()?;
        let namespace = if self.real {
            format!("s{}-{}", std::process::id(), fastrand::u32(..))
        } else {
            NAMESPACE.to_owned()
        };
        self.prepare(&directory, &namespace).await?;
        let mut done = String::new();
        for command in text.lines().filter_map(|line| line.strip_prefix("$ ")) {
            let (code, output) = self.sh(&directory, &command.replace(NAMESPACE, &namespace)).await?;
            done.push_str(&format!("$ {command}\n{}", plain(&output, &namespace)));
            if code != 0 {
                done.push_str(&format!("[{code}]\n"));
            }
        }
        let (code, output) =
            self.sh(&directory, &format!("kubectl delete namespace {namespace} --wait=false")).await?;
        ensure!(code == 0, "delete the namespace: {output}");
        // Comments stay where they are: at the top.
        let comments: String =
            text.lines().take_while(|line| line.starts_with('#')).map(|line| format!("{line}\n")).collect();
        Ok(comments + &done)
    }

    async fn prepare(&self, directory: &TempDir, namespace: &str) -> Result<()> {
        let at = |name: &str| directory.path().join(name);
        std::fs::create_dir(at("bin"))?;
        std::os::unix::fs::symlink(&self.kubectl, at("bin/kubectl"))?;
        std::fs::write(at("config"), &self.kubeconfig)?;
        std::fs::create_dir(at("tmp"))?;
        let manifests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kubectl/manifests");
        std::fs::create_dir(at("manifests"))?;
        for entry in std::fs::read_dir(manifests)? {
            let entry = entry?;
            let text = std::fs::read_to_string(entry.path())?
                .replace("namespace: sessions", &format!("namespace: {namespace}"));
            std::fs::write(at("manifests").join(entry.file_name()), text)?;
        }
        let make = format!(
            "kubectl create namespace {namespace} && kubectl config set-context --current --namespace={namespace}"
        );
        let (code, output) = self.sh(directory, &make).await?;
        ensure!(code == 0, "make the namespace: {output}");
        Ok(())
    }

    /// Exit code and output of a line for sh.
    async fn sh(&self, directory: &TempDir, line: &str) -> Result<(i32, String)> {
        let at = |name: &str| directory.path().join(name);
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new("sh");
        command
            .arg("-c")
            .arg(format!("exec 2>&1; {PRELUDE}{line}"))
            .current_dir(directory.path())
            .env("PATH", format!("{}:{path}", at("bin").display()))
            .env("HOME", directory.path())
            .env("KUBECONFIG", at("config"))
            .env("TMPDIR", at("tmp"))
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .kill_on_drop(true);
        let done = tokio::time::timeout(Duration::from_secs(60), command.output());
        let done = done.await.with_context(|| format!("{line}: no end after a minute"))??;
        Ok((done.status.code().unwrap_or(-1), String::from_utf8_lossy(&done.stdout).into_owned()))
    }
}

/// Output without what each run makes up by itself.
fn plain(output: &str, namespace: &str) -> String {
    let mut text = String::new();
    for line in output.lines() {
        // Columns are as wide as their widest cell, which may be a uid.
        let columns: Vec<_> =
            line.trim_end().split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
        let indent = line.len() - line.trim_start().len();
        let words: Vec<_> = columns
            .iter()
            .map(|cell| cell.split(' ').map(|word| plain_word(word, namespace)).collect::<Vec<_>>().join(" "))
            .collect();
        // 1.32 does not say where.
        let line = words.join("  ").replace(" from sessions namespace", "");
        text.push_str(&format!("{}{line}\n", " ".repeat(indent)));
    }
    text
}

fn plain_word(word: &str, namespace: &str) -> String {
    let word = word.replace(namespace, NAMESPACE);
    const UNITS: [char; 5] = ['s', 'm', 'h', 'd', 'y'];
    let digits = |text: &str| !text.is_empty() && text.chars().all(|one| one.is_ascii_digit());
    let core = word.trim_matches(['"', ',', '(', ')']);
    let is_age = core.starts_with(|one: char| one.is_ascii_digit())
        && core.split_inclusive(UNITS).all(|part| part.strip_suffix(UNITS).is_some_and(digits));
    let shape = |wanted: &str, found: &str| {
        found.len() == wanted.len()
            && found.chars().zip(wanted.chars()).all(|(one, wanted)| match wanted {
                '0' => one.is_ascii_digit(),
                'x' => one.is_ascii_hexdigit(),
                other => one == other,
            })
    };
    let uid = |text: &str| shape("xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx", text);
    if is_age {
        return word.replace(core, "AGE");
    }
    if shape("0000-00-00T00:00:00Z", core) {
        return word.replace(core, "TIME");
    }
    if let Some(found) = core.split(['=', '/']).find(|part| uid(part)) {
        return word.replace(found, "UID");
    }
    if let Some((_, rest)) = core.split_once("https://127.0.0.1:") {
        let port: String = rest.chars().take_while(char::is_ascii_digit).collect();
        return word.replace(&port, "PORT");
    }
    word
}
