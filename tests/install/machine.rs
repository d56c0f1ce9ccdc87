//! A hub's cluster with one member, on which things are installed with kubectl, as people do; and the hub's
//! process, started as its Deployment says.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};
use testkit::testbed::{Cluster, Testbed, binary};

/// API servers are large: one machine at a time.
static ONE: Mutex<()> = Mutex::new(());

/// The repository's root.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Runs a program with text on its input. Ok: what it printed; Err: what it complained of.
pub fn run(command: &mut Command, input: &str) -> Result<String, String> {
    command.current_dir(root()).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // Ended early, it has its own words for that.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    let (said, complaint) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    // A warning of an API server begins a line; kubectl's log of a watch that it ends itself has the word behind its time.
    assert!(!complaint.lines().any(|line| line.starts_with("Warning:")), "{command:?}: {complaint}");
    if output.status.success() { Ok(said) } else { Err(complaint) }
}

/// See the module.
pub struct Machine {
    bed: Testbed,
    kubectl: PathBuf,
    /// Files of this test.
    files: tempfile::TempDir,
    _one: MutexGuard<'static, ()>,
}

/// The hub's process; it ends with this.
pub struct Hub {
    process: Child,
    port: u16,
    /// Where it says whether it is ready.
    ready: String,
    is_killed: bool,
}

impl Machine {
    /// Starts the clusters `hub` and `berlin`.
    pub fn start() -> Self {
        Self::with_members("berlin")
    }

    /// Starts the cluster `hub` and members, their names with commas between.
    pub fn with_members(names: &str) -> Self {
        let one = ONE.lock();
        let controllers = "namespace,garbagecollector,serviceaccount-token-controller";
        let bed = Testbed::start(&["--names", names, "--controllers", controllers]).unwrap();
        let kubectl = binary().unwrap().with_file_name("kubectl");
        Self { bed, kubectl, files: tempfile::tempdir().unwrap(), _one: one }
    }

    /// A cluster, for what takes a client.
    pub fn cluster(&self, name: &str) -> &Cluster {
        self.bed.cluster(name).unwrap()
    }

    /// Runs kubectl in a cluster, with text on its input.
    pub fn kubectl(&self, cluster: &str, arguments: &str, input: &str) -> Result<String, String> {
        let mut command = Command::new(&self.kubectl);
        command.arg("--kubeconfig").arg(&self.bed.kubeconfig).args(["--context", cluster]);
        run(command.args(arguments.split(' ')), input).map_err(|why| format!("kubectl {arguments}: {why}"))
    }

    /// Whether a user may do something in the hub's cluster, as `kubectl auth can-i` asks.
    pub fn may(&self, user: &str, question: &str) -> bool {
        match self.kubectl("hub", &format!("auth can-i {question} --as={user}"), "") {
            Ok(said) => said.trim() == "yes",
            // It says no by its exit code too, and complains of nothing.
            Err(why) if why.ends_with(": ") => false,
            Err(why) => panic!("{why}"),
        }
    }

    /// Runs helm in the hub's cluster.
    pub fn helm(&self, arguments: &str) -> Result<String, String> {
        let mut command = Command::new(crate::chart::helm());
        command.arg("--kubeconfig").arg(&self.bed.kubeconfig).args(["--kube-context", "hub"]);
        // What it would keep of its own, apart from what somebody has on this machine.
        for (name, of) in
            [("HELM_CONFIG_HOME", "config"), ("HELM_CACHE_HOME", "cache"), ("HELM_DATA_HOME", "data")]
        {
            command.env(name, self.files.path().join(of));
        }
        run(command.args(arguments.split(' ')), "")
    }

    /// One field of an object.
    pub fn field(&self, cluster: &str, object: &str, path: &str) -> String {
        self.kubectl(cluster, &format!("get {object} -o jsonpath={path}"), "").unwrap()
    }

