//! The command line.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use vidra_core::{health::HealthStatus, select};

use crate::cluster::Place;

/// See the fields.
#[derive(Clone, Debug, Parser)]
#[command(
    name = "kubectl-vidra",
    bin_name = "kubectl vidra",
    version,
    about = "What a Vidra hub knows of its fleet: drift, status, members.",
    after_help = "Exit codes: 0; 1 for drift (with --exit-code), a difference, what is not Ready, or not gone, at the end, or an object whose health is not what is required; 2 when it could not be done."
)]
pub struct Arguments {
    /// The hub's kubeconfig; default: KUBECONFIG, or ~/.kube/config.
    #[arg(long, global = true, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The hub's context in it; default: the current one.
    #[arg(long, global = true)]
    context: Option<String>,
    /// The namespace on the hub; default: that of the context.
    #[arg(short, long, global = true)]
    namespace: Option<String>,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

impl Arguments {
    /// Which hub, and where in it.
    pub fn place(&self) -> Place {
        Place {
            kubeconfig: self.kubeconfig.clone(),
            context: self.context.clone(),
            namespace: self.namespace.clone(),
        }
    }
}

/// What to do.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// What differs from what was delivered, on which clusters, since when, and which field manager holds it now.
    Drift(DriftFlags),
    /// VidraResources as trees: their targets, and what is not well.
    Status(StatusFlags),
    /// What the hub is about to do, or would do with a changed VidraResource, by cluster. Exit code 1: something.
    Diff(DiffFlags),
    /// The member clusters, and how what is delivered to them fares.
    Clusters(ClustersFlags),
    /// Has the hub look at all targets of VidraResources again, and waits until it has.
    Reconcile(ReconcileFlags),
    /// Judges objects as the hub would: of a file, without any cluster but with --hub; or what NAME has in a member. Exit
    /// code 1: one is Failed, or not what is required.
    Health(HealthFlags),
    /// Which targets other health rules would turn: those of this plug-in's version, before the hub is upgraded to it, or
    /// those of a file. Exit code 1: some would, or may.
    Check(CheckFlags),
    /// Registers a member: its ServiceAccount and rights in the member, then the Secret on the hub.
    Join(JoinFlags),
}

/// Flags of `drift`.
#[derive(Clone, Debug, Args)]
pub struct DriftFlags {
    /// In all namespaces.
    #[arg(short = 'A', long)]
    pub all_namespaces: bool,
    /// On this cluster only.
    #[arg(long)]
    pub cluster: Option<String>,
    /// How it is shown.
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Format,
    /// Also drift that the hub has corrected.
    #[arg(long)]
    pub corrected: bool,
    /// Exit with 1 when there is drift.
    #[arg(long)]
    pub exit_code: bool,
}

/// How a report is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    #[default]
    Table,
    /// For people with wide screens: all clusters, all fields.
    Wide,
    /// For programs, as JSON.
    Json,
    /// For programs, as YAML.
    Yaml,
}

/// Flags of `status`.
#[derive(Clone, Debug, Args)]
pub struct StatusFlags {
    /// The VidraResource; default: all.
    pub name: Option<String>,
    /// In all namespaces.
    #[arg(short = 'A', long, conflicts_with = "name")]
    pub all_namespaces: bool,
    /// What spec.statusFeedback brought back, as a table by cluster, in place of the tree.
    #[arg(long, requires = "name", conflicts_with = "by")]
    pub values: bool,
    /// The clusters by what this value is on them, in place of the tree.
    #[arg(long, value_name = "VALUE", requires = "name")]
    pub by: Option<String>,
}

/// Flags of `diff`.
#[derive(Clone, Debug, Args)]
#[command(group = clap::ArgGroup::new("what").required(true).args(["name", "file"]))]
pub struct DiffFlags {
    /// The VidraResource, as it is on the hub: what is still to be done for it.
    pub name: Option<String>,
    /// VidraResources in a file, `-` for standard input: what applying them would change.
    #[arg(short, long = "filename", value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// On this cluster only.
    #[arg(long)]
    pub cluster: Option<String>,
}

