//! Runs the hub inside the test's process, through the same door as the binary.

use std::sync::Arc;

use anyhow::{Result, bail};
use kube::Client;
use tokio::{sync::watch, task::JoinHandle};
use tokio_util::sync::CancellationToken;
use vidra_core::kubeconfig::Allow;
use vidra_hub::{
    app::{self, Deps, RunError},
    base::env::{SystemClock, SystemRng},
    config::Settings,
    internal_limits::InternalLimits,
    member::connect::TlsConnect,
    metrics::Metrics,
};

/// A running hub; dropping it ends it without waiting, [`RunningHub::stop`] waits.
pub struct RunningHub {
    stop: CancellationToken,
    task: Option<JoinHandle<Result<(), RunError>>>,
    /// Its counters.
    pub metrics: Metrics,
}

/// Settings of a hub in tests: events on, an hour's interval, members on loopback.
pub fn settings(namespace: &str) -> Settings {
    Settings {
        namespace: namespace.to_owned(),
        hub_id: None,
        inherit: Default::default(),
        interval: std::time::Duration::from_secs(3600),
        on_events: true,
        allow: Allow { loopback: true, http: false, proxy: false },
        memory_limit: None,
    }
}

impl RunningHub {
    /// Starts a hub against real clusters and waits until it knows its objects.
    pub async fn start(client: Client, settings: Settings) -> Result<Self> {
        let deps = Deps {
            client,
            connect: Arc::new(TlsConnect::new(settings.allow)),
            clock: Arc::new(SystemClock),
            rng: Arc::new(SystemRng::default()),
            metrics: Metrics::default(),
            limits: InternalLimits::default(),
            tenure: None,
        };
        Self::start_with(deps, settings).await
    }

    /// Starts a hub with these ways to members, time and chance, and waits until it knows its objects.
    pub async fn start_with(deps: Deps, settings: Settings) -> Result<Self> {
        let metrics = deps.metrics.clone();
        let (stop, synced) = (CancellationToken::new(), watch::Sender::new(false));
        let mut known = synced.subscribe();
        #[expect(clippy::disallowed_methods, reason = "the handle is awaited in stop()")]
        let task = tokio::spawn(app::run(settings, deps, synced, stop.clone()));
        if known.wait_for(|synced| *synced).await.is_err() {
            task.await??;
            bail!("the hub ended at once");
        }
        Ok(Self { stop, task: Some(task), metrics })
    }

    /// Waits until it has ended by itself; why.
    pub async fn ended(mut self) -> String {
        match self.task.take().expect("it runs").await {
            Ok(Err(error)) => error.to_string(),
            Ok(Ok(())) => "nothing is amiss".to_owned(),
            Err(error) => error.to_string(),
        }
    }

    /// Ends it and waits until all of it has ended.
    pub async fn stop(mut self) -> Result<()> {
        self.stop.cancel();
        match self.task.take() {
            Some(task) => Ok(task.await??),
            None => Ok(()),
        }
    }
}

impl Drop for RunningHub {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