    /// Starts the hub as the Deployment says in a Pod of its own, with a token of its ServiceAccount, and waits until its
    /// probes answer.
    pub fn run_hub(&self) -> Hub {
        self.run_build(Path::new(env!("CARGO_BIN_EXE_vidra-hub")), true)
    }

    /// Starts so the program of any build. One that says that it is not ready while another works is only to live.
    pub fn run_build(&self, program: &Path, is_ready: bool) -> Hub {
        let (mut command, port, [live, ready]) = self.hub(program);
        let hub = Hub { process: command.spawn().unwrap(), port, ready, is_killed: false };
        until(&format!("{live} answers 200"), || answer(port, &live).map(drop));
        if is_ready {
            until(&format!("{} answers 200", hub.ready), || hub.is_ready());
        }
        hub
    }

    /// Starts the hub so, which ends with an error: what it says.
    pub fn last_words_of_the_hub(&self) -> String {
        let path = self.files.path().join("last-words");
        let program = Path::new(env!("CARGO_BIN_EXE_vidra-hub"));
        let mut process = self.hub(program).0.stderr(std::fs::File::create(&path).unwrap()).spawn().unwrap();
        let mut is_well = None;
        until("the hub ends", || {
            is_well = process.try_wait().unwrap().map(|ended| ended.success());
            is_well.map(drop).ok_or_else(|| "it runs".to_owned())
        });
        assert_eq!(is_well, Some(false));
        std::fs::read_to_string(path).unwrap()
    }

    /// The hub as the Deployment says, its port, and the paths of its probes: whether it lives, whether it is ready.
    fn hub(&self, program: &Path) -> (Command, u16, [String; 2]) {
        self.kubectl("hub", "wait --for=condition=Established --timeout=120s crd --all", "").unwrap();
        let deployment = self.kubectl("hub", "get deployment vidra-hub -n vidra-system -o json", "").unwrap();
        let deployment: Value = serde_json::from_str(&deployment).unwrap();
        let pod = &deployment["spec"]["template"]["spec"];
        let container = &pod["containers"][0];
        let account = pod["serviceAccountName"].as_str().unwrap();
        // Free a moment ago.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();

        let mut command = Command::new(program);
        for argument in container["args"].as_array().unwrap() {
            let argument = argument.as_str().unwrap();
            command.arg(argument.replace("0.0.0.0:8080", &format!("127.0.0.1:{port}")));
        }
        for variable in container["env"].as_array().unwrap() {
            let value = match variable["valueFrom"]["fieldRef"]["fieldPath"].as_str() {
                Some("metadata.namespace") => "vidra-system".to_owned(),
                // No two Pods have one.
                Some("metadata.uid") => format!("pod-on-port-{port}"),
                _ => variable["value"].as_str().unwrap().to_owned(),
            };
            command.env(variable["name"].as_str().unwrap(), value);
        }
        command.arg("--kubeconfig").arg(self.kubeconfig_of(account)).arg("--allow-loopback-members");
        let path = |probe: &str| container[probe]["httpGet"]["path"].as_str().unwrap().to_owned();
        (command, port, ["livenessProbe", "readinessProbe"].map(path))
    }

    /// The hub's cluster, as a ServiceAccount.
    fn kubeconfig_of(&self, account: &str) -> PathBuf {
        let token = self.kubectl("hub", &format!("create token {account} -n vidra-system"), "").unwrap();
        let admin = self.kubectl("hub", "config view --minify --flatten --raw -o json", "").unwrap();
        let mut config: Value = serde_json::from_str(&admin).unwrap();
        config["users"][0]["user"] = json!({"token": token.trim()});
        let path = self.files.path().join("hub.kubeconfig");
        std::fs::write(&path, config.to_string()).unwrap();
        path
    }

    /// Registers the member `berlin`.
    pub fn register(&self, rights: &str) {
        self.register_member("berlin", rights);
    }

