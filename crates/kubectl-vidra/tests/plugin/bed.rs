//! A hub and members in memory, over HTTPS, and the plug-in as a process.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use kube::Api;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use memkube::listen::{Server, Settings, User};
use memkube::{Cluster, Options, tokio_clock};
use serde_json::{Value, json};
use testkit::hub::{RunningHub, settings};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// The hub's ServiceAccount in a member, which `join` makes.
const ACCOUNT: &str = "system:serviceaccount:vidra-member:vidra-hub";
/// Who may do what on the hub.
pub const USERS: [&str; 6] = ["admin", "plain", "viewer", "nobody", ACCOUNT, HUB_IN_MEMBERS];
/// The hub in members that were registered by a Secret: it may do everything.
pub const HUB_IN_MEMBERS: &str = "hub";
/// Longer than anything here takes.
pub const SOON: Duration = Duration::from_secs(60);

/// See the module.
pub struct Bed {
    /// The hub's cluster.
    pub hub: Cluster,
    /// The members.
    pub members: Vec<Cluster>,
    /// Serves them.
    pub server: Server,
    directory: tempfile::TempDir,
    /// Told of every call to any cluster after its effect.
    changed: Arc<Notify>,
}

impl Bed {
    /// A hub's cluster with its kinds, and these members; no hub runs yet.
    pub async fn start(members: &[&str]) -> Result<Self> {
        let bed = Self::without_kinds(members).await?;
        for crd in vidra_api::crds::all() {
            bed.put(&serde_json::to_value(crd)?).await?;
        }
        for namespace in ["vidra-system", "team-a"] {
            bed.put(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}))
                .await?;
        }
        let subject = json!([{"kind": "User", "name": "plain", "apiGroup": "rbac.authorization.k8s.io"}]);
        let rbac = "rbac.authorization.k8s.io/v1";
        let rules =
            json!([{"apiGroups": ["vidra.dev"], "resources": ["*"], "verbs": ["get", "list", "watch"]}]);
        bed.put(&json!({"apiVersion": rbac, "kind": "ClusterRole", "metadata": {"name": "plain"}, "rules": rules})).await?;
        let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "plain"});
        bed.put(&json!({"apiVersion": rbac, "kind": "ClusterRoleBinding", "metadata": {"name": "plain"}, "roleRef": role, "subjects": subject}))
            .await?;
        Ok(bed)
    }

    /// The same, but the hub's cluster knows nothing of vidra.dev.
    pub async fn without_kinds(members: &[&str]) -> Result<Self> {
        #[expect(clippy::disallowed_methods, reason = "the plug-in compares ages with its own clock")]
        let clock = tokio_clock(jiff::Timestamp::now());
        let make = |(name, uids): (&&str, u64)| {
            let cluster = Cluster::new(name, Options { clock: clock.clone(), uids });
            // In a member the hub has the rights that it was given, and no others.
            cluster.authorize_with_rbac(["admin", "hub"]);
            cluster
        };
        let hub = make((&"hub", 1));
        let members: Vec<_> = members.iter().zip(2..).map(make).collect();
        let all = std::iter::once(&hub).chain(&members).cloned().collect();
        let listen = Settings { users: USERS.map(User::named).to_vec(), ..Settings::default() };
        let server = Server::start(all, &listen, &CancellationToken::new()).await?;
        let (directory, changed) = (tempfile::tempdir()?, Arc::new(Notify::new()));
        for cluster in std::iter::once(&hub).chain(&members) {
            let changed = changed.clone();
            cluster.set_witness(Some(Arc::new(move |_, _| changed.notify_waiters())));
        }
        let bed = Self { hub, members, server, directory, changed };
        for user in USERS {
            let file = bed.file(user);
            bed.server.write_kubeconfig(&file, user)?;
        }
        Ok(bed)
    }

    /// Starts a hub.
    pub async fn run_hub(&self) -> Result<RunningHub> {
        RunningHub::start(self.hub.client_as("hub"), settings("vidra-system")).await
    }

    /// Puts tokens into the members' Secrets that ask for them, as kube-controller-manager does, for ever.
    pub fn fill_tokens(&self) -> impl Future<Output = ()> + Send + 'static {
        let members: Vec<_> = self
            .members
            .iter()
            .map(|member| {
                let token = self
                    .server
                    .endpoint(member.name())
                    .and_then(|one| one.token(ACCOUNT))
                    .unwrap_or_default();
                (member.clone(), token.to_owned())
            })
            .collect();
        let (ca, changed) = (self.server.ca().to_owned(), self.changed.clone());
        async move {
            loop {
                let mut next = std::pin::pin!(changed.notified());
                next.as_mut().enable();
                for (member, token) in &members {
                    let secret = member.object("", "secrets", "vidra-member", "vidra-hub-token");
                    if secret.is_some_and(|secret| secret["data"]["token"].is_null()) {
                        let api = Api::<DynamicObject>::namespaced_with(
                            member.client_as("admin"),
                            "vidra-member",
                            &ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "Secret")),
                        );
                        let data = json!({"stringData": {"token": token, "ca.crt": ca}});
                        let _ =
                            api.patch("vidra-hub-token", &PatchParams::default(), &Patch::Merge(data)).await;
                    }
                }
                next.await;
            }
        }
    }

    /// Waits until this is so: it is looked at after every call to any cluster.
    pub async fn until(&self, what: &str, is: impl Fn() -> bool) -> Result<()> {
        let wait = async {
            loop {
                let mut next = std::pin::pin!(self.changed.notified());
                next.as_mut().enable();
                if is() {
                    return;
                }
                next.await;
            }
        };
        tokio::time::timeout(SOON, wait).await.with_context(|| format!("not within {SOON:?}: {what}"))
    }

    /// Gives `viewer` what deploy/ has for people who only look: vidra-view in team-a, and vidra-members.
    pub async fn admit_viewer(&self) -> Result<()> {
        let users = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/kustomize/users.yaml");
        for object in vidra_core::manifest::parse(&std::fs::read_to_string(users)?)? {
            self.put(&object.value).await?;
        }
        let rbac = "rbac.authorization.k8s.io";
        let binding = |kind: &str, role: &str| {
            json!({
                "apiVersion": format!("{rbac}/v1"), "kind": kind, "metadata": {"name": role},
                "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": role},
                "subjects": [{"apiGroup": rbac, "kind": "User", "name": "viewer"}],
            })
        };
        let mut view = binding("RoleBinding", "vidra-view");
        view["metadata"]["namespace"] = json!("team-a");
        self.put(&view).await?;
        self.put(&binding("ClusterRoleBinding", "vidra-members")).await
    }

    /// A file of this bed; a user's name is its kubeconfig.
    pub fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name.replace(':', "-"))
    }

    /// Applies an object on the hub as its administrator.
    pub async fn put(&self, object: &Value) -> Result<()> {
        apply(&self.hub, object, "").await
    }

    /// Writes an object's status on the hub.
    pub async fn put_status(&self, object: &Value) -> Result<()> {
        apply(&self.hub, object, "status").await
    }

    /// The plug-in as this user, ready to run.
    pub fn command(&self, user: &str, arguments: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-vidra"));
        command.arg("--kubeconfig").arg(self.file(user)).arg("--context").arg("hub");
        command
            .args(arguments.split_whitespace())
            .env_remove("KUBECONFIG")
            .env_remove("HTTPS_PROXY")
            .env_remove("https_proxy")
            .stdin(Stdio::null());
        command
    }

    /// Runs it to its end.
    pub fn run(&self, user: &str, arguments: &str) -> Result<Ran> {
        Ran::of(self.command(user, arguments).output()?)
    }
}

