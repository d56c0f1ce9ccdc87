//! What built-in kinds fill in beyond the table `schemas/defaults.json`: defaults that depend on other
//! fields, and what the server hands out when an object is made.

use base64::Engine;
use serde_json::{Map, Value, json};

use super::kinds::Kind;

/// The label that every Namespace bears.
pub(super) const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// Takes fields that are only written over to those that are stored.
pub(super) fn accept(kind: &Kind, body: &mut Value) {
    if (kind.group.as_str(), kind.kind.as_str()) != ("", "Secret") {
        return;
    }
    let Some(Value::Object(texts)) = body.as_object_mut().and_then(|body| body.remove("stringData")) else {
        return;
    };
    if !body["data"].is_null() && !body["data"].is_object() {
        return;
    }
    if body["data"].is_null() {
        body["data"] = json!({});
    }
    for (key, text) in texts {
        if let Some(text) = text.as_str() {
            body["data"][key] = json!(base64::engine::general_purpose::STANDARD.encode(text));
        }
    }
}

/// Defaults that depend on other fields. They are owned by who leaves them out in a create or update.
pub(super) fn complete(kind: &Kind, object: &mut Value) {
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Namespace") => {
            let name = object["metadata"]["name"].clone();
            object["metadata"]["labels"][NAME_LABEL] = name;
        }
        ("", "Pod") => {
            absent(&mut object["spec"], "enableServiceLinks", json!(true));
            pod(&mut object["spec"]);
            requests(&mut object["spec"]);
        }
        ("", "ReplicationController") | ("apps", "ReplicaSet") => {
            absent(&mut object["spec"], "replicas", json!(1));
            pod(&mut object["spec"]["template"]["spec"]);
        }
        ("apps", "Deployment") => {
            rolling(&mut object["spec"]["strategy"], json!({"maxSurge": "25%", "maxUnavailable": "25%"}));
            pod(&mut object["spec"]["template"]["spec"]);
        }
        ("apps", "StatefulSet") => {
            rolling(&mut object["spec"]["updateStrategy"], json!({"partition": 0}));
            pod(&mut object["spec"]["template"]["spec"]);
            for claim in items(&mut object["spec"], "volumeClaimTemplates") {
                absent(claim, "apiVersion", json!("v1"));
                absent(claim, "kind", json!("PersistentVolumeClaim"));
                absent(&mut claim["status"], "phase", json!("Pending"));
            }
        }
        ("", "LimitRange") => items(&mut object["spec"], "limits").for_each(limit),
        ("apps", "DaemonSet") => {
            let metadata = &mut object["metadata"];
            absent(metadata, "annotations", json!({}));
            absent(&mut metadata["annotations"], "deprecated.daemonset.template.generation", json!("1"));
            rolling(&mut object["spec"]["updateStrategy"], json!({"maxSurge": 0, "maxUnavailable": 1}));
            pod(&mut object["spec"]["template"]["spec"]);
        }
        ("batch", "Job") => {
            let spec = &mut object["spec"];
            if spec["completions"].is_null() && spec["parallelism"].is_null() {
                absent(spec, "completions", json!(1));
            }
            let given = [
                ("parallelism", json!(1)),
                ("backoffLimit", json!(6)),
                ("completionMode", json!("NonIndexed")),
                ("suspend", json!(false)),
                ("podReplacementPolicy", json!("TerminatingOrFailed")),
                ("manualSelector", json!(false)),
            ];
            given.into_iter().for_each(|(field, value)| absent(spec, field, value));
            pod(&mut spec["template"]["spec"]);
        }
        ("batch", "CronJob") => pod(&mut object["spec"]["jobTemplate"]["spec"]["template"]["spec"]),
        ("", "Service") => service(&mut object["spec"]),
        ("", "PersistentVolumeClaim" | "PersistentVolume") => {
            absent(&mut object["status"], "phase", json!("Pending"));
        }
        ("networking.k8s.io", "NetworkPolicy") if object["spec"]["policyTypes"].is_null() => {
            let egress = object["spec"]["egress"].as_array().is_some_and(|rules| !rules.is_empty());
            let types = if egress { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) };
            object["spec"]["policyTypes"] = types;
        }
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => {
            for subject in items(object, "subjects") {
                if matches!(subject["kind"].as_str(), Some("User" | "Group")) {
                    absent(subject, "apiGroup", json!("rbac.authorization.k8s.io"));
                }
            }
        }
        ("apiextensions.k8s.io", "CustomResourceDefinition") => crd(&mut object["spec"]["names"]),
        _ => {}
    }
}

