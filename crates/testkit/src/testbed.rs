//! Starts the real bed: kube-apiservers over TLS on loopback (tests/testbed), and reads what they counted.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
};

use anyhow::{Context, Result, bail};
use jiff::Timestamp;
use k8s_openapi::api::{authentication::v1::TokenRequest, core::v1::ServiceAccount};
use kube::{
    Api, Client, Config,
    api::PostParams,
    config::{AuthInfo, KubeConfigOptions, Kubeconfig},
};
use serde::Deserialize;
use serde_json::Value;
use vidra_hub::base::env::{Clock, SystemClock};

/// One running API server.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cluster {
    /// hub, or the member's name.
    pub name: String,
    /// Where it listens.
    pub url: String,
    /// The API server's process.
    pub pid: u32,
    /// Its audit log: one JSON line for each request.
    pub audit: PathBuf,
    /// Paths by identity: admin, vidra-hub, alice, limited.
    pub kubeconfigs: BTreeMap<String, PathBuf>,
}

#[derive(Debug, Deserialize)]
struct Etcd {
    pid: u32,
}

#[derive(Debug, Deserialize)]
struct Ready {
    dir: PathBuf,
    kubeconfig: PathBuf,
    etcd: Etcd,
    hub: Cluster,
    members: Vec<Cluster>,
}

/// A hub and its members. They end with it, and with this process.
pub struct Testbed {
    /// The hub cluster.
    pub hub: Cluster,
    /// The member clusters.
    pub members: Vec<Cluster>,
    /// One kubeconfig with a context for each cluster, as administrator.
    pub kubeconfig: PathBuf,
    /// All its files.
    pub dir: PathBuf,
    /// The process that keeps the clusters' state.
    pub etcd_pid: u32,
    child: Child,
    /// Closing it stops the bed.
    stdin: Option<ChildStdin>,
}

/// The repository's root.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Builds the testbed's binary unless that was done before; minutes the first time. It is that of the newest release of
/// Kubernetes, or of the older one that `VIDRA_TESTBED_RELEASE` names, 1.35 for example.
pub fn binary() -> Result<PathBuf> {
    let script = root().join("tests/testbed/build.sh");
    let release = std::env::var_os("VIDRA_TESTBED_RELEASE").filter(|release| !release.is_empty());
    let output = Command::new("bash").arg(&script).args(release).stderr(Stdio::inherit()).output();
    let output = output.with_context(|| format!("running {}", script.display()))?;
    if !output.status.success() {
        bail!("{} failed", script.display());
    }
    Ok(PathBuf::from(String::from_utf8(output.stdout)?.trim()))
}

impl Testbed {
    /// Starts a hub and members with these flags of `vidra-testbed up`, e.g. `["--members", "3"]`.
    pub fn start(flags: &[&str]) -> Result<Self> {
        let mut child = Command::new(binary()?)
            .arg("up")
            .args(flags)
            .arg("--until-stdin-closes")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("starting vidra-testbed")?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let mut line = String::new();
        BufReader::new(stdout.context("no stdout")?).read_line(&mut line)?;
        let ready: Ready =
            serde_json::from_str(&line).context("vidra-testbed did not come up; see its output above")?;
        let Ready { dir, kubeconfig, etcd, hub, members } = ready;
        Ok(Self { hub, members, kubeconfig, dir, etcd_pid: etcd.pid, child, stdin })
    }

    /// A cluster by name.
    pub fn cluster(&self, name: &str) -> Result<&Cluster> {
        let all = self.members.iter().chain([&self.hub]);
        all.into_iter().find(|cluster| cluster.name == name).with_context(|| format!("no cluster {name}"))
    }
}

impl Drop for Testbed {
    fn drop(&mut self) {
        drop(self.stdin.take());
        // It stops its children and removes its files before it ends.
        let _ = self.child.wait();
    }
}

/// A point in a cluster's record of requests.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    /// How long the record was.
    pub length: u64,
    /// When, by the cluster's clock.
    pub at: Timestamp,
}

/// One request as the API server's audit log tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Who asked.
    pub user: String,
    /// get, list, watch, create, update, patch, delete, ...
    pub verb: String,
    /// API group, empty for core.
    pub group: String,
    /// Plural, with `/subresource` where there is one.
    pub resource: String,
    /// Namespace, may be empty.
    pub namespace: String,
    /// Name, may be empty.
    pub name: String,
    /// Status code.
    pub code: u64,
    /// The whole URI.
    pub uri: String,
}

impl Request {
    /// It is about objects: no discovery, and no probe.
    pub fn is_about_objects(&self) -> bool {
        let is_probe = self.resource == "namespaces" && self.name == "kube-system";
        !self.resource.is_empty() && !is_probe
    }
}

impl Cluster {
    /// A client as one of the identities.
    pub async fn client(&self, identity: &str) -> Result<Client> {
        Ok(Client::try_from(self.config(identity).await?)?)
    }