/// Applies an object, or a subresource of it, as the administrator.
pub async fn apply(cluster: &Cluster, object: &Value, subresource: &str) -> Result<()> {
    let object: DynamicObject = serde_json::from_value(object.clone())?;
    let types = object.types.clone().context("a type")?;
    let resource = ApiResource::from_gvk(&GroupVersionKind::try_from(&types)?);
    let name = object.metadata.name.clone().context("a name")?;
    let client = cluster.client_as("admin");
    let api: Api<DynamicObject> = match &object.metadata.namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, &resource),
        None => Api::all_with(client, &resource),
    };
    let (params, patch) = (PatchParams::apply("kubectl").force(), Patch::Apply(&object));
    match subresource {
        "" => api.patch(&name, &params, &patch).await?,
        _ => api.patch_status(&name, &params, &patch).await?,
    };
    Ok(())
}

/// What came of a run.
#[derive(Debug)]
pub struct Ran {
    /// The exit code.
    pub code: Option<i32>,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl Ran {
    /// Of an ended process.
    pub fn of(output: Output) -> Result<Self> {
        Ok(Self {
            code: output.status.code(),
            out: String::from_utf8(output.stdout)?,
            err: String::from_utf8(output.stderr)?,
        })
    }

    /// It ended with this code.
    pub fn ended(self, code: i32) -> Result<Self> {
        if self.code == Some(code) { Ok(self) } else { bail!("expected the exit code {code}: {self:#?}") }
    }

    /// It failed, with one line that says this.
    pub fn refused(self, words: &[&str]) -> Result<()> {
        let ran = self.ended(2)?;
        let one_line = ran.err.starts_with("error: ") && ran.err.trim_end().lines().count() == 1;
        if one_line && ran.out.is_empty() && words.iter().all(|words| ran.err.contains(words)) {
            return Ok(());
        }
        bail!("expected one line with {words:?}: {ran:#?}")
    }

    /// Its output has all of this.
    pub fn says(&self, words: &[&str]) -> Result<()> {
        match words.iter().find(|words| !self.out.contains(*words)) {
            None => Ok(()),
            Some(missing) => bail!("{missing:?} is not in {self:#?}"),
        }
    }
}
