//! A cluster as a person's kubeconfig names it: the hub, and for `join` the member.

use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::time::Duration;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{Api, ListParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config, Resource};
use serde::de::DeserializeOwned;
use vidra_api::MemberCluster;
use vidra_api::labels::HEALTH_RULES;

use crate::error::{CONFIG_MAPS, Doing, Failure, MEMBERS, READING, is_missing};
use crate::output::complain;

/// Objects in one answer of a list.
const PAGE: u32 = 500;
const CONNECT_WITHIN: Duration = Duration::from_secs(10);
const ANSWER_WITHIN: Duration = Duration::from_secs(60);

/// Which cluster, and where in it.
#[derive(Clone, Debug, Default)]
pub struct Place {
    /// The kubeconfig; default: as kubectl.
    pub kubeconfig: Option<PathBuf>,
    /// The context; default: the current one.
    pub context: Option<String>,
    /// The namespace; default: that of the context.
    pub namespace: Option<String>,
}

/// A cluster to speak with.
pub struct Cluster {
    /// Speaks with it.
    pub client: Client,
    /// Where commands look.
    pub namespace: String,
    /// For messages: `the hub at https://…`.
    pub name: String,
    /// Its address, of the kubeconfig.
    pub url: String,
    /// The name in its certificate, where that is not the host's.
    pub tls_server_name: Option<String>,
    /// Its CA, as DER.
    pub ca: Vec<Vec<u8>>,
    /// Nobody verifies its certificate.
    pub unverified: bool,
    /// What names it on the command line.
    flags: &'static str,
}

impl Cluster {
    /// The hub, as kubectl would find it.
    ///
    /// # Errors
    /// The kubeconfig cannot be used.
    pub async fn hub(place: &Place) -> Result<Self, Failure> {
        Self::open(place, "hub", "--kubeconfig and --context").await
    }

    /// A member.
    ///
    /// # Errors
    /// The kubeconfig cannot be used.
    pub async fn member(kubeconfig: Option<&Path>, context: Option<&str>) -> Result<Self, Failure> {
        let place = Place {
            kubeconfig: kubeconfig.map(Path::to_owned),
            context: context.map(str::to_owned),
            namespace: None,
        };
        Self::open(&place, "member", "--member-kubeconfig and --member-context").await
    }

    async fn open(place: &Place, role: &'static str, flags: &'static str) -> Result<Self, Failure> {
        let bad = |why: &dyn std::fmt::Display| Failure::Kubeconfig {
            role,
            why: crate::text::brief(&why.to_string(), 300),
            flags,
        };
        let mut config = config(place).await.map_err(|why| bad(&why))?;
        config.connect_timeout = Some(CONNECT_WITHIN);
        config.read_timeout = Some(ANSWER_WITHIN);
        config.default_retry = false;
        let (url, tls_server_name) = (config.cluster_url.to_string(), config.tls_server_name.clone());
        let ca = config.root_cert.clone().unwrap_or_default();
        let unverified = config.accept_invalid_certs;
        let namespace = place.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        let client = Client::try_from(config).map_err(|why| match why {
            // Its address may hold a password.
            kube::Error::ProxyProtocolDisabled { .. } | kube::Error::ProxyProtocolUnsupported { .. } => {
                bad(&"it goes through a proxy (proxy-url, or HTTPS_PROXY), which this plug-in cannot do: go without where the cluster can be reached directly")
            }
            why => bad(&why),
        })?;
        let url = url.trim_end_matches('/').to_owned();
        Ok(Self {
            client,
            namespace,
            name: format!("the {role} at {url}"),
            url,
            tls_server_name,
            ca,
            unverified,
            flags,
        })
    }

