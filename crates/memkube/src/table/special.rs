//! What a column of a built-in kind shows: the functions of single kinds.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::age;
use super::cells::{at, join, or_none, text};

/// The cell of a function with its argument; none where there is no such function.
pub(super) fn cell(function: &str, which: &str, object: &Value, now: Timestamp) -> Option<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    Some(match (function, which) {
        ("phase", _) if !object["metadata"]["deletionTimestamp"].is_null() => json!("Terminating"),
        ("phase", _) => json!(text(&status["phase"])),
        ("default", annotation) => {
            let yes = object["metadata"]["annotations"][annotation] == "true";
            json!(format!("{}{}", text(&object["metadata"]["name"]), if yes { " (default)" } else { "" }))
        }
        ("modes", path) => json!(modes(at(object, path))),
        ("claim", _) if spec["claimRef"].is_null() => json!(""),
        ("claim", _) => json!(pair(&spec["claimRef"]["namespace"], &spec["claimRef"]["name"])),
        ("role", _) => json!(pair(&object["roleRef"]["kind"], &object["roleRef"]["name"])),
        ("subjects", kind) => json!(subjects(&object["subjects"], kind)),
        ("target", _) => json!(pair(&spec["scaleTargetRef"]["kind"], &spec["scaleTargetRef"]["name"])),
        ("metrics", _) => or_none(&metrics(&spec["metrics"], &status["currentMetrics"])),
        ("controller", _) => controller(&object["metadata"]["ownerReferences"]),
        ("quota", which) => json!(quota(status, which == "limits")),
        ("service", "ports") => or_none(&join(&spec["ports"], ",", port)),
        ("service", _) => external(object),
        ("endpoints", _) => or_none(&endpoints(&object["subsets"])),
        ("slice", "ports") => json!(unset(&some(items(&object["ports"]).map(slice_port), 3))),
        ("slice", _) => {
            let addresses = items(&object["endpoints"]).flat_map(|one| items(&one["addresses"]).map(text));
            json!(unset(&some(addresses, 3)))
        }
        ("ingress", "hosts") => hosts(&spec["rules"]),
        ("ingress", "address") => json!(addresses(&status["loadBalancer"])),
        ("ingress", "ports") => json!(if items(&spec["tls"]).next().is_some() { "80, 443" } else { "80" }),
        ("ingress", _) => parameters(&spec["parameters"]),
        ("job", "status") => json!(job(object)),
        ("job", "completions") => json!(completions(spec, &status["succeeded"])),
        ("job", _) => {
            let (from, to) = (&status["startTime"], &status["completionTime"]);
            json!(
                if to.is_null() { age::since(from, now) } else { age::between(from, to) }.unwrap_or_default()
            )
        }
        ("node", which) => json!(node(object, which)),
        ("event", which) => event(object, which, now),
        ("api", "service") if spec["service"].is_null() => json!("Local"),
        ("api", "service") => json!(pair(&spec["service"]["namespace"], &spec["service"]["name"])),
        ("api", _) => json!(available(&status["conditions"])),
        _ => return None,
    })
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

fn pair(one: &Value, other: &Value) -> String {
    format!("{}/{}", text(one), text(other))
}

/// The first ones, and how many more there are.
fn some(all: impl Iterator<Item = String>, most: usize) -> String {
    let all: Vec<_> = all.collect();
    match all.get(..most) {
        Some(first) if all.len() > most => format!("{} + {} more...", first.join(","), all.len() - most),
        _ => all.join(","),
    }
}

fn unset(text: &str) -> &str {
    if text.is_empty() { "<unset>" } else { text }
}

/// Access modes in short, in the real server's order.
fn modes(list: &Value) -> String {
    const SHORT: [(&str, &str); 4] = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let has = |mode: &str| items(list).any(|one| one == mode);
    SHORT.iter().filter(|(mode, _)| has(mode)).map(|(_, short)| *short).collect::<Vec<_>>().join(",")
}

fn subjects(list: &Value, kind: &str) -> String {
    let shown = items(list).filter(|one| one["kind"] == kind).map(|one| match kind {
        "ServiceAccount" => pair(&one["namespace"], &one["name"]),
        _ => text(&one["name"]),
    });
    shown.collect::<Vec<_>>().join(", ")
}

