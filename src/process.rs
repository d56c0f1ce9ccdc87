//! The process around the hub: its client, its Lease, its signals, what it serves, and how it ends.

use std::{sync::Arc, time::Duration};

use http::{HeaderValue, header};
use kube::{
    Client, Config,
    client::ClientBuilder,
    config::{KubeConfigOptions, Kubeconfig},
};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::watch,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower::timeout::TimeoutLayer;

use vidra_core::unseen;

use crate::{
    app::{self, Deps, RunError},
    base::{
        env::{Clock, Rng, SecretError, SystemClock, SystemRng},
        error::CallError,
        supervise::{Stop, vital},
    },
    cli::Flags,
    config::Settings,
    hub::crd_version,
    internal_limits::InternalLimits,
    leader_election::{
        keeper::{Keeper, KeeperError, Pulse},
        lease::Claim,
    },
    member::connect::{TlsConnect, USER_AGENT},
    metrics::Metrics,
    serve::{self, Readiness},
};

/// A response of the hub's API must have begun within this time.
const HEADERS_WITHIN: Duration = Duration::from_secs(30);
/// Longest words of the hub's API server that are told.
const SHOWN: usize = 512;

/// Why the process could not start or go on.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// The hub cluster's kubeconfig cannot be used.
    #[error("the hub's kubeconfig: {0}; see --kubeconfig and --context")]
    Kubeconfig(String),
    /// The address of --listen cannot be had.
    #[error("cannot listen on {address}: {source}; see --listen")]
    Listen {
        /// The address.
        address: std::net::SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// Signals cannot be handled.
    #[error("cannot wait for signals: {0}")]
    Signals(std::io::Error),
    /// The hub's CRDs are not installed, or it has no rights.
    #[error("the hub's API does not serve vidra.dev/v1alpha1 ({0}); apply the manifests in crds/ first")]
    NotInstalled(String),
    /// The hub's API server has not said what it serves: it does not answer, fails, or asks to wait.
    #[error(
        "the hub's API server does not say what it serves: {0}; wait until it does, or see --kubeconfig and --context"
    )]
    Untold(String),
    /// The hub could not start.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The thread that keeps the Lease cannot be had.
    #[error("cannot start the thread that keeps the Lease: {0}")]
    Thread(std::io::Error),
    /// That thread ended by itself.
    #[error("the thread that keeps the Lease ended by itself, before it had the Lease; the log says why")]
    KeeperDied,
    /// A name for the Lease's holder cannot be made.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// Another process took over.
    #[error("the Lease was lost; the process ends so that two never write at once")]
    LeaseLost,
    /// The demo could not be shown to its end.
    #[cfg(feature = "demo")]
    #[error("the demo: {0}")]
    Demo(#[from] crate::demo::DemoError),
}

/// Runs until SIGTERM or SIGINT.
pub async fn run(flags: Flags) -> Result<(), ProcessError> {
    #[cfg(feature = "demo")]
    if let Some(crate::cli::Command::Demo(demo)) = flags.command {
        return Ok(crate::demo::run(demo, stop_on_signal()?).await?);
    }
    let client = hub_client(&flags).await?;
    let listener = serve::listen(flags.listen)
        .await
        .map_err(|source| ProcessError::Listen { address: flags.listen, source })?;
    let stop = stop_on_signal()?;
    let (metrics, progress) = (Metrics::default(), Progress::default());
    let serve = serve::serve(listener, metrics.clone(), progress.readiness(), stop.clone());
    let lead = guarded(&flags, client, metrics.clone(), progress, &stop);
    beside(serve, lead, &Stop::new(stop.clone(), metrics.fallen().clone())).await
}

/// How far the process has come, for [`Readiness`].
#[derive(Default)]
struct Progress {
    waits: watch::Sender<bool>,
    leads: watch::Sender<bool>,
    synced: watch::Sender<bool>,
}

impl Progress {
    fn readiness(&self) -> Readiness {
        let Self { waits, leads, synced } = self;
        Readiness { waits: waits.subscribe(), leads: leads.subscribe(), synced: synced.subscribe() }
    }
}