/// Flags of `clusters`.
#[derive(Clone, Debug, Args)]
pub struct ClustersFlags {
    /// More columns with `wide`.
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Width,
}

/// How wide a table is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Width {
    /// The usual columns.
    #[default]
    Table,
    /// All columns.
    Wide,
}

/// Flags of `reconcile`.
#[derive(Clone, Debug, Args)]
pub struct ReconcileFlags {
    /// The VidraResources.
    #[arg(required_unless_present = "all")]
    pub names: Vec<String>,
    /// All of the namespace.
    #[arg(long, conflicts_with = "names")]
    pub all: bool,
    /// With --all: of all namespaces.
    #[arg(short = 'A', long, requires = "all")]
    pub all_namespaces: bool,
    /// Wait until the hub has looked, they are Ready and what is to go is gone, or they will not be Ready.
    #[arg(long, default_value_t = true, default_missing_value = "true", num_args = 0..=1, require_equals = true, action = clap::ArgAction::Set)]
    pub wait: bool,
    /// Do not wait for what is to go: targets that are taken down, objects that are no longer declared.
    #[arg(long)]
    pub ignore_removals: bool,
    /// So many targets of each VidraResource whose members cannot be reached, to deliver to or to remove from, do not
    /// fail it.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub allow_unreachable: usize,
    /// How long to wait.
    #[arg(long, default_value = "5m", value_parser = duration)]
    pub timeout: Duration,
}

/// Flags of `health`.
#[derive(Clone, Debug, Args)]
#[command(group = clap::ArgGroup::new("which").required(true).args(["name", "files"]))]
pub struct HealthFlags {
    /// The VidraResource whose objects are judged as they are in the member --cluster, in place of those of a file: they are
    /// read there with your own rights, by the context of the member's name.
    #[arg(requires = "cluster")]
    pub name: Option<String>,
    /// Objects with their status, as `kubectl get -o yaml` prints them, `-` for standard input; several times for
    /// several files. What CRDs among them declare counts for objects of their kinds.
    #[arg(short, long = "filename", value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// With a name: the member.
    #[arg(long, requires = "name")]
    pub cluster: Option<String>,
    /// With a name: the kubeconfig that has the member's context; default: the hub's.
    #[arg(long, value_name = "FILE", requires = "name")]
    pub member_kubeconfig: Option<PathBuf>,
    /// Health rules beside those that the hub ships: ConfigMaps of fleet rules, a list of rules, or a VidraResource
    /// with spec.healthCheckExprs.
    #[arg(long, value_name = "FILE")]
    pub rules: Option<PathBuf>,
    /// With the rules that the hub has: those of its fleet, beside those that this version ships.
    #[arg(long, conflicts_with = "rules")]
    pub hub: bool,
    /// With --hub: and those of this VidraResource; default: the one that is named.
    #[arg(long, value_name = "NAME", requires = "hub")]
    pub resource: Option<String>,
    /// With --hub: the hub's own namespace, whose ConfigMaps have the rules of the fleet.
    #[arg(long, default_value = "vidra-system", requires = "hub")]
    pub hub_namespace: String,
    /// In place of the verdicts, a rule for each kind of which an object is not Current, or is so without evidence: made
    /// of names in its status, for you to check.
    #[arg(long, conflicts_with_all = ["require", "output"])]
    pub suggest: bool,
    /// What each object must be, such as Current, or Current,Suspended; default: anything but Failed.
    #[arg(long, value_name = "HEALTH", value_delimiter = ',', value_parser = health)]
    pub require: Vec<HealthStatus>,
    /// How old each object is, where the hub waits for a first status or for metrics; default: longer than that.
    #[arg(long, value_name = "AGE", value_parser = duration, conflicts_with = "name")]
    pub age: Option<Duration>,
    /// How it is shown.
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Format,
}