    /// Makes a member's rights and its kubeconfig, and registers it, with the commands of the documentation.
    pub fn register_member(&self, member: &str, rights: &str) {
        self.kubectl(member, &format!("apply -f {rights}"), "").unwrap();
        let mut script = Command::new("bash");
        let path = self.files.path().join(format!("{member}.kubeconfig"));
        script.args(["clusters/kubeconfig.sh", member, "-o"]).arg(&path).env("KUBECTL", &self.kubectl);
        run(script.env("KUBECONFIG", &self.bed.kubeconfig), "").unwrap();
        for command in [
            format!(
                "create secret generic {member} -n vidra-system --from-file kubeconfig={}",
                path.display()
            ),
            format!("label secret {member} -n vidra-system vidra.dev/member-cluster={member}"),
            format!("wait --for=create --timeout=120s mc/{member}"),
            format!("wait --for=condition=Ready --timeout=120s mc/{member}"),
        ] {
            self.kubectl("hub", &command, "").unwrap();
        }
    }
}

impl Hub {
    /// Its metrics.
    pub fn metrics(&self) -> String {
        answer(self.port, "/metrics").unwrap()
    }

    /// It is the one that works.
    pub fn leads(&self) -> bool {
        self.metrics().contains("\nvidra_leader 1\n")
    }

    /// It is ready, or what it says instead.
    pub fn is_ready(&self) -> Result<(), String> {
        answer(self.port, &self.ready).map(drop)
    }

    /// Sends its process a signal.
    pub fn signal(&self, signal: &str) {
        let sent = Command::new("kill").arg(format!("-{signal}")).arg(self.process.id().to_string()).status();
        assert!(sent.unwrap().success(), "kill -{signal}");
    }

    /// Waits until it has ended by itself.
    pub fn ended(mut self) -> ExitStatus {
        let mut ended = None;
        until("the hub ends", || {
            ended = self.process.try_wait().unwrap();
            ended.map(drop).ok_or_else(|| "it runs".to_owned())
        });
        self.is_killed = true;
        ended.unwrap()
    }

    /// Ends it as the loss of its node does.
    pub fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        self.is_killed = true;
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        if self.is_killed {
            return;
        }
        // As a Pod is ended; it gives its Lease back.
        // One that a test has stopped goes on first, or it would never end.
        for signal in ["-CONT", "-TERM"] {
            let _ = Command::new("kill").arg(signal).arg(self.process.id().to_string()).status();
        }
        let ended = self.process.wait().unwrap();
        assert!(ended.success() || std::thread::panicking(), "the hub ends well: {ended}");
    }
}

/// A VidraResource of team-a for all members, with a ConfigMap for each name, which has this value.
pub fn config_maps(
    name: &str,
    namespace: &str,
    objects: impl IntoIterator<Item = (String, String)>,
) -> Value {
    let one = |(name, value): (String, String)| {
        let metadata = json!({"name": name});
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"value": value}})
            .to_string()
    };
    let manifest: Vec<_> = objects.into_iter().map(one).collect();
    json!({
        "apiVersion": "vidra.dev/v1alpha1", "kind": "VidraResource",
        "metadata": {"name": name, "namespace": "team-a"},
        "spec": {
            "targets": [{"clusterSelector": {}, "namespace": namespace}],
            "manifest": manifest.join("\n---\n"),
        },
    })
}

/// Waits, two minutes at most.
pub fn until(what: &str, mut probe: impl FnMut() -> Result<(), String>) {
    let mut last = String::new();
    for _ in 0..1200 {
        match probe() {
            Ok(()) => return,
            Err(why) => last = why,
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("waited in vain: {what}; last: {last}");
}

/// What a path of the hub answers, if it does so with 200.
fn answer(port: u16, path: &str) -> Result<String, String> {
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok(text)
    };
    match ask() {
        Ok(text) if text.starts_with("HTTP/1.1 200") => Ok(text),
        Ok(text) => Err(text),
        Err(error) => Err(error.to_string()),
    }
}