/// Serves beside the hub until this one has ended. Where the server panics, all ends: nobody could tell how the hub is.
async fn beside(
    serve: impl Future<Output = ()>,
    lead: impl Future<Output = Result<(), ProcessError>>,
    ending: &Stop,
) -> Result<(), ProcessError> {
    let lead = async {
        let ended = lead.await;
        ending.token.cancel();
        ended
    };
    let ((), ended) = tokio::join!(vital("server", ending, serve), lead);
    match ending.why() {
        Some(why) => ended.and(Err(RunError::from(why).into())),
        None => ended,
    }
}

async fn guarded(
    flags: &Flags,
    client: Client,
    metrics: Metrics,
    progress: Progress,
    stop: &CancellationToken,
) -> Result<(), ProcessError> {
    let settings = Settings::from(flags);
    let (clock, rng): (Arc<dyn Clock>, Arc<dyn Rng>) =
        (Arc::new(SystemClock), Arc::new(SystemRng::default()));
    installed(&client).await?;
    // Before the Lease: the hub that has it goes on with the CRDs that it knows.
    crd_version::check(&client).await.map_err(RunError::from)?;
    let holder = match flags.named_holder() {
        Some(holder) => holder,
        None => format!("vidra-hub-{}", rng.name(8)?),
    };
    let (flags, namespace, of_lease) = (flags.clone(), settings.namespace.clone(), clock.clone());
    let Progress { waits, leads, synced } = progress;
    let claim = async move {
        let client = hub_client(&flags).await?;
        Ok::<_, ProcessError>(Claim::new(client, &namespace, holder, of_lease).telling(waits))
    };
    // Beats until the runtime ends: also while the hub takes its time to end.
    let pulse = Pulse::default();
    TaskTracker::new().spawn(pulse.clone().beat());
    let hangs = pulse.watch(|| std::process::exit(1));
    let keeper = Keeper::acquire(claim, stop.clone(), hangs).await.map_err(|error| match error {
        KeeperError::Thread(error) => ProcessError::Thread(error),
        KeeperError::Died => ProcessError::KeeperDied,
        KeeperError::Claim(error) => error,
    })?;
    let Some(keeper) = keeper else { return Ok(()) };
    leads.send_replace(true);
    metrics.leads();
    tracing::info!("the hub starts");
    let deps = Deps {
        client,
        connect: Arc::new(TlsConnect::new(settings.allow)),
        clock,
        rng,
        metrics,
        limits: InternalLimits::default(),
        tenure: Some(keeper.tenure.clone()),
    };
    lead(keeper, settings, deps, synced, stop).await
}

/// Runs the hub under a Lease that was acquired, which is given back when the hub has ended, however it did.
///
/// # Errors
/// The hub could not start or go on, or the Lease was lost; `stop` is cancelled then.
pub async fn lead(
    mut keeper: Keeper,
    settings: Settings,
    deps: Deps,
    synced: watch::Sender<bool>,
    stop: &CancellationToken,
) -> Result<(), ProcessError> {
    let (ended, held) = under_claim(keeper.held(), settings, deps, synced, stop).await;
    keeper.end().await;
    ended?;
    tracing::info!("the hub ended");
    if held { Ok(()) } else { Err(ProcessError::LeaseLost) }
}

/// Runs the hub under a Lease that was acquired, until `stop` or until `holding` says that the Lease was lost.
/// Returns how the hub ended, and whether the Lease was held until then.
///
/// # Errors
/// The hub's identity cannot be had; `stop` is cancelled then.
pub async fn under_claim(
    holding: impl Future<Output = bool>,
    settings: Settings,
    deps: Deps,
    synced: watch::Sender<bool>,
    stop: &CancellationToken,
) -> (Result<(), RunError>, bool) {
    let working = stop.child_token();
    let hold = async {
        let held = holding.await;
        working.cancel();
        held
    };
    let run = async {
        let ended = app::run(settings, deps, synced, working.clone()).await;
        // Without a hub the process has nothing to keep the Lease for.
        stop.cancel();
        ended
    };
    tokio::join!(run, hold)
}