/// Flags of `check`.
#[derive(Clone, Debug, Args)]
pub struct CheckFlags {
    /// The VidraResource; default: all.
    pub name: Option<String>,
    /// In all namespaces.
    #[arg(short = 'A', long, conflicts_with = "name")]
    pub all_namespaces: bool,
    /// ConfigMaps of the fleet's rules as they would be: they take the place of the hub's of their names. Default: the
    /// hub's, with the rules that this version ships.
    #[arg(long, value_name = "FILE")]
    pub rules: Option<PathBuf>,
    /// On this cluster only.
    #[arg(long)]
    pub cluster: Option<String>,
    /// Read the objects in the members, with your own rights there, by contexts of the members' names.
    #[arg(long)]
    pub members: bool,
    /// The kubeconfig that has these contexts; default: the hub's.
    #[arg(long, value_name = "FILE", requires = "members")]
    pub member_kubeconfig: Option<PathBuf>,
    /// The hub's own namespace, whose ConfigMaps have the rules of the fleet.
    #[arg(long, default_value = "vidra-system")]
    pub hub_namespace: String,
}

/// Flags of `join`.
#[derive(Clone, Debug, Args)]
pub struct JoinFlags {
    /// What the member is to be called.
    pub name: String,
    /// A kubeconfig with which you may make roles in the member; it is not kept.
    #[arg(long, value_name = "FILE")]
    pub member_kubeconfig: PathBuf,
    /// Its context; default: the current one.
    #[arg(long, value_name = "CONTEXT")]
    pub member_context: Option<String>,
    /// What the hub may do there: `full`, `kinds` or `report`, as clusters/member-*.yaml have it, or a file of that
    /// form.
    #[arg(long, default_value = "kinds")]
    pub rights: String,
    /// The member's address as the hub reaches it; default: that of its kubeconfig.
    #[arg(long, value_name = "URL")]
    pub server: Option<String>,
    /// Labels of the member, which clusterSelector selects by: k=v,...
    #[arg(long, value_delimiter = ',', value_parser = label)]
    pub labels: Vec<(String, String)>,
    /// Namespaces of the hub whose VidraResources may go to the member: a,b,... Default: the hub's setting
    /// defaultAllowedNamespaces, else all. Later spec.allowedNamespaces of the MemberCluster says so.
    #[arg(long, value_name = "NAMESPACES", value_parser = namespaces)]
    pub allowed_namespaces: Option<BTreeSet<String>>,
    /// The hub's own namespace.
    #[arg(long, default_value = "vidra-system")]
    pub hub_namespace: String,
    /// The member has left, and is to be registered again.
    #[arg(long)]
    pub again: bool,
    /// Say what would be done, and do nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// How long to wait for the token, and for the member to be Ready.
    #[arg(long, default_value = "2m", value_parser = duration)]
    pub timeout: Duration,
}

fn duration(text: &str) -> Result<Duration, String> {
    let bad = || format!("{text:?} is no duration; write it like 30s, 5m or 1h30m");
    let span: jiff::SignedDuration = text.parse().map_err(|_| bad())?;
    Duration::try_from(span).map_err(|_| bad())
}

fn health(text: &str) -> Result<HealthStatus, String> {
    use HealthStatus::{Current, Failed, InProgress, Suspended, Terminating, Unknown};
    let all = [Current, Suspended, InProgress, Failed, Terminating, Unknown];
    let found = all.into_iter().find(|health| health.to_string().eq_ignore_ascii_case(text));
    found.ok_or_else(|| {
        format!("{text:?} is no health; write one of {}", all.map(|health| health.to_string()).join(", "))
    })
}

fn namespaces(text: &str) -> Result<BTreeSet<String>, String> {
    let names = select::namespaces(text, select::NAMESPACES_MAX)?;
    if names.is_empty() {
        return Err("write at least one name of a namespace".to_owned());
    }
    Ok(names)
}

fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(format!("{text:?} is no label; write it like env=prod")),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn reconcile_waits_unless_it_is_told_not_to() {
        let waits = |more: &[&str]| {
            let all = ["kubectl-vidra", "reconcile", "shop"].iter().chain(more);
            match Arguments::try_parse_from(all).unwrap().command {
                Command::Reconcile(flags) => (flags.wait, flags.timeout),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(waits(&[]), (true, Duration::from_secs(300)));
        assert_eq!(waits(&["--wait=false", "--timeout", "1h30m"]), (false, Duration::from_secs(5400)));
    }
}
