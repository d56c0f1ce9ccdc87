//! What the demo shows, in order. Each step waits, within a deadline, for what it is to show.

use anyhow::{Context, Result};
use serde_json::Value;

use super::{MEMBERS, hub::Hub, kubectl::Kubectl};
use crate::{run::until, testbed::Bed};

const FLEET: &str = "get vr,vt,mc -A";
const CORRECTIONS: &str = "get vt -A -o custom-columns=CLUSTER:.spec.cluster,STATE:.status.state,DRIFT:.status.drift,\
    CORRECTIONS:.status.corrections.count,LAST:.status.corrections.last";
const GREETING: &str = r#"-n shop get configmap shop -o 'jsonpath={.data.greeting}{"\n"}'"#;

fn title(text: &str) {
    println!("--- {text}\n");
}

/// The hub's CRDs, its namespace, and the members' registrations.
pub fn prepare(kubectl: &Kubectl, bed: &Bed) -> Result<()> {
    title("The hub's API, and its namespace");
    kubectl.show("hub", "apply --server-side -f crds")?;
    kubectl.show("hub", "wait --for condition=Established --timeout 30s -f crds")?;
    kubectl.show("hub", "create namespace vidra-system")?;
    title(
        "Three members are registered: a labelled Secret with a kubeconfig for each (clusters/registration.yaml)",
    );
    for (name, labels) in MEMBERS {
        let file = bed.kubeconfig_of(name, "vidra-hub")?;
        kubectl.show(
            "hub",
            &format!("-n vidra-system create secret generic {name} --from-file kubeconfig={file}"),
        )?;
        let label = format!("vidra.dev/member-cluster={name}");
        kubectl.show("hub", &format!("-n vidra-system label secret {name} {label} {labels}"))?;
    }
    title("The hub starts");
    Ok(())
}

/// The rest, with the hub running.
pub fn tell(kubectl: &Kubectl, hub: &mut Hub) -> Result<()> {
    let mut story = Story { kubectl, hub };
    story.joined()?;
    story.delivered()?;
    story.healthy()?;
    story.repaired()?;
    story.made_again()
}

struct Story<'a> {
    kubectl: &'a Kubectl,
    hub: &'a mut Hub,
}

