//! Serves clusters in memory over HTTPS until it is told to stop: for kubectl, and for load on a process of
//! its own.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, value_parser};
use memkube::listen::{Server, Settings, User};
use memkube::{Cluster, Options, tokio_clock};
use serde_json::json;
use tokio::io::AsyncReadExt;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

const USER: &str = "admin";

#[derive(Debug, Parser)]
#[command(name = "memkube", about = "Kubernetes API servers in memory, over HTTPS on loopback.")]
struct Arguments {
    /// How many clusters: member-1, member-2 and so on.
    #[arg(long, default_value_t = 1, value_parser = value_parser!(u16).range(1..))]
    clusters: u16,
    /// The clusters by name, instead.
    #[arg(long, value_delimiter = ',', value_parser = name, conflicts_with = "clusters")]
    names: Vec<String>,
    /// Where the kubeconfig goes, with a context for each cluster; default: a temporary file.
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
    /// Of uids and tokens.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// End with standard input, too.
    #[arg(long)]
    until_stdin_closes: bool,
}

fn name(text: &str) -> Result<String, &'static str> {
    match text.trim() {
        "" => Err("a cluster needs a name"),
        name => Ok(name.to_owned()),
    }
}

impl Arguments {
    fn names(&self) -> Vec<String> {
        match self.names.as_slice() {
            [] => (1..=self.clusters).map(|number| format!("member-{number}")).collect(),
            names => names.to_vec(),
        }
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let names: BTreeSet<_> = arguments.names.iter().collect();
    if names.len() < arguments.names.len() {
        Arguments::command().error(ErrorKind::ValueValidation, "--names: two clusters have one name").exit();
    }
    allow_many_files();
    let done = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("start the runtime: {error}; try again"));
    let done = done.and_then(|runtime| {
        let done = runtime.block_on(serve(&arguments)).map_err(|error| error.to_string());
        // A read of stdin may still be waiting.
        runtime.shutdown_background();
        done
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&error);
            ExitCode::FAILURE
        }
    }
}

fn complain(text: &str) {
    let _ = writeln!(std::io::stderr(), "memkube: {text}");
}

/// Each cluster has a listener, each client a connection.
fn allow_many_files() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Where it fails, the listener that is one too many says so.
    let _ = setrlimit(Resource::Nofile, limit);
}

async fn serve(arguments: &Arguments) -> Result<(), Box<dyn std::error::Error>> {
    let mut interrupted = signal(SignalKind::interrupt())?;
    let mut terminated = signal(SignalKind::terminate())?;
    #[expect(clippy::disallowed_methods, reason = "people compare ages with their own clock")]
    let clock = tokio_clock(jiff::Timestamp::now());
    let names = arguments.names();
    let clusters = names.iter().zip(arguments.seed..).map(|(name, uids)| {
        let cluster = Cluster::new(name, Options { clock: clock.clone(), uids });
        cluster.set_recording(false);
        cluster
    });
    let settings = Settings { users: vec![User::named(USER)], seed: arguments.seed, first_port: 0 };
    let server = Server::start(clusters.collect(), &settings, &CancellationToken::new()).await?;
    let kubeconfig = arguments.kubeconfig.clone().map_or_else(default_kubeconfig, Ok)?;
    server.write_kubeconfig(&kubeconfig, USER)?;
    let clusters: Vec<_> =
        server.endpoints().iter().map(|one| json!({"name": one.name, "url": one.url})).collect();
    let line = json!({"pid": std::process::id(), "kubeconfig": kubeconfig, "clusters": clusters});
    writeln!(std::io::stdout(), "{line}")?;
    tokio::select! {
        _ = interrupted.recv() => {}
        _ = terminated.recv() => {}
        () = stdin_closed(), if arguments.until_stdin_closes => {}
    }
    server.stop().await;
    if arguments.kubeconfig.is_none() {
        std::fs::remove_file(kubeconfig)?;
    }
    Ok(())
}

/// `memkube-PID.yaml` among temporary files, taken away at the end.
fn default_kubeconfig() -> Result<PathBuf, std::io::Error> {
    std::path::absolute(std::env::temp_dir().join(format!("memkube-{}.yaml", std::process::id())))
}

async fn stdin_closed() {
    let mut buffer = [0; 1024];
    let mut stdin = tokio::io::stdin();
    while matches!(stdin.read(&mut buffer).await, Ok(1..)) {}
}