    /// A client as a ServiceAccount, with a token that the server makes for it.
    pub async fn account(&self, namespace: &str, name: &str) -> Result<Client> {
        let mut config = self.config("admin").await?;
        let accounts: Api<ServiceAccount> = Api::namespaced(Client::try_from(config.clone())?, namespace);
        let (params, request) = (PostParams::default(), TokenRequest::default());
        let made = accounts.create_token_request(name, &params, &request).await?;
        let token = made.status.and_then(|status| status.token).context("no token")?;
        config.auth_info = AuthInfo { token: Some(token.into()), ..AuthInfo::default() };
        Ok(Client::try_from(config)?)
    }

    async fn config(&self, identity: &str) -> Result<Config> {
        let path = self.kubeconfigs.get(identity).with_context(|| format!("no identity {identity}"))?;
        let kubeconfig = Kubeconfig::read_from(path)?;
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        config.default_retry = false;
        Ok(config)
    }

    /// Where it listens, for a proxy before it.
    pub fn address(&self) -> Result<SocketAddr> {
        let address = self.url.trim_start_matches("https://").trim_end_matches('/');
        address.parse().with_context(|| format!("{} is no address and port", self.url))
    }

    /// The text of an identity's kubeconfig.
    pub fn kubeconfig(&self, identity: &str) -> Result<String> {
        let path = self.kubeconfigs.get(identity).with_context(|| format!("no identity {identity}"))?;
        Ok(std::fs::read_to_string(path)?)
    }

    /// Where the audit log is now: a mark for [`Cluster::requests_since`].
    pub fn audit_mark(&self) -> Result<Point> {
        // Before the length is read: what arrives in between ends behind it.
        let at = SystemClock.now();
        Ok(Point { length: std::fs::metadata(&self.audit)?.len(), at })
    }

    /// The requests that arrived since a mark and have ended, in the order in which they ended. The server writes a line
    /// before it answers, but what a request does can be seen before that.
    pub fn requests_since(&self, mark: Point) -> Result<Vec<Request>> {
        use std::io::{Read, Seek, SeekFrom};
        let mut file = std::fs::File::open(&self.audit)?;
        file.seek(SeekFrom::Start(mark.length))?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        let lines = text.lines().filter_map(|line| serde_json::from_str(line).ok());
        Ok(lines.filter(|line| arrived_since(line, mark.at)).map(|line| request(&line)).collect())
    }

    /// Sends a signal to the API server's process, e.g. `STOP`, `CONT`.
    pub fn signal(&self, signal: &str) -> Result<()> {
        let status = Command::new("kill").arg(format!("-{signal}")).arg(self.pid.to_string()).status()?;
        if status.success() { Ok(()) } else { bail!("kill -{signal} {} failed", self.pid) }
    }

    /// CPU seconds that the API server's process has used.
    pub fn cpu_seconds(&self) -> Result<f64> {
        cpu_seconds(self.pid)
    }
}

/// CPU seconds, user and system, that a process has used.
pub fn cpu_seconds(pid: u32) -> Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // After the command's name in parentheses; utime and stime are the 14th and 15th fields of all.
    let rest = stat.rsplit_once(')').context("odd stat")?.1;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let ticks: f64 = fields[11].parse::<f64>()? + fields[12].parse::<f64>()?;
    Ok(ticks / 100.0)
}

/// The server's clock is this machine's, and it tells whole microseconds.
fn arrived_since(line: &Value, at: Timestamp) -> bool {
    let received = line["requestReceivedTimestamp"].as_str().and_then(|time| time.parse::<Timestamp>().ok());
    received.is_none_or(|received| received.as_microsecond() >= at.as_microsecond())
}

fn request(line: &Value) -> Request {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let object = &line["objectRef"];
    let mut resource = text(&object["resource"]);
    if let Some(subresource) = object["subresource"].as_str() {
        resource = format!("{resource}/{subresource}");
    }
    Request {
        user: text(&line["user"]["username"]),
        verb: text(&line["verb"]),
        group: text(&object["apiGroup"]),
        resource,
        namespace: text(&object["namespace"]),
        name: text(&object["name"]),
        code: line["responseStatus"]["code"].as_u64().unwrap_or(0),
        uri: text(&line["requestURI"]),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_request_that_arrived_before_a_mark_and_ended_after_it_is_not_of_after_it() {
        // The server has cut off what is less than a microsecond.
        let at = "2026-01-01T00:00:00.000005900Z".parse().expect("a time");
        for (received, is_since) in [("00.000004Z", false), ("00.000005Z", true), ("01.5Z", true)] {
            let line = json!({"requestReceivedTimestamp": format!("2026-01-01T00:00:{received}")});
            assert_eq!(arrived_since(&line, at), is_since, "{received}");
        }
    }
}
