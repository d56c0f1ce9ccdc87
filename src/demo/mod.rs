//! `vidra-hub demo`: a hub and its members in this process, in memory, and what the hub does with them, told as
//! it happens.
//!
//! ```text
//! run -> Fleet (clusters of memkube, served to kubectl; people; the hub, as it always runs)
//!    \-> shop (one VidraResource on three members, looked at closely) | bulk (many members, many objects)
//!          \-> Teller (one line for each thing that happens, with its time)
//! ```
//! A cargo feature, off in release images.

mod bulk;
mod fleet;
mod shop;
mod teller;
mod watches;

use std::{sync::Arc, time::Duration};

use tokio_util::sync::CancellationToken;

use self::{fleet::Fleet, teller::Teller};

/// What the demo shows.
#[derive(Clone, Debug, clap::Args)]
pub struct DemoFlags {
    /// End when everything was seen; else it stays until Ctrl-C.
    #[arg(long)]
    pub once: bool,
    /// How many members.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub members: u16,
    /// Deliver this many ConfigMaps to each member instead of the shop.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub objects: Option<u32>,
}

/// Why the demo ended.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// The clusters are not served.
    #[error("the demo's clusters: {0}")]
    Listen(#[from] memkube::listen::ListenError),
    /// Its directory cannot be made.
    #[error("a directory for the demo's kubeconfig: {0}; set TMPDIR to one that can be written")]
    Directory(std::io::Error),
    /// The address of its counters cannot be had.
    #[error("the demo's counters cannot be served: {0}")]
    Serve(std::io::Error),
    /// A step of a person in it was refused.
    #[error("{step}: {cause}")]
    Step {
        /// What was done.
        step: String,
        /// What came of it.
        cause: String,
    },
    /// What was to be seen did not come.
    #[error("not within {within:?}: {what}; run it again with RUST_LOG=info to see what the hub says")]
    Late {
        /// What was waited for.
        what: String,
        /// How long.
        within: Duration,
    },
    /// The hub did not start.
    #[error("the demo's hub: {0}")]
    Hub(String),
}

/// Runs it until everything was seen, or until `stop`.
pub async fn run(flags: DemoFlags, stop: CancellationToken) -> Result<(), DemoError> {
    let teller = Arc::new(Teller::new());
    let fleet = Fleet::start(&flags, &teller).await?;
    let shown = stop.run_until_cancelled(show(&flags, &fleet, &teller, &stop)).await;
    fleet.end().await;
    shown.unwrap_or(Ok(()))
}

async fn show(
    flags: &DemoFlags,
    fleet: &Fleet,
    teller: &Arc<Teller>,
    stop: &CancellationToken,
) -> Result<(), DemoError> {
    match flags.objects {
        Some(objects) => bulk::show(fleet, teller, objects).await?,
        None => shop::show(fleet, teller).await?,
    }
    if flags.once {
        return Ok(());
    }
    invite(fleet, teller, flags.objects.is_none());
    // The rest is for whoever watches; it goes on until Ctrl-C.
    stop.cancelled().await;
    Ok(())
}

fn invite(fleet: &Fleet, teller: &Teller, shop: bool) {
    teller.plain("\nAll of it stays up until Ctrl-C. In another terminal:\n");
    teller.plain(&format!("  export KUBECONFIG={}\n", fleet.kubeconfig().display()));
    let mut commands = vec![
        ("kubectl --context hub get vr,vt,mc -A -o wide", "the fleet"),
        ("kubectl --context hub get vt -A -w", "... as it changes"),
    ];
    if shop {
        commands.extend([
            ("kubectl --context berlin -n shop delete configmap shop", "it comes back"),
            ("kubectl --context hub -n team-a edit vr shop", "on all members when you save it"),
            ("kubectl --context hub -n team-a get events", "what the hub did"),
            ("kubectl --context hub -n team-a delete vr shop", "all of it goes"),
        ]);
    }
    for (command, what) in commands {
        teller.plain(&format!("  {command:<60} # {what}"));
    }
    let counters = format!("curl -s http://{}/metrics", fleet.counters());
    teller.plain(&format!("  {counters:<60} # its counters\n"));
}
