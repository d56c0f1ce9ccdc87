//! Serves clusters in memory over HTTPS until it is told to stop: for kubectl, and for load on a process of
//! its own.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use memkube::listen::{Server, Settings, User};
use memkube::{Cluster, Options, tokio_clock};
use serde_json::json;
use tokio::io::AsyncReadExt;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

const USAGE: &str =
    "usage: memkube [--clusters N | --names A,B,C] [--kubeconfig FILE] [--seed N] [--until-stdin-closes]";
const USER: &str = "admin";

#[derive(Debug, Default, PartialEq)]
struct Arguments {
    names: Vec<String>,
    kubeconfig: Option<PathBuf>,
    seed: u64,
    until_stdin_closes: bool,
}

impl Arguments {
    fn read(mut given: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut arguments = Arguments::default();
        let mut chosen = None;
        while let Some(flag) = given.next() {
            let (flag, value) = match flag.split_once('=') {
                Some((flag, value)) => (flag.to_owned(), Some(value.to_owned())),
                None => (flag, None),
            };
            let mut value = || value.clone().or_else(|| given.next()).ok_or(format!("{flag} needs a value"));
            match flag.as_str() {
                "--clusters" | "--names" if chosen.is_some() => {
                    return Err("--clusters and --names exclude each other".to_owned());
                }
                "--clusters" => {
                    let count: usize = number(&flag, &value()?)?;
                    arguments.names = (1..=count).map(|number| format!("member-{number}")).collect();
                    chosen = Some(flag);
                }
                "--names" => {
                    arguments.names = value()?.split(',').map(|name| name.trim().to_owned()).collect();
                    chosen = Some(flag);
                }
                "--kubeconfig" => arguments.kubeconfig = Some(value()?.into()),
                "--seed" => arguments.seed = number(&flag, &value()?)?,
                "--until-stdin-closes" => arguments.until_stdin_closes = true,
                _ => return Err(format!("{flag} is not known")),
            }
        }
        if chosen.is_none() {
            arguments.names = vec!["member-1".to_owned()];
        }
        if arguments.names.is_empty() || arguments.names.iter().any(String::is_empty) {
            return Err("a cluster needs a name, and at least one is served".to_owned());
        }
        let mut sorted = arguments.names.clone();
        sorted.sort();
        match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(format!("two clusters are named {:?}", pair[0])),
            None => Ok(arguments),
        }
    }
}

fn number<N: std::str::FromStr>(flag: &str, text: &str) -> Result<N, String> {
    text.parse().map_err(|_| format!("{flag} needs a number, not {text:?}"))
}

fn main() -> ExitCode {
    let arguments = match Arguments::read(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(wrong) => {
            complain(&format!("{wrong}; {USAGE}"));
            return ExitCode::from(2);
        }
    };
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
    let clusters = arguments.names.iter().zip(arguments.seed..).map(|(name, uids)| {
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
