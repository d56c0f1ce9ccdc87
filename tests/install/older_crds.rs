//! What an upgrade may meet, and the commands of docs/guides/upgrade.md for it: CRDs that are older than the hub, and CRDs that
//! somebody else keeps.

use std::{fs, path::Path, process::Command};

use vidra_api::crds::SCHEMA;

use crate::machine::{Machine, run};

/// The chart as it was when its CRDs knew less.
fn older_chart(directory: &Path) -> String {
    let chart = directory.join("vidra-hub");
    run(Command::new("cp").args(["-r", "deploy/helm/vidra-hub"]).arg(&chart), "").unwrap();
    for crd in fs::read_dir(chart.join("files/crds")).unwrap() {
        let path = crd.unwrap().path();
        let newer = fs::read_to_string(&path).unwrap();
        let older = newer.replace(&format!("vidra.dev/schema: \"{SCHEMA}\""), "vidra.dev/schema: \"0\"");
        assert_ne!(older, newer, "{}", path.display());
        fs::write(path, older).unwrap();
    }
    chart.display().to_string()
}

#[test]
fn a_hub_whose_crds_the_chart_has_left_behind_starts_after_the_command_that_it_ends_with() {
    let (machine, files) = (Machine::start(), tempfile::tempdir().unwrap());
    let older = older_chart(files.path());
    machine.helm(&format!("install vidra-hub {older} -n vidra-system --create-namespace")).unwrap();
    let words = machine.last_words_of_the_hub();
    let told = words.split_once("SchemaTooOld").unwrap().1.split_once("kubectl ").unwrap().1;
    let (command, _) = told.split_once(" of this version").unwrap();
    // What Helm has set it does not let go of by itself.
    let refused = machine.kubectl("hub", &command.replace("--force-conflicts ", ""), "").unwrap_err();
    assert!(refused.contains("conflict with \"helm\""), "{refused}");
    machine.kubectl("hub", command, "").unwrap();
    drop(machine.run_hub());

    // And the chart goes on from there.
    let upgrade = "upgrade vidra-hub deploy/helm/vidra-hub -n vidra-system --reset-then-reuse-values";
    machine.helm(upgrade).unwrap();
    drop(machine.run_hub());
}

#[test]
fn the_chart_takes_crds_over_that_kubectl_has_made_where_it_is_told_so() {
    let machine = Machine::start();
    machine.kubectl("hub", "apply --server-side -f crds/", "").unwrap();
    let chart = "vidra-hub deploy/helm/vidra-hub -n vidra-system";
    machine.helm(&format!("install {chart} --create-namespace --set crds.install=false")).unwrap();
    let upgrade = format!("upgrade {chart} --reset-then-reuse-values --set crds.install=true");
    let refused = machine.helm(&upgrade).unwrap_err();
    assert!(refused.contains("invalid ownership metadata"), "{refused}");
    machine.helm(&format!("{upgrade} --take-ownership")).unwrap();
    drop(machine.run_hub());
}