async fn hub_client(flags: &Flags) -> Result<Client, ProcessError> {
    let bad = |error: &dyn std::fmt::Display| ProcessError::Kubeconfig(error.to_string());
    let options = KubeConfigOptions { context: flags.context.clone(), ..KubeConfigOptions::default() };
    let mut config = match &flags.kubeconfig {
        Some(path) => {
            let kubeconfig = Kubeconfig::read_from(path).map_err(|error| bad(&error))?;
            Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(|error| bad(&error))?
        }
        None if flags.context.is_some() => {
            Config::from_kubeconfig(&options).await.map_err(|error| bad(&error))?
        }
        None => Config::infer().await.map_err(|error| bad(&error))?,
    };
    // One policy of retries: the queue's.
    config.default_retry = false;
    config.headers.push((header::USER_AGENT, HeaderValue::from_static(USER_AGENT)));
    let builder = ClientBuilder::try_from(config).map_err(|error| bad(&error))?;
    // Neither a list nor the start of a watch has a limit of its own.
    Ok(builder.with_layer(&TimeoutLayer::new(HEADERS_WITHIN)).build())
}

/// One clear line instead of watches that fail for ever.
async fn installed(client: &Client) -> Result<(), ProcessError> {
    let group = format!("{}/{}", vidra_api::GROUP, vidra_api::VERSION);
    match client.list_api_group_resources(&group).await {
        Ok(_) => Ok(()),
        // Of a group that it does not know an API server says so in a line of text, which is no Status.
        Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404) => {
            Err(ProcessError::NotInstalled(unseen::shown(&status.message, SHOWN)))
        }
        Err(error) => Err(ProcessError::Untold(CallError::from(error).message)),
    }
}

fn stop_on_signal() -> Result<CancellationToken, ProcessError> {
    let mut terminate = signal(SignalKind::terminate()).map_err(ProcessError::Signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(ProcessError::Signals)?;
    let stop = CancellationToken::new();
    let token = stop.clone();
    let wait = async move {
        tokio::select! {
            biased;
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            () = token.cancelled() => {}
        }
        token.cancel();
    };
    TaskTracker::new().spawn(wait);
    Ok(stop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_crds_are_missed_only_where_the_api_server_says_that_it_serves_none() {
        let status = |code: u16, reason: &str| {
            let status = serde_json::json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
                "reason": reason, "message": "its words"});
            status.to_string()
        };
        for (code, body, is_missed) in [
            (404, "404 page not found\n".to_owned(), true),
            (404, status(404, "NotFound"), true),
            (403, status(403, "Forbidden"), true),
            (401, status(401, "Unauthorized"), false),
            (429, status(429, "TooManyRequests"), false),
            (429, "Too many requests, please try again later.\n".to_owned(), false),
            (500, status(500, "InternalError"), false),
            (503, "service unavailable\n".to_owned(), false),
            (200, "<html>\n".to_owned(), false),
        ] {
            let told = body.clone();
            let answer = move |_: http::Request<kube::client::Body>| {
                let body = kube::client::Body::from(body.clone().into_bytes());
                async move { http::Response::builder().status(code).body(body) }
            };
            let client = Client::new(tower::service_fn(answer), "default");
            let error = installed(&client).await.expect_err("it serves nothing");
            assert_eq!(matches!(error, ProcessError::NotInstalled(_)), is_missed, "{code} {told}: {error}");
            assert_eq!(error.to_string().contains("wait until it does"), !is_missed, "{error}");
        }
        let nobody = |_: http::Request<kube::client::Body>| async {
            Err::<http::Response<kube::client::Body>, _>(std::io::Error::other("connection refused"))
        };
        let error = installed(&Client::new(tower::service_fn(nobody), "default")).await;
        let error = error.expect_err("nobody answers").to_string();
        assert!(error.contains("does not say what it serves: connection refused; wait"), "{error}");
    }

    #[tokio::test]
    async fn the_panic_of_the_server_ends_the_hub_and_the_process_with_an_error() {
        let stop = CancellationToken::new();
        let lead = async {
            stop.cancelled().await;
            Ok(())
        };
        let ending = Stop::new(stop.clone(), Default::default());
        let ended = beside(async { panic!("on purpose") }, lead, &ending).await;
        let error = ended.expect_err("it panicked").to_string();
        assert!(error.contains("the server panicked"), "{error}");
    }

    #[tokio::test]
    async fn the_end_of_the_hub_ends_the_server_and_its_error_is_the_process_own() {
        let stop = CancellationToken::new();
        let ending = Stop::new(stop.clone(), Default::default());
        let ended = beside(stop.cancelled(), async { Err(ProcessError::LeaseLost) }, &ending).await;
        assert!(matches!(ended, Err(ProcessError::LeaseLost)), "{ended:?}");
    }
}