impl Story<'_> {
    fn until<T>(&mut self, what: &str, look: impl Fn(&Kubectl) -> Result<Option<T>>) -> Result<T> {
        until(what, 60, || {
            self.hub.is_running()?;
            look(self.kubectl)
        })
    }

    fn joined(&mut self) -> Result<()> {
        title("Each registration becomes a MemberCluster");
        self.until("three members are ready", |kubectl| {
            let members = kubectl.items("hub", "memberclusters")?;
            Ok((count(&members, is_ready) == MEMBERS.len()).then_some(()))
        })?;
        self.kubectl.show("hub", "get mc --show-labels")
    }

    fn delivered(&mut self) -> Result<()> {
        title("One VidraResource goes to all of them");
        self.kubectl.show("hub", "apply --server-side -f clusters/examples/shop.yaml")?;
        for (name, _) in MEMBERS {
            self.until(&format!("{name} has the shop"), |kubectl| {
                kubectl.ask(
                    name,
                    "-n shop get serviceaccount/shop configmap/shop secret/shop service/shop deployment/shop",
                )
            })?;
        }
        self.until("the hub says of three targets that they progress", |kubectl| {
            let targets = kubectl.items("hub", "vt -n team-a")?;
            Ok((count(&targets, |target| target["status"]["state"] == "Progressing") == MEMBERS.len())
                .then_some(()))
        })?;
        self.kubectl.show(
            "tokyo",
            "-n shop get serviceaccount/shop configmap/shop secret/shop service/shop deployment/shop",
        )?;
        self.kubectl.show("hub", FLEET)
    }

    /// The members have no nodes; what a kubelet would report of its Pods is written for it. The controllers
    /// that make a Deployment ready from its Pods are the real ones.
    fn healthy(&mut self) -> Result<()> {
        title(
            "It is not ready before its Pods are. These members have no nodes, so their Pods' status is set by hand",
        );
        let mut shown = false;
        for (name, _) in MEMBERS {
            let pods = self.until(&format!("{name} has two Pods"), |kubectl| {
                let pods = kubectl.items(name, "pods -n shop -l app=shop")?;
                Ok((pods.len() == 2).then_some(pods))
            })?;
            for pod in &pods {
                let pod = pod["metadata"]["name"].as_str().context("a Pod without a name")?;
                let patch =
                    format!("-n shop patch pod {pod} --subresource status --type merge -p '{POD_IS_READY}'");
                if shown {
                    self.kubectl
                        .ask(name, &patch)?
                        .with_context(|| format!("cannot patch {pod} on {name}"))?;
                } else {
                    self.kubectl.show(name, &patch)?;
                    println!("... and so for the others\n");
                    shown = true;
                }
            }
        }
        self.all_ready()?;
        self.kubectl.show("hub", FLEET)
    }

    fn all_ready(&mut self) -> Result<()> {
        self.until("the VidraResource is ready on three members", |kubectl| {
            let resources = kubectl.items("hub", "vr -n team-a")?;
            let targets = kubectl.items("hub", "vt -n team-a")?;
            let all = count(&resources, is_ready) == 1 && count(&targets, is_ready) == MEMBERS.len();
            Ok(all.then_some(()))
        })
    }

    fn repaired(&mut self) -> Result<()> {
        title("Somebody edits an object in a member");
        let edit = r#"-n shop patch configmap shop --type merge -p '{"data": {"greeting": "Go away"}}'"#;
        self.kubectl.show("tokyo", edit)?;
        self.until("the ConfigMap in tokyo is as declared again", |kubectl| {
            Ok(kubectl.ask("tokyo", GREETING)?.filter(|greeting| greeting.trim() == "Welcome"))
        })?;
        self.corrected("tokyo", 1)?;
        self.kubectl.show("tokyo", GREETING)?;
        self.kubectl.show("hub", CORRECTIONS)
    }

    fn made_again(&mut self) -> Result<()> {
        title("Somebody deletes one");
        let uid =
            |kubectl: &Kubectl| kubectl.ask("austin", "-n shop get service shop -o jsonpath={.metadata.uid}");
        let before = uid(self.kubectl)?.context("austin has no Service shop")?;
        self.kubectl.show("austin", "-n shop delete service shop")?;
        self.until("the Service in austin is made again", |kubectl| {
            Ok(uid(kubectl)?.filter(|now| *now != before))
        })?;
        self.corrected("austin", 1)?;
        self.all_ready()?;
        self.kubectl.show("austin", "-n shop get service shop")?;
        self.kubectl.show("hub", CORRECTIONS)?;
        let told = "events -n team-a --field-selector reason=DriftCorrected";
        self.until("Events tell of both", |kubectl| {
            let text = kubectl.items("hub", told)?.iter().map(Value::to_string).collect::<String>();
            Ok((text.contains("tokyo") && text.contains("austin")).then_some(()))
        })?;
        self.kubectl.show("hub", &format!("get {told} -o custom-columns=REASON:.reason,NOTE:.message"))?;
        self.kubectl.show("hub", FLEET)
    }

    fn corrected(&mut self, cluster: &str, least: i64) -> Result<()> {
        self.until(&format!("the hub counts a correction in {cluster}"), |kubectl| {
            let target = kubectl.items("hub", &format!("vt -n team-a shop.{cluster}"))?;
            let made = |target: &Value| target["status"]["corrections"]["count"].as_i64().unwrap_or(0);
            Ok((count(&target, |target| made(target) >= least) == 1).then_some(()))
        })
    }
}

const POD_IS_READY: &str =
    r#"{"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}"#;

fn count(objects: &[Value], is: impl Fn(&Value) -> bool) -> usize {
    objects.iter().filter(|object| is(object)).count()
}

fn is_ready(object: &Value) -> bool {
    let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}
