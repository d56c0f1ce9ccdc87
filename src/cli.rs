//! The command line: flags of the process, and what it does when it is not the hub of a cluster.

use std::{net::SocketAddr, num::NonZeroUsize, path::PathBuf, thread::available_parallelism, time::Duration};

use clap::Parser;
use vidra_core::kubeconfig::Allow;

use crate::config::{Inherit, Settings, memory, parse_duration};

/// Threads that work, where nothing is said: one delivers thousands of objects in a second.
const THREADS_MOST: usize = 4;

/// The hub's flags.
#[derive(Clone, Debug, Parser)]
#[command(
    name = "vidra-hub",
    version,
    about = "Delivers Kubernetes objects to member clusters and keeps them as declared.",
    args_conflicts_with_subcommands = true
)]
pub struct Flags {
    /// The namespace of the hub's own Secrets and of the registration Secrets.
    #[arg(long, env = "VIDRA_NAMESPACE", default_value = "vidra-system")]
    pub namespace: String,
    /// The hub cluster's kubeconfig; default: KUBECONFIG, ~/.kube/config, or the Pod's ServiceAccount.
    #[arg(long)]
    pub kubeconfig: Option<PathBuf>,
    /// The kubeconfig's context; default: its current one.
    #[arg(long)]
    pub context: Option<String>,
    /// The hub's id at its first start; default: a random one.
    #[arg(long, env = "VIDRA_HUB_ID")]
    pub hub_id: Option<String>,
    /// The name under which the process holds the Lease, such as its Pod's uid: processes of one name must never run at the
    /// same time, and who starts again has its Lease at once; default: a random one.
    #[arg(long, env = "VIDRA_HOLDER", hide = true)]
    pub holder: Option<String>,
    /// Where the Secret with the hub's identity is lost: make another one, and take over what is there.
    #[arg(long)]
    pub new_identity: bool,
    /// Take over the VidraTargets, VidraInventories and MemberClusters that a hub with another id has left.
    #[arg(long)]
    pub adopt_hub_state: bool,
    /// How often each target is compared although nothing happened.
    #[arg(long, default_value = "10m", value_parser = parse_duration)]
    pub interval: Duration,
    /// Compare on the interval only; a VidraResource may say otherwise.
    #[arg(long)]
    pub no_events: bool,
    /// Where /metrics, /healthz, /livez and /readyz are served.
    #[arg(long, default_value = "127.0.0.1:8080")]
    pub listen: SocketAddr,
    /// For development: members may be on this machine.
    #[arg(long)]
    pub allow_loopback_members: bool,
    /// For development: members may be spoken to without TLS.
    #[arg(long)]
    pub allow_http_members: bool,
    /// Logs as JSON lines.
    #[arg(long)]
    pub json_logs: bool,
    /// How many threads work; default: half as many as there are cores, one to four.
    #[arg(long)]
    pub threads: Option<NonZeroUsize>,
    /// Something else than to be the hub of a cluster.
    #[cfg(feature = "demo")]
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// What the program does when it is not the hub of a cluster.
#[cfg(feature = "demo")]
#[derive(Clone, Debug, clap::Subcommand)]
pub enum Command {
    /// Starts a hub and members in this process, in memory, and tells what the hub does with them.
    Demo(crate::demo::DemoFlags),
}

impl Flags {
    /// How many threads work. More of them than have work cost CPU, for they wake each other in vain
    /// (docs/decisions/0023).
    pub fn worker_threads(&self) -> usize {
        let cores = || available_parallelism().map_or(1, NonZeroUsize::get);
        #[cfg(feature = "demo")]
        if self.command.is_some() {
            return cores();
        }
        self.threads.map_or_else(|| (cores() / 2).clamp(1, THREADS_MOST), NonZeroUsize::get)
    }

    /// The Lease's holder, where somebody names one: what is empty names none.
    pub fn named_holder(&self) -> Option<String> {
        self.holder.clone().filter(|name| !name.is_empty())
    }

    /// What is logged where RUST_LOG says nothing: the demo's own lines are enough.
    pub fn default_log(&self) -> &'static str {
        #[cfg(feature = "demo")]
        if self.command.is_some() {
            return "error";
        }
        "info"
    }
}

impl From<&Flags> for Settings {
    fn from(flags: &Flags) -> Self {
        Self {
            namespace: flags.namespace.clone(),
            hub_id: flags.hub_id.clone(),
            inherit: match (flags.new_identity, flags.adopt_hub_state) {
                (true, _) => Inherit::NewIdentity,
                (false, true) => Inherit::Adopt,
                (false, false) => Inherit::Refuse,
            },
            interval: flags.interval,
            on_events: !flags.no_events,
            allow: Allow {
                loopback: flags.allow_loopback_members,
                http: flags.allow_http_members,
                proxy: false,
            },
            memory_limit: memory::limit(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_threads_work_as_was_said_and_at_least_one() {
        let threads = |more: &[&str]| {
            let flags = Flags::try_parse_from([&["vidra-hub"], more].concat());
            flags.map(|flags| flags.worker_threads())
        };
        assert_eq!(threads(&["--threads", "7"]).unwrap(), 7);
        assert!((1..=THREADS_MOST).contains(&threads(&[]).unwrap()));
        assert!(threads(&["--threads", "0"]).unwrap_err().to_string().contains("--threads"));
    }

    #[test]
    fn a_holder_without_a_name_is_none() {
        let holder =
            |name: &str| Flags::try_parse_from(["vidra-hub", "--holder", name]).unwrap().named_holder();
        assert_eq!(holder("b6c7"), Some("b6c7".to_owned()));
        // The Lease of a holder without a name is free.
        assert_eq!(holder(""), None);
    }
}