/// What a HorizontalPodAutoscaler looks at: `cpu: 40%/80%`.
fn metrics(wanted: &Value, current: &Value) -> String {
    let one = |(number, wanted): (usize, &Value)| {
        let kind = text(&wanted["type"]);
        let (first, rest) = kind.split_at(kind.len().min(1));
        let field = first.to_lowercase() + rest;
        let (wanted, now) = (&wanted[&field], &current[number][&field]["current"]);
        let (target, known) =
            (&wanted["target"], |text: String| if text.is_empty() { "<unknown>".to_owned() } else { text });
        let resource = matches!(field.as_str(), "resource" | "containerResource");
        let (average, plain) = (&target["averageValue"], &target["value"]);
        let prefix = if resource { format!("{}: ", text(&wanted["name"])) } else { String::new() };
        if !average.is_null() {
            let after = if matches!(field.as_str(), "external" | "object") { " (avg)" } else { "" };
            return format!("{prefix}{}/{}{after}", known(text(&now["averageValue"])), text(average));
        }
        if resource {
            let percent = |value: &Value| value.as_i64().map(|number| format!("{number}%"));
            let target = percent(&target["averageUtilization"]).unwrap_or_else(|| "<auto>".to_owned());
            let now = known(percent(&now["averageUtilization"]).unwrap_or_default());
            return format!("{prefix}{now}/{target}");
        }
        format!("{}/{}", known(text(&now["value"])), text(plain))
    };
    let all: Vec<_> = items(wanted).enumerate().map(one).collect();
    match all.get(..2) {
        Some(first) if all.len() > 2 => format!("{} + {} more...", first.join(", "), all.len() - 2),
        _ => all.join(", "),
    }
}

fn controller(owners: &Value) -> Value {
    let owner = items(owners).find(|owner| owner["controller"] == true);
    or_none(&owner.map_or_else(String::new, |owner| {
        let group = text(&owner["apiVersion"])
            .split_once('/')
            .map_or_else(String::new, |(group, _)| format!(".{group}"));
        format!("{}{group}/{}", text(&owner["kind"]).to_lowercase(), text(&owner["name"]))
    }))
}

fn quota(status: &Value, limits: bool) -> String {
    let hard = status["hard"].as_object().into_iter().flatten();
    let shown = hard.filter(|(name, _)| name.starts_with("limits.") == limits).map(|(name, hard)| {
        let used = status["used"][name].as_str().unwrap_or("0");
        format!("{name}: {used}/{}", text(hard))
    });
    shown.collect::<Vec<_>>().join(", ")
}

fn port(port: &Value) -> String {
    let protocol = text(&port["protocol"]);
    match port["nodePort"].as_i64() {
        Some(node) if node > 0 => format!("{}:{node}/{protocol}", port["port"]),
        _ => format!("{}/{protocol}", port["port"]),
    }
}

fn external(service: &Value) -> Value {
    let spec = &service["spec"];
    let own = join(&spec["externalIPs"], ",", text);
    match spec["type"].as_str() {
        Some("ExternalName") => spec["externalName"].clone(),
        Some("LoadBalancer") => {
            let found = [addresses(&service["status"]["loadBalancer"]), own];
            let found: Vec<_> = found.into_iter().filter(|one| !one.is_empty()).collect();
            json!(if found.is_empty() { "<pending>".to_owned() } else { found.join(",") })
        }
        _ => or_none(&own),
    }
}

/// The addresses of a load balancer, each once.
fn addresses(balancer: &Value) -> String {
    let address = |one: &Value| match text(&one["ip"]) {
        ip if ip.is_empty() => text(&one["hostname"]),
        ip => ip,
    };
    let all: BTreeSet<_> = items(&balancer["ingress"]).map(address).filter(|one| !one.is_empty()).collect();
    all.into_iter().collect::<Vec<_>>().join(",")
}

fn endpoints(subsets: &Value) -> String {
    let host = |ip: &str, port: &Value| match ip.contains(':') {
        true => format!("[{ip}]:{port}"),
        false => format!("{ip}:{port}"),
    };
    let all = items(subsets).flat_map(|subset| {
        let ips: Vec<_> = items(&subset["addresses"]).map(|address| text(&address["ip"])).collect();
        match items(&subset["ports"]).next() {
            None => ips,
            Some(_) => {
                let ports = items(&subset["ports"]);
                ports.flat_map(|port| ips.iter().map(move |ip| host(ip, &port["port"]))).collect()
            }
        }
    });
    some(all, 3)
}

fn slice_port(port: &Value) -> String {
    let name = port["name"].as_str().unwrap_or("*");
    port["port"].as_i64().map_or_else(|| name.to_owned(), |number| number.to_string())
}

fn hosts(rules: &Value) -> Value {
    let rules: Vec<_> = items(rules).map(|rule| text(&rule["host"])).collect();
    let named: Vec<_> = rules.iter().take(3).filter(|host| !host.is_empty()).cloned().collect();
    json!(match named.join(",") {
        none if none.is_empty() => "*".to_owned(),
        shown if rules.len() > 3 => format!("{shown} + {} more...", rules.len() - 3),
        shown => shown,
    })
}

