//! `cargo xtask demo`: a hub and three members on real API servers, and what the hub does for them, each step
//! with the kubectl command that shows it.

mod hub;
mod kubectl;
mod story;

use anyhow::Result;

use crate::testbed::{self, Bed};

use hub::Hub;
use kubectl::Kubectl;

/// The members, with the labels that they are registered with.
const MEMBERS: [(&str, &str); 3] = [
    ("berlin", "env=prod region=eu"),
    ("tokyo", "env=prod region=asia"),
    ("austin", "env=staging region=us"),
];

/// Tells the story. With `once` it ends then; a part that was not seen is an error.
pub fn run(once: bool) -> Result<()> {
    let testbed = testbed::binary()?;
    let binary = hub::build()?;
    let names: Vec<_> = MEMBERS.iter().map(|(name, _)| *name).collect();
    let Some(mut bed) = Bed::start(&["--names".to_owned(), names.join(",")])? else { return Ok(()) };
    let kubectl = Kubectl::find(&testbed, bed.kubeconfig());
    println!("\nexport KUBECONFIG={}\n", bed.kubeconfig());
    story::prepare(&kubectl, &bed)?;
    // Among the testbed's files: it goes with them.
    let log = bed.dir().join("vidra-hub.log");
    let mut hub = Hub::start(&binary, bed.kubeconfig_of("hub", "vidra-hub")?, &log)?;
    if let Err(error) = story::tell(&kubectl, &mut hub) {
        println!("\nThe hub's last words:\n{}\n", hub.tail());
        return Err(error);
    }
    if once {
        return Ok(());
    }
    invite(&bed, &hub, &log);
    bed.wait()
}

fn invite(bed: &Bed, hub: &Hub, log: &std::path::Path) {
    println!("All of it stays up until Ctrl-C. In another terminal:\n");
    println!("  export KUBECONFIG={}\n", bed.kubeconfig());
    for (command, what) in [
        ("kubectl --context hub get vr,vt,mc -A -o wide", "the fleet"),
        ("kubectl --context hub get vt -A -w", "... as it changes"),
        ("kubectl --context berlin -n shop delete configmap shop", "it comes back"),
        ("kubectl --context hub -n team-a edit vr shop", "on all members when you save it"),
        ("kubectl --context hub -n team-a get events", "what the hub did"),
        (
            "kubectl --context hub label secret -n vidra-system austin env=prod --overwrite",
            "a member's labels",
        ),
        ("kubectl --context hub -n team-a delete vr shop", "all of it goes"),
    ] {
        println!("  {command:<82} # {what}");
    }
    println!("  {:<82} # its counters", format!("curl -s http://{}/metrics", hub.address()));
    println!("  {:<82} # its log\n", format!("tail -f {}", log.display()));
}
