//! `bench NAME [--json FILE]`; `cargo xtask bench` builds what it needs and runs it.
#![expect(clippy::print_stdout, reason = "its output is what it is for")]

use std::{io::IsTerminal, path::PathBuf};

use anyhow::{Context, Result};
use clap::{Parser, ValueEnum};
use testkit::bench;

#[derive(Parser)]
#[command(name = "bench", about = "Measures what the hub costs.")]
struct Arguments {
    /// What to measure.
    name: Name,
    /// Writes the figures into this file, for programs.
    #[arg(long)]
    json: Option<PathBuf>,
    /// The hub's binary; default: vidra-hub beside this one.
    #[arg(long)]
    hub: Option<PathBuf>,
    /// hubstate: how many VidraResources; fewer than the default measure something else.
    #[arg(long, default_value_t = bench::Size::default().resources)]
    resources: usize,
    /// hubstate: entries in a target's inventory.
    #[arg(long, default_value_t = bench::Size::default().entries)]
    entries: usize,
    /// isolation: how many edits with members in each state; fewer than the default show only that it runs.
    #[arg(long, default_value_t = bench::Isolation::default().samples)]
    samples: usize,
    /// isolation: the states to look at, with commas between; all without it.
    #[arg(long, value_delimiter = ',')]
    states: Vec<String>,
    /// heal: what is done to the objects, of edit, delete and burst, with commas between; all without it.
    #[arg(long, value_delimiter = ',')]
    harms: Vec<String>,
    /// scale, health: how many clusters.
    #[arg(long, default_value_t = bench::Scale::default().clusters)]
    clusters: usize,
    /// heal, quiet, restart: a health rule of the VidraResource judges each object.
    #[arg(long)]
    rule: bool,
    /// scale: how many objects in each.
    #[arg(long, default_value_t = bench::Scale::default().objects)]
    objects: usize,
}

#[derive(Clone, Copy, ValueEnum)]
enum Name {
    /// Objects delivered in a second, and CPU for each, beside a bare loop of the same applies.
    Apply,
    /// Requests for an object, and hub writes for a target.
    Calls,
    /// From an edit, a deletion, a hundred edits in a member to the repaired objects, beside a bare watch-and-apply loop.
    Heal,
    /// CPU for events that health rules judge beside ConfigMaps', and what a change of the fleet's rules costs, simulated.
    Health,
    /// CPU, etcd and memory of the hub side with 1,000 targets and 1,000,000 inventory entries.
    Hubstate,
    /// Repairs on healthy members while others are dead, hung, slow or hostile.
    Isolation,
    /// Memory for an object, an informer and a cluster, simulated.
    Memory,
    /// Writes and CPU while nothing changes.
    Quiet,
    /// Writes on members, and time, after a restart with everything in place.
    Restart,
    /// Time and memory with 1,000 clusters and 1,000,000 objects, simulated.
    Scale,
    /// Until another process repairs, when the one that works is killed, ends or starts again; until a silent member is told.
    Standby,
}

#[tokio::main]
async fn main() -> Result<()> {
    let Arguments { name, json, hub, resources, entries, samples, states, harms, clusters, rule, objects } =
        Arguments::parse();
    let ansi = std::io::stderr().is_terminal();
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_target(false).with_ansi(ansi).init();
    let hub = match hub {
        Some(hub) => hub,
        None => std::env::current_exe()?.with_file_name("vidra-hub"),
    };
    let memkube = hub.with_file_name("memkube");
    let judge = if rule { bench::Judge::Rule } else { bench::Judge::Hub };
    let report = match name {
        Name::Apply => bench::apply(&hub).await?,
        Name::Heal => bench::heal(&hub, judge, &harms).await?,
        Name::Health => bench::health(&hub, &memkube, clusters).await?,
        Name::Calls => bench::calls(&hub).await?,
        Name::Hubstate => bench::hubstate(&hub, bench::Size { resources, entries }).await?,
        Name::Isolation => bench::isolation(&hub, bench::Isolation { samples, states }).await?,
        Name::Memory => bench::memory(&hub, &memkube).await?,
        Name::Quiet => bench::quiet(&hub, judge).await?,
        Name::Restart => bench::restart(&hub, judge).await?,
        Name::Scale => bench::scale(&hub, &memkube, bench::Scale { clusters, objects }).await?,
        Name::Standby => bench::standby(&hub).await?,
    };
    println!("{report}");
    if let Some(file) = json {
        let text = serde_json::to_string_pretty(&report.json())?;
        std::fs::write(&file, text + "\n").with_context(|| format!("writing {}", file.display()))?;
    }
    Ok(())
}