    /// For messages of failed calls.
    pub fn doing<'a>(&'a self, action: &'a str, rights: &'static str) -> Doing<'a> {
        Doing { action, cluster: &self.name, rights, flags: self.flags }
    }

    /// Objects of a kind in the namespace, or in all.
    pub fn api<K>(&self, all_namespaces: bool) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        if all_namespaces {
            Api::all(self.client.clone())
        } else {
            Api::namespaced(self.client.clone(), &self.namespace)
        }
    }

    /// Lists in pages; once more in one piece where the pages have grown too old meanwhile.
    ///
    /// # Errors
    /// A call fails.
    pub async fn list<K>(&self, api: &Api<K>, fields: &str) -> Result<Vec<K>, Failure>
    where
        K: Clone + DeserializeOwned + Debug + Resource<DynamicType = ()>,
    {
        let fields = (!fields.is_empty()).then(|| fields.to_owned());
        self.pages(api, ListParams { field_selector: fields, ..ListParams::default() }).await
    }

    /// The same of what bears labels.
    ///
    /// # Errors
    /// A call fails.
    pub async fn list_labelled<K>(&self, api: &Api<K>, labels: &str) -> Result<Vec<K>, Failure>
    where
        K: Clone + DeserializeOwned + Debug + Resource<DynamicType = ()>,
    {
        self.pages(api, ListParams::default().labels(labels)).await
    }

    async fn pages<K>(&self, api: &Api<K>, wanted: ListParams) -> Result<Vec<K>, Failure>
    where
        K: Clone + DeserializeOwned + Debug + Resource<DynamicType = ()>,
    {
        let kind = K::kind(&());
        let action = format!("list {kind}s");
        let rights = match &*kind {
            "MemberCluster" => MEMBERS,
            "ConfigMap" => CONFIG_MAPS,
            _ => READING,
        };
        let doing = self.doing(&action, rights);
        let params = || wanted.clone();
        let mut page = params().limit(PAGE);
        let mut all = Vec::new();
        loop {
            let list = match api.list(&page).await {
                Err(kube::Error::Api(status)) if status.code == 410 => {
                    return Ok(api.list(&params()).await.map_err(|error| doing.failed(error))?.items);
                }
                list => list.map_err(|error| doing.failed(error))?,
            };
            all.extend(list.items);
            match list.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => page = params().limit(PAGE).continue_token(&token),
                None => return Ok(all),
            }
        }
    }

    /// That there is what a list was asked for which came empty: the namespace, and the member where one is named. What
    /// may not be looked at is a warning.
    ///
    /// # Errors
    /// One does not exist, or a call fails.
    pub async fn check_place(&self, all_namespaces: bool, member: Option<&str>) -> Result<(), Failure> {
        if let Some(name) = member {
            let what = format!("MemberCluster {name}");
            let found = self.find::<MemberCluster>(&Api::all(self.client.clone()), name, MEMBERS).await;
            check_found(found, what, "see `kubectl vidra clusters`")?;
        }
        if !all_namespaces {
            let (name, api) = (&self.namespace, Api::<Namespace>::all(self.client.clone()));
            let found = self.find(&api, name, READING).await;
            check_found(found, format!("the namespace {name} on the hub"), "choose another with -n")?;
        }
        Ok(())
    }

    /// The ConfigMaps of health rules of the fleet, in the namespace in which the hub runs.
    ///
    /// # Errors
    /// They may not be read, or the namespace does not exist.
    pub async fn health_rules(&self, namespace: &str) -> Result<Vec<ConfigMap>, Failure> {
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), namespace);
        let all = self.list_labelled(&api, &format!("{HEALTH_RULES}=true")).await?;
        if all.is_empty() {
            let found = self.find(&Api::<Namespace>::all(self.client.clone()), namespace, READING).await;
            let what = format!("the namespace {namespace} on the hub");
            check_found(found, what, "name the one in which the hub runs with --hub-namespace")?;
        }
        Ok(all)
    }

    /// Reads one object; none where it is not there.
    ///
    /// # Errors
    /// The call fails.
    pub async fn find<K>(&self, api: &Api<K>, name: &str, rights: &'static str) -> Result<Option<K>, Failure>
    where
        K: Clone + DeserializeOwned + Debug + Resource<DynamicType = ()>,
    {
        let action = format!("read {} {name}", K::kind(&()));
        match api.get(name).await {
            Ok(object) => Ok(Some(object)),
            Err(error) if is_missing(&error) => Ok(None),
            Err(error) => Err(self.doing(&action, rights).failed(error)),
        }
    }
}

fn check_found<K>(found: Result<Option<K>, Failure>, what: String, hint: &str) -> Result<(), Failure> {
    match found {
        Ok(Some(_)) => Ok(()),
        Ok(None) => Err(Failure::NotFound { what, hint: hint.to_owned() }),
        Err(Failure::Forbidden { .. }) => {
            complain(&format!("warning: nothing is found, and you may not see whether {what} exists"));
            Ok(())
        }
        Err(failure) => Err(failure),
    }
}

async fn config(place: &Place) -> Result<Config, Box<dyn std::error::Error>> {
    let options = KubeConfigOptions { context: place.context.clone(), ..KubeConfigOptions::default() };
    Ok(match &place.kubeconfig {
        Some(path) => Config::from_custom_kubeconfig(Kubeconfig::read_from(path)?, &options).await?,
        None if place.context.is_some() => Config::from_kubeconfig(&options).await?,
        None => Config::infer().await?,
    })
}