fn absent(object: &mut Value, field: &str, value: Value) {
    if let Some(map) = object.as_object_mut() {
        map.entry(field).or_insert(value);
    }
}

/// The items of a field; none where it is not there.
fn items<'v>(object: &'v mut Value, field: &str) -> impl Iterator<Item = &'v mut Value> {
    object.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten()
}

fn rolling(strategy: &mut Value, default: Value) {
    if strategy["type"] != "RollingUpdate" {
        return;
    }
    absent(strategy, "rollingUpdate", json!({}));
    for (field, value) in default.as_object().into_iter().flatten() {
        absent(&mut strategy["rollingUpdate"], field, value.clone());
    }
}

fn pod(spec: &mut Value) {
    if !spec.is_object() {
        return;
    }
    // The old name of serviceAccountName is kept equal to it.
    for (from, to) in [("serviceAccountName", "serviceAccount"), ("serviceAccount", "serviceAccountName")] {
        if let Some(name) = spec[from].as_str().map(str::to_owned) {
            absent(spec, to, json!(name));
        }
    }
    for list in ["containers", "initContainers"] {
        for container in items(spec, list) {
            let image = container["image"].as_str().unwrap_or_default();
            let name = image.rsplit('/').next().unwrap_or_default();
            let latest = !image.contains('@') && name.split_once(':').is_none_or(|(_, tag)| tag == "latest");
            let policy = if latest { "Always" } else { "IfNotPresent" };
            absent(container, "imagePullPolicy", json!(policy));
        }
    }
    for volume in items(spec, "volumes") {
        if volume.as_object().is_some_and(|volume| volume.keys().all(|key| key == "name")) {
            volume["emptyDir"] = json!({});
        }
    }
}

/// Of a Pod itself, what is limited and not requested is requested.
fn requests(spec: &mut Value) {
    for container in items(spec, "containers") {
        let limits = container["resources"]["limits"].as_object().cloned().unwrap_or_default();
        for (name, amount) in limits {
            absent(&mut container["resources"], "requests", json!({}));
            absent(&mut container["resources"]["requests"], &name, amount);
        }
    }
}

/// Of containers, what is limited at most is the default, and what is limited by default is requested.
fn limit(limit: &mut Value) {
    if limit["type"] != "Container" {
        return;
    }
    for (from, to) in [("max", "default"), ("default", "defaultRequest"), ("min", "defaultRequest")] {
        let amounts = limit[from].as_object().cloned().unwrap_or_default();
        for (name, amount) in amounts {
            absent(limit, to, json!({}));
            absent(&mut limit[to], &name, amount);
        }
    }
}

fn service(spec: &mut Value) {
    let kind = spec["type"].as_str().unwrap_or_default().to_owned();
    for port in items(spec, "ports") {
        let number = port["port"].clone();
        absent(port, "targetPort", number);
    }
    if kind != "ExternalName" {
        absent(spec, "internalTrafficPolicy", json!("Cluster"));
    }
    if matches!(kind.as_str(), "NodePort" | "LoadBalancer") {
        absent(spec, "externalTrafficPolicy", json!("Cluster"));
    }
    if kind == "LoadBalancer" {
        absent(spec, "allocateLoadBalancerNodePorts", json!(true));
    }
    if spec["sessionAffinity"] == "ClientIP" {
        absent(spec, "sessionAffinityConfig", json!({"clientIP": {"timeoutSeconds": 10800}}));
    }
}

fn crd(names: &mut Value) {
    let kind = names["kind"].as_str().unwrap_or_default().to_owned();
    absent(names, "singular", json!(kind.to_lowercase()));
    absent(names, "listKind", json!(format!("{kind}List")));
}

/// What the server hands out when an object is made, and nobody owns. `number` draws from the cluster's
/// chance.
pub(super) fn allocate(kind: &Kind, object: &mut Value, number: &mut dyn FnMut(u32) -> u32) {
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Namespace") => {
            object["spec"] = json!({"finalizers": ["kubernetes"]});
            object["status"] = json!({"phase": "Active"});
        }
        ("", "Service") => address(&mut object["spec"], number),
        ("", "Pod") => admit(object),
        ("", "PersistentVolumeClaim") => {
            protect(object, "kubernetes.io/pvc-protection");
        }
        ("", "PersistentVolume") => {
            protect(object, "kubernetes.io/pv-protection");
        }
        ("batch", "Job") if object["spec"]["manualSelector"] != true => {
            let (uid, name) = (object["metadata"]["uid"].clone(), object["metadata"]["name"].clone());
            let spec = &mut object["spec"];
            spec["selector"] = json!({"matchLabels": {"batch.kubernetes.io/controller-uid": uid}});
            let mut labels = Map::new();
            for prefix in ["batch.kubernetes.io/", ""] {
                labels.insert(format!("{prefix}controller-uid"), uid.clone());
                labels.insert(format!("{prefix}job-name"), name.clone());
            }
            for (label, value) in labels {
                spec["template"]["metadata"]["labels"][label] = value;
            }
            if object["metadata"]["labels"].is_null() {
                object["metadata"]["labels"] = object["spec"]["template"]["metadata"]["labels"].clone();
            }
        }
        _ => {}
    }
}

