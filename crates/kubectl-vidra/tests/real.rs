//! `kubectl vidra join` on real API servers: a member joins with its administrator's kubeconfig, and gets what is
//! delivered to it; `health` and `check` read that there.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a scenario fails by panicking")]

use std::path::Path;
use std::process::{Command, Output, Stdio};

use testkit::world::{At, Who, World, on_real_servers};

/// Runs `join` for a member with this kubeconfig of it.
fn join(world: &World, name: &str, member: &Path) -> Output {
    let member = member.to_str().unwrap();
    run(world, &["join", name, "--timeout", "60s", "--member-kubeconfig", member])
}

fn run(world: &World, arguments: &[&str]) -> Output {
    let (_, hub) = world.bed().kubectl().expect("the bed has a kubeconfig");
    Command::new(env!("CARGO_BIN_EXE_kubectl-vidra"))
        .arg("--kubeconfig")
        .arg(hub)
        .args(["--context", "hub", "-n", &world.ns])
        .args(arguments)
        .args(["--hub-namespace", &world.settings.namespace])
        .env_remove("KUBECONFIG")
        .stdin(Stdio::null())
        .output()
        .expect("it runs")
}

#[test]
fn a_member_joins_with_its_administrators_kubeconfig_and_gets_what_is_delivered() {
    on_real_servers(async |world| {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("member");
        let name = world.members()[0].clone();

        std::fs::write(&file, world.kubeconfig(&name, Who::Limited)).unwrap();
        let refused = join(&world, &name, &file);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
        assert!(said.contains("forbidden") && said.contains("have somebody join the member"), "{said}");
        assert_eq!(said.trim_end().lines().count(), 1, "{said}");

        std::fs::write(&file, world.kubeconfig(&name, Who::Admin)).unwrap();
        let joined = join(&world, &name, &file);
        assert_eq!(joined.status.code(), Some(0), "{joined:?}");
        let said = String::from_utf8_lossy(&joined.stdout).into_owned();
        assert!(said.contains(&format!("hub: MemberCluster {name} is Ready")), "{said}");

        let manifest = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: hello}\ndata: {key: one}\n";
        world.deliver("shop", &[name.as_str()], manifest).await;
        world.ready("shop").await;
        let alice = world.alice(&name).await;
        let live = alice.live(&At::new("v1", "ConfigMap", &world.ns, "hello")).await;
        assert_eq!(live["data"]["key"], "one");

        // The kubeconfig has a context for each member.
        let judged = run(&world, &["health", "shop", "--cluster", &name, "--hub", "--require", "Current"]);
        assert_eq!(judged.status.code(), Some(0), "{judged:?}");
        let said = String::from_utf8_lossy(&judged.stdout).into_owned();
        assert!(said.contains("hello") && said.contains("Current"), "{said}");
        let rules = directory.path().join("rules.yaml");
        let rule = r#"- {apiVersion: v1, kind: ConfigMap, current: "data.key == 'two'"}"#;
        let rule = serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"rules": rule},
            "metadata": {"name": "rules", "labels": {"vidra.dev/health-rules": "true"}}});
        std::fs::write(&rules, rule.to_string()).unwrap();
        let turned = run(&world, &["check", "shop", "--members", "--rules", rules.to_str().unwrap()]);
        assert_eq!(turned.status.code(), Some(1), "{turned:?}");
        let said = String::from_utf8_lossy(&turned.stdout).into_owned();
        assert!(said.contains("/hello: Current -> InProgress") && said.contains("1 would turn"), "{said}");
        world.end().await;
    });
}