fn parameters(parameters: &Value) -> Value {
    if parameters.is_null() {
        return json!("<none>");
    }
    let group = parameters["apiGroup"].as_str().map_or_else(String::new, |group| format!(".{group}"));
    json!(format!("{}{group}/{}", text(&parameters["kind"]), text(&parameters["name"])))
}

fn holds(conditions: &Value, name: &str) -> bool {
    items(conditions).any(|one| one["type"] == name && one["status"] == "True")
}

fn job(job: &Value) -> &'static str {
    let conditions = &job["status"]["conditions"];
    let first = ["Complete", "Failed"].into_iter().find(|name| holds(conditions, name));
    let leaving = (!job["metadata"]["deletionTimestamp"].is_null()).then_some("Terminating");
    let later = ["Suspended", "FailureTarget", "SuccessCriteriaMet"];
    let later = || later.into_iter().find(|name| holds(conditions, name));
    first.or(leaving).or_else(later).unwrap_or("Running")
}

fn completions(spec: &Value, succeeded: &Value) -> String {
    let done = succeeded.as_i64().unwrap_or_default();
    match (spec["completions"].as_i64(), spec["parallelism"].as_i64()) {
        (Some(wanted), _) => format!("{done}/{wanted}"),
        (None, Some(parallel)) if parallel > 1 => format!("{done}/1 of {parallel}"),
        _ => format!("{done}/1"),
    }
}

fn node(node: &Value, which: &str) -> String {
    let status = &node["status"];
    match which {
        "status" => {
            let ready = items(&status["conditions"]).find(|one| one["type"] == "Ready");
            let ready =
                ready.map_or("Unknown", |one| if one["status"] == "True" { "Ready" } else { "NotReady" });
            let off = if node["spec"]["unschedulable"] == true { ",SchedulingDisabled" } else { "" };
            format!("{ready}{off}")
        }
        "roles" => {
            let labels = node["metadata"]["labels"].as_object().into_iter().flatten();
            let role = |(key, value): (&String, &Value)| match key.strip_prefix("node-role.kubernetes.io/") {
                Some(role) => Some(role.to_owned()),
                None => (key == "kubernetes.io/role").then(|| text(value)),
            };
            let roles: BTreeSet<_> = labels.filter_map(role).filter(|role| !role.is_empty()).collect();
            let roles = roles.into_iter().collect::<Vec<_>>().join(",");
            if roles.is_empty() { "<none>".to_owned() } else { roles }
        }
        "kernel" => {
            let info = &status["nodeInfo"];
            let kernel =
                info["kernelVersion"].as_str().filter(|text| !text.is_empty()).unwrap_or("<unknown>");
            match info["architecture"].as_str().filter(|text| !text.is_empty()) {
                Some(architecture) => format!("{kernel} ({architecture})"),
                None => kernel.to_owned(),
            }
        }
        kind => {
            let found = items(&status["addresses"]).find(|one| one["type"] == kind);
            found.map_or_else(|| "<none>".to_owned(), |one| text(&one["address"]))
        }
    }
}

fn event(event: &Value, which: &str, now: Timestamp) -> Value {
    let either = |one: &Value, other: &Value| if text(one).is_empty() { text(other) } else { text(one) };
    let unknown = || "<unknown>".to_owned();
    let first = || age::since(&event["firstTimestamp"], now).or_else(|| age::since(&event["eventTime"], now));
    let series = &event["series"];
    match which {
        "first" => json!(first().unwrap_or_else(unknown)),
        "last" if !series.is_null() => {
            json!(age::since(&series["lastObservedTime"], now).unwrap_or_else(unknown))
        }
        "last" => json!(age::since(&event["lastTimestamp"], now).or_else(first).unwrap_or_else(unknown)),
        "count" if !series.is_null() => json!(series["count"].as_i64().unwrap_or_default()),
        "count" => json!(event["count"].as_i64().filter(|count| *count > 0).unwrap_or(1)),
        "object" => {
            let (kind, name) = (&event["involvedObject"]["kind"], text(&event["involvedObject"]["name"]));
            let kind = text(kind).to_lowercase();
            json!(if name.is_empty() { kind } else { format!("{kind}/{name}") })
        }
        _ => {
            let component = either(&event["source"]["component"], &event["reportingComponent"]);
            let host = either(&event["source"]["host"], &event["reportingInstance"]);
            json!(if host.is_empty() { component } else { format!("{component}, {host}") })
        }
    }
}

fn available(conditions: &Value) -> String {
    let found = items(conditions).find(|one| one["type"] == "Available");
    found.map_or_else(
        || "Unknown".to_owned(),
        |one| match text(&one["status"]).as_str() {
            "True" => "True".to_owned(),
            other => format!("{other} ({})", text(&one["reason"])),
        },
    )
}