/// Adds a finalizer of the server's own.
fn protect(object: &mut Value, finalizer: &str) {
    let mut all = object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    if all.iter().all(|one| one != finalizer) {
        all.push(json!(finalizer));
    }
    object["metadata"]["finalizers"] = Value::Array(all);
}

/// A Service's addresses and ports: at its making, and again when its type has changed.
pub(super) fn address(spec: &mut Value, number: &mut dyn FnMut(u32) -> u32) {
    if spec["type"] == "ExternalName" {
        return;
    }
    if spec["clusterIP"].as_str().is_none_or(str::is_empty) {
        let (third, fourth) = (number(256), 1 + number(254));
        spec["clusterIP"] = json!(format!("10.0.{third}.{fourth}"));
    }
    spec["clusterIPs"] = json!([spec["clusterIP"]]);
    // One that selects nothing and has no address may be reached by any.
    let any = spec["clusterIP"] == "None" && spec["selector"].is_null();
    absent(spec, "ipFamilies", if any { json!(["IPv4", "IPv6"]) } else { json!(["IPv4"]) });
    absent(spec, "ipFamilyPolicy", json!(if any { "RequireDualStack" } else { "SingleStack" }));
    let open = matches!(spec["type"].as_str(), Some("NodePort" | "LoadBalancer"));
    for port in items(spec, "ports").filter(|_| open) {
        absent(port, "nodePort", json!(30_000 + number(2768)));
    }
}

/// Takes away what a Service had for a type that it no longer is of.
pub(super) fn readdress(live: &Value, spec: &mut Value, number: &mut dyn FnMut(u32) -> u32) {
    for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        if spec[field].as_str().is_none_or(str::is_empty) && !live[field].is_null() {
            let kept = live[field].clone();
            absent(spec, field, kept);
        }
    }
    if spec["type"] == "ExternalName" && spec["internalTrafficPolicy"] == live["internalTrafficPolicy"] {
        spec.as_object_mut().map(|spec| spec.remove("internalTrafficPolicy"));
    }
    if spec["type"] == "ClusterIP" && live["type"] != "ClusterIP" {
        for field in ["externalTrafficPolicy", "allocateLoadBalancerNodePorts"] {
            if spec[field] == live[field] {
                spec.as_object_mut().map(|spec| spec.remove(field));
            }
        }
        for port in items(spec, "ports") {
            port.as_object_mut().map(|port| port.remove("nodePort"));
        }
    }
    address(spec, number);
}

/// What admission gives a Pod, and the status that it starts with.
fn admit(pod: &mut Value) {
    absent(&mut pod["spec"], "priority", json!(0));
    absent(&mut pod["spec"], "preemptionPolicy", json!("PreemptLowerPriority"));
    let toleration = |key: &str| {
        let key = format!("node.kubernetes.io/{key}");
        json!({"effect": "NoExecute", "key": key, "operator": "Exists", "tolerationSeconds": 300})
    };
    absent(&mut pod["spec"], "tolerations", json!([toleration("not-ready"), toleration("unreachable")]));
    let containers = pod["spec"]["containers"].as_array().cloned().unwrap_or_default();
    let none = |container: &Value| {
        let all = ["limits", "requests"].map(|which| container["resources"][which].as_object().cloned());
        all.iter().flatten().all(Map::is_empty)
    };
    let full = |container: &Value| {
        let of = &container["resources"];
        ["cpu", "memory"]
            .iter()
            .all(|name| !of["limits"][*name].is_null() && of["limits"][*name] == of["requests"][*name])
    };
    let class = match () {
        () if containers.iter().all(none) => "BestEffort",
        () if containers.iter().all(full) => "Guaranteed",
        () => "Burstable",
    };
    pod["status"] = json!({"phase": "Pending", "qosClass": class});
}
