//! kubectl on memkube over HTTPS, in two releases: 1.36, and 1.32 as people still have it.
//!
//! `sessions/*.txt` are what a person would type, each line after `$ ` a command for sh, with what the real
//! server made kubectl print, and its exit code in brackets where it is not 0. Ages, times, uids, addresses and
//! the namespace are replaced by words. Where 1.32 prints something else, `NAME.old.txt` beside it has that.
//! A test that runs only with `--ignored` runs the sessions on the real server of `MEMKUBE_REAL_KUBECONFIG` (one whose
//! only controllers are the garbage collector and that of namespaces), and with `MEMKUBE_RECORD=1` as well the files
//! are written again.

mod run;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use memkube::listen::{Server, Settings, User};
use memkube::{Cluster, Options, tokio_clock};
use run::Bed;
use tokio_util::sync::CancellationToken;

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kubectl").join(path)
}

/// The names of all sessions.
fn sessions() -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(here("sessions"))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        names.extend(name.strip_suffix(".txt").filter(|name| !name.ends_with(".old")).map(str::to_owned));
    }
    names.sort();
    Ok(names)
}

fn read(name: &str, suffix: &str) -> Result<String> {
    let own = here(&format!("sessions/{name}{suffix}.txt"));
    let path = if own.exists() { own } else { here(&format!("sessions/{name}.txt")) };
    std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))
}

/// The commands whose outputs differ, with both.
fn difference(wanted: &str, found: &str) -> Option<String> {
    let blocks = |text: &str| -> Vec<String> { text.split("\n$ ").map(str::to_owned).collect() };
    let (wanted, found) = (blocks(wanted), blocks(found));
    let pairs = wanted.iter().zip(&found).filter(|(one, other)| one.trim_end() != other.trim_end());
    let lines: Vec<_> = pairs.map(|(one, other)| format!("  real: $ {one}\n  memkube: $ {other}")).collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// One cluster of its own for each session and kubectl.
async fn serve(names: &[String]) -> Result<Server> {
    #[expect(clippy::disallowed_methods, reason = "kubectl compares ages with its own clock")]
    let clock = tokio_clock(jiff::Timestamp::now());
    let cluster = |name: &String| Cluster::new(name, Options { clock: clock.clone(), uids: 7 });
    let clusters = names.iter().map(cluster).collect();
    let settings = Settings { users: vec![User::named("admin")], ..Settings::default() };
    Ok(Server::start(clusters, &settings, &CancellationToken::new()).await?)
}

#[tokio::test(flavor = "multi_thread")]
async fn both_kubectls_print_what_a_real_server_makes_them_print() -> Result<()> {
    let kubectls = Arc::new(run::kubectls().await?);
    let sessions = sessions()?;
    ensure!(!sessions.is_empty());
    let pairs = kubectls.iter().flat_map(|kubectl| sessions.iter().map(move |name| (kubectl, name)));
    let pairs: Vec<_> = pairs.collect();
    let names: Vec<_> = pairs.iter().map(|(kubectl, name)| format!("{name}{}", kubectl.suffix)).collect();
    let server = serve(&names).await?;
    let runs = pairs.iter().zip(&names).map(|((kubectl, session), name)| {
        let kubeconfig = server.kubeconfig_of(name, "admin");
        async move {
            let bed = Bed { kubeconfig: kubeconfig?, kubectl: kubectl.path.clone(), real: false };
            let wanted = read(session, kubectl.suffix)?;
            let found = bed.session(&wanted).await.with_context(|| name.clone())?;
            anyhow::Ok(difference(&wanted, &found).map(|text| format!("{name}:\n{text}")))
        }
    });
    let wrong: Vec<_> = run::side_by_side(runs).await?.into_iter().flatten().collect();
    server.stop().await;
    if wrong.is_empty() { Ok(()) } else { bail!("kubectl prints something else:\n{}", wrong.join("\n")) }
}

/// Holds the sessions to the real server, or records them again.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "the real server that one names"]
async fn the_real_server_still_makes_kubectl_print_that() -> Result<()> {
    let path = std::env::var_os("MEMKUBE_REAL_KUBECONFIG")
        .context("MEMKUBE_REAL_KUBECONFIG is to name the kubeconfig of a real server")?;
    let record = std::env::var_os("MEMKUBE_RECORD").is_some();
    let kubeconfig = std::fs::read_to_string(path)?;
    for name in sessions()? {
        let mut new = String::new();
        for kubectl in run::kubectls().await? {
            let bed = Bed { kubeconfig: kubeconfig.clone(), kubectl: kubectl.path.clone(), real: true };
            let wanted = read(&name, if record { "" } else { kubectl.suffix })?;
            let found = bed.session(&wanted).await.with_context(|| name.clone())?;
            let file = here(&format!("sessions/{name}{}.txt", kubectl.suffix));
            match () {
                () if !record => ensure!(wanted == found, "{name}: {:?}", difference(&wanted, &found)),
                () if found == new => drop(std::fs::remove_file(file)),
                () => std::fs::write(file, &found)?,
            }
            new = if new.is_empty() { found } else { new };
        }
    }
    Ok(())
}
