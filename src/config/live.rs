//! What the ConfigMap of settings says: read key by key, so that one that is missing or wrong costs nothing but
//! itself. Pure: no I/O, no clock.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use vidra_core::{
    carried::Carried,
    drift::Redactions,
    duration::told,
    guard,
    health::facts::Waits,
    ignore::Autoscalers,
    mutants::{self, Mutant},
    select,
};

use super::{Settings, parse_interval};

/// Each has a watch of its own.
const NAMESPACES_MAX: usize = 50;
/// Its last value holds on where the ConfigMap is not there.
const DEFAULT_ALLOWED: &str = "defaultAllowedNamespaces";

/// A namespace has little that has no more than this part of what all may have.
const LITTLE: usize = 16;

/// What all VidraResources of a namespace of the hub may have together, and those of all namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Objects, each counted once whatever the number of members.
    pub objects: usize,
    /// Bytes of memory, as `vidra_core::weight` has it: of what is parsed, and of what is rendered. Members on which it
    /// comes out alike share one rendering.
    pub bytes: usize,
    /// The same of all namespaces together; [`usize::MAX`]: as much as there is.
    pub hub: usize,
    /// They are of what is delivered: it has more room.
    pub is_wide: bool,
}

impl Bounds {
    /// There are none.
    pub const NONE: Self = Self { objects: usize::MAX, bytes: usize::MAX, hub: usize::MAX, is_wide: false };

    /// Bytes of memory of all namespaces.
    pub fn all_bytes(&self) -> usize {
        if mutants::is(Mutant::HubUnbounded) { usize::MAX } else { self.hub }
    }

    /// Those of what is delivered: as much memory again for the namespace, and half as much again for all, for that the
    /// process may take twice as much is not sure.
    #[must_use]
    pub fn wider(self) -> Self {
        Self { bytes: self.bytes.saturating_mul(2), is_wide: true, ..self }
    }

    /// Whether the process has room for `all` bytes, of which a namespace has `own`. A namespace that has little is served
    /// though others have filled the rest.
    pub fn has_room(&self, own: usize, all: usize) -> bool {
        let most = self.all_bytes();
        let is_little = own <= most / LITTLE && !mutants::is(Mutant::OneFillsTheHub);
        let more = match self.is_wide {
            true => most / 2,
            false if is_little => most / 4,
            false => 0,
        };
        all <= most.saturating_add(more)
    }
}

/// What can be changed while the hub runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Live {
    /// Between two comparisons of a target to which nothing happened.
    pub interval: Duration,
    /// Whether events make targets look.
    pub on_events: bool,
    /// Whether a delivery that failed is tried again before the interval.
    pub retry: bool,
    /// The first pause after a failure; each is twice the one before.
    pub retry_base: Duration,
    /// The longest pause after failures.
    pub retry_max: Duration,
    /// A call to a member must end within this time, all stages together.
    pub apply_timeout: Duration,
    /// Between two probes of a member that answers.
    pub probe_interval: Duration,
    /// A probe without an answer within this time is missed.
    pub probe_timeout: Duration,
    /// So many missed probes in a row, and the member is out of contact.
    pub probe_misses: u32,
    /// The first list of a kind in a member must end within this time.
    pub cache_sync_timeout: Duration,
    /// Every so often all is listed although a watch tells; `None`: never.
    pub verify_interval: Option<Duration>,
    /// Whether an informer that cannot start stops what it belongs to: the process, or a member's session.
    pub stop_on_startup_error: bool,
    /// Percent of the targets that may be lost at once without an approval.
    pub removal_guard: u8,
    /// Percent of one target's objects that may be deleted at once without an approval.
    pub object_removal_guard: u8,
    /// How long what is not declared any more stays: another VidraResource may take it over.
    pub prune_delay: Duration,
    /// How long a verdict waits for what may never come.
    pub waits: Waits,
    /// What all VidraResources of a namespace of the hub may have together, and those of all.
    pub bounds: Bounds,
    /// Targets that are worked on side by side on one member.
    pub cluster_concurrency: usize,
    /// Namespaces whose Secrets register members, besides the hub's own.
    pub registration_namespaces: BTreeSet<String>,
    /// Namespaces of the hub that members allow whose MemberClusters do not say; `None`: all.
    pub default_allowed_namespaces: Option<Vec<String>>,
    /// Which labels of a registration Secret go to its MemberCluster.
    pub carried_labels: Carried,
    /// The field managers to which replicas that are scaled are left.
    pub autoscalers: Arc<Autoscalers>,
    /// Whether a Secret may stand in a VidraResource itself, where all may read it who read VidraResources.
    pub allow_inline_secrets: bool,
    /// Whether kubeconfigs of members may name a proxy.
    pub allow_proxy: bool,
    /// Fields whose values are never written, besides those of Secrets.
    pub redact: Redactions,
}

impl Live {
    /// What holds where the ConfigMap says nothing.
    pub fn defaults(settings: &Settings) -> Self {
        Self {
            interval: settings.interval,
            on_events: settings.on_events,
            retry: true,
            retry_base: Duration::from_millis(250),
            retry_max: Duration::from_secs(300),
            apply_timeout: Duration::from_secs(15),
            probe_interval: Duration::from_secs(10),
            probe_timeout: Duration::from_secs(5),
            probe_misses: 2,
            cache_sync_timeout: Duration::from_secs(120),
            verify_interval: Some(Duration::from_secs(3600)),
            stop_on_startup_error: false,
            removal_guard: 20,
            object_removal_guard: guard::OBJECTS_SHARE,
            prune_delay: Duration::from_secs(5),
            waits: Waits::default(),
            bounds: Bounds {
                objects: 100_000,
                bytes: 1 << 30,
                // The rest is for what is kept of the members, and for work.
                hub: settings.memory_limit.map_or(usize::MAX, |limit| limit / 2),
                is_wide: false,
            },
            cluster_concurrency: 4,
            registration_namespaces: BTreeSet::new(),
            default_allowed_namespaces: None,
            carried_labels: Carried::default(),
            autoscalers: Arc::default(),
            allow_inline_secrets: true,
            allow_proxy: settings.allow.proxy,
            redact: Redactions::default(),
        }
    }
}

/// What looks again when settings change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LookAgain {
    /// All VidraTargets.
    pub targets: bool,
    /// All MemberClusters.
    pub members: bool,
    /// All VidraResources.
    pub resources: bool,
}

impl Live {
    /// What goes by something that is not as it was before.
    pub fn look_again(&self, before: &Self) -> LookAgain {
        let allowed = self.default_allowed_namespaces != before.default_allowed_namespaces;
        LookAgain {
            targets: allowed
                || self.interval != before.interval
                || self.on_events != before.on_events
                || self.redact != before.redact
                || self.autoscalers != before.autoscalers
                || self.object_removal_guard != before.object_removal_guard,
            members: allowed
                || self.allow_proxy != before.allow_proxy
                || self.carried_labels != before.carried_labels
                || self.removal_guard != before.removal_guard,
            resources: allowed
                || self.removal_guard != before.removal_guard
                || self.allow_inline_secrets != before.allow_inline_secrets
                || self.bounds != before.bounds,
        }
    }
}

/// The last text of each setting that could be used.
pub type Texts = BTreeMap<&'static str, String>;

/// What was made of a ConfigMap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// What holds now.
    pub live: Live,
    /// The texts that it was read from, by the settings' own keys.
    pub good: Texts,
    /// Keys with a value that cannot be used: the key, and a sentence.
    pub faults: Vec<(String, String)>,
    /// Keys that mean nothing here.
    pub unknown: Vec<String>,
}

/// One setting: its key, its other name, and how its value is taken.
struct Setting {
    key: &'static str,
    alias: Option<&'static str>,
    take: fn(&mut Live, &str) -> Result<(), String>,
}

const SETTINGS: [Setting; 29] = [
    Setting {
        key: "interval",
        alias: Some("requeueResourcesAfter"),
        take: |live, text| put(&mut live.interval, duration(text, 1_000, 7 * 24 * 3_600_000)),
    },
    Setting {
        key: "reconcileOnEvents",
        alias: Some("eventBasedReconcile"),
        take: |live, text| put(&mut live.on_events, switch(text)),
    },
    Setting { key: "retry.enabled", alias: None, take: |live, text| put(&mut live.retry, switch(text)) },
    Setting {
        key: "retry.base",
        alias: None,
        take: |live, text| put(&mut live.retry_base, duration(text, 10, 3_600_000)),
    },
    Setting {
        key: "retry.max",
        alias: None,
        take: |live, text| put(&mut live.retry_max, duration(text, 1_000, 24 * 3_600_000)),
    },
    Setting {
        key: "apply.timeout",
        alias: None,
        take: |live, text| put(&mut live.apply_timeout, duration(text, 1_000, 600_000)),
    },
    Setting {
        key: "probe.interval",
        alias: None,
        take: |live, text| put(&mut live.probe_interval, duration(text, 1_000, 300_000)),
    },
    Setting {
        key: "probe.timeout",
        alias: None,
        take: |live, text| put(&mut live.probe_timeout, duration(text, 1_000, 60_000)),
    },
    Setting {
        key: "probe.misses",
        alias: None,
        take: |live, text| put(&mut live.probe_misses, whole(text, 1, 10)),
    },
    Setting {
        key: "informer.cacheSyncTimeout",
        alias: None,
        take: |live, text| put(&mut live.cache_sync_timeout, duration(text, 1_000, 3_600_000)),
    },
    Setting {
        key: "verifyInterval",
        alias: None,
        take: |live, text| match text {
            "0" | "0s" => put(&mut live.verify_interval, Ok(None)),
            text => put(
                &mut live.verify_interval,
                duration(text, 60_000, 7 * 24 * 3_600_000)
                    .map(Some)
                    .map_err(|why| format!("{why}; 0s is never")),
            ),
        },
    },
    Setting {
        key: "informer.onStartupError",
        alias: None,
        take: |live, text| {
            put(
                &mut live.stop_on_startup_error,
                match text {
                    "Continue" => Ok(false),
                    "Stop" => Ok(true),
                    _ => Err("write Continue or Stop".to_owned()),
                },
            )
        },
    },
    Setting {
        key: "removalGuard",
        alias: None,
        take: |live, text| put(&mut live.removal_guard, percent(text)),
    },
    Setting {
        key: "objectRemovalGuard",
        alias: None,
        take: |live, text| put(&mut live.object_removal_guard, percent(text)),
    },
    Setting {
        key: "pruneDelay",
        alias: None,
        take: |live, text| match text {
            "0" | "0s" => put(&mut live.prune_delay, Ok(Duration::ZERO)),
            text => put(
                &mut live.prune_delay,
                duration(text, 1_000, 3_600_000).map_err(|why| format!("{why}; 0s is at once")),
            ),
        },
    },
    Setting {
        key: "namespaceMaxObjects",
        alias: None,
        take: |live, text| put(&mut live.bounds.objects, whole(text, 1, 10_000_000)),
    },
    Setting {
        key: "namespaceMaxBytes",
        alias: None,
        take: |live, text| put(&mut live.bounds.bytes, bytes(text)),
    },
    Setting { key: "hubMaxBytes", alias: None, take: |live, text| put(&mut live.bounds.hub, bytes(text)) },
    Setting {
        key: "health.noStatus",
        alias: None,
        take: |live, text| put(&mut live.waits.no_status, duration(text, 0, 600_000)),
    },
    Setting {
        key: "health.staleStatus",
        alias: None,
        take: |live, text| put(&mut live.waits.stale_status, duration(text, 0, 60_000)),
    },
    Setting {
        key: "health.failedAfter",
        alias: None,
        take: |live, text| put(&mut live.waits.failed, duration(text, 0, 600_000)),
    },
    Setting {
        key: "clusterConcurrency",
        alias: None,
        take: |live, text| put(&mut live.cluster_concurrency, whole(text, 1, 64)),
    },
    Setting {
        key: "registrationNamespaces",
        alias: None,
        take: |live, text| put(&mut live.registration_namespaces, select::namespaces(text, NAMESPACES_MAX)),
    },
    Setting {
        key: DEFAULT_ALLOWED,
        alias: None,
        take: |live, text| {
            // Where no earlier text holds: it is not known who may.
            live.default_allowed_namespaces = Some(Vec::new());
            put(&mut live.default_allowed_namespaces, allowed(text))
        },
    },
    Setting {
        key: "carriedLabels",
        alias: None,
        take: |live, text| put(&mut live.carried_labels, Carried::parse(text)),
    },
    Setting {
        key: "autoscalerManagers",
        alias: None,
        take: |live, text| put(&mut live.autoscalers, Autoscalers::parse(text).map(Arc::new)),
    },
    Setting {
        key: "allowInlineSecrets",
        alias: None,
        take: |live, text| {
            // Where no earlier text holds: it is not known whether they may.
            live.allow_inline_secrets = false;
            put(&mut live.allow_inline_secrets, switch(text))
        },
    },
    Setting { key: "allowProxy", alias: None, take: |live, text| put(&mut live.allow_proxy, switch(text)) },
    Setting {
        key: "redact",
        alias: None,
        take: |live, text| {
            // Where no earlier text holds: it is not known what may be written.
            if !mutants::is(Mutant::RedactsNothing) {
                live.redact = Redactions::everything();
            }
            put(&mut live.redact, Redactions::parse(text).map_err(|bad| bad.to_string()))
        },
    },
];

/// Reads the ConfigMap's data. A key that is not there means the default, one that cannot be used what `last`
/// says.
pub fn read(data: &BTreeMap<String, String>, last: &Texts, defaults: &Live) -> Reading {
    let mut live = defaults.clone();
    let (mut good, mut faults) = (Texts::new(), Vec::new());
    for setting in &SETTINGS {
        let own = data.get_key_value(setting.key);
        let given = own.or_else(|| setting.alias.and_then(|alias| data.get_key_value(alias)));
        let Some((key, text)) = given else { continue };
        let text = text.trim();
        let holds = match (setting.take)(&mut live, text) {
            Ok(()) => Some(text),
            Err(why) => {
                faults.push((key.clone(), why));
                let before = last.get(setting.key).map(String::as_str);
                before.filter(|before| (setting.take)(&mut live, before).is_ok())
            }
        };
        good.extend(holds.map(|text| (setting.key, text.to_owned())));
    }
    let is_known = |key: &str| SETTINGS.iter().any(|one| one.key == key || one.alias == Some(key));
    let unknown = data.keys().filter(|key| !is_known(key)).cloned().collect();
    Reading { live, good, faults, unknown }
}

/// What holds in place of a text that cannot be used.
pub fn held_instead(key: &str, now: &Live) -> &'static str {
    match key {
        DEFAULT_ALLOWED if now.default_allowed_namespaces.as_ref().is_some_and(Vec::is_empty) => {
            "members that do not say themselves who may deliver allow no namespace"
        }
        "redact" if now.redact == Redactions::everything() => "no value is written anywhere",
        "allowInlineSecrets" if !now.allow_inline_secrets => "no Secret may stand in a VidraResource",
        _ => "the last value that could be used holds, or the default",
    }
}

/// What holds where the ConfigMap is not there: the defaults, but who may deliver where stays as it was.
pub fn missing(before: &Live, last: &Texts, defaults: &Live) -> Reading {
    let allowed = before.default_allowed_namespaces.clone();
    let mut live = defaults.clone();
    live.default_allowed_namespaces = allowed;
    let good = last.get_key_value(DEFAULT_ALLOWED).map(|(key, text)| (*key, text.clone()));
    Reading { live, good: good.into_iter().collect(), faults: Vec::new(), unknown: Vec::new() }
}

/// The keys that mean something.
pub fn keys() -> impl Iterator<Item = &'static str> {
    SETTINGS.iter().map(|setting| setting.key)
}

fn put<T>(place: &mut T, value: Result<T, String>) -> Result<(), String> {
    *place = value?;
    Ok(())
}

fn switch(text: &str) -> Result<bool, String> {
    match text {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err("write true or false".to_owned()),
    }
}

fn whole<T: TryFrom<u64>>(text: &str, least: u64, most: u64) -> Result<T, String> {
    let wrong = || format!("write a whole number from {least} to {most}");
    let number =
        text.parse::<u64>().ok().filter(|number| (least..=most).contains(number)).ok_or_else(wrong)?;
    T::try_from(number).map_err(|_| wrong())
}

/// Bytes of memory, in the units that Kubernetes has for them.
fn bytes(text: &str) -> Result<usize, String> {
    let (number, shift) = match (text.strip_suffix("Mi"), text.strip_suffix("Gi")) {
        (Some(number), _) => (number, 20),
        (None, Some(number)) => (number, 30),
        (None, None) => (text, 0),
    };
    let bytes = number.parse::<usize>().ok().and_then(|number| number.checked_mul(1 << shift));
    bytes
        .filter(|bytes| (1 << 20..=1 << 40).contains(bytes))
        .ok_or_else(|| "write an amount of memory from 1Mi to 1024Gi, such as 512Mi or 2Gi".to_owned())
}

/// A share, with or without its sign.
fn percent(text: &str) -> Result<u8, String> {
    whole(text.trim_end_matches('%').trim_end(), 0, 100)
}

/// Names of namespaces, or a star for all.
fn allowed(text: &str) -> Result<Option<Vec<String>>, String> {
    if text == "*" {
        return Ok(None);
    }
    match select::namespaces(text, select::NAMESPACES_MAX) {
        Ok(names) => Ok(Some(names.into_iter().collect())),
        Err(why) => Err(format!("{why}, or * for all")),
    }
}

fn duration(text: &str, least: u64, most: u64) -> Result<Duration, String> {
    let (least, most) = (Duration::from_millis(least), Duration::from_millis(most));
    let zero = (text.trim() == "0s").then_some(Duration::ZERO);
    let read =
        zero.or_else(|| parse_interval(text).ok()).filter(|duration| (least..=most).contains(duration));
    read.ok_or_else(|| {
        let (least, most) = (told(least), told(most));
        format!("write a duration from {least} to {most} with its units, such as 30s, 10m or 1h30m")
    })
}

#[cfg(test)]
mod tests {
    use vidra_core::kubeconfig::Allow;

    use super::*;

    fn defaults() -> Live {
        Live::defaults(&settings())
    }

    fn settings() -> Settings {
        Settings {
            namespace: "vidra-system".to_owned(),
            hub_id: None,
            inherit: Default::default(),
            interval: Duration::from_secs(600),
            on_events: true,
            allow: Allow { loopback: false, http: false, proxy: false },
            memory_limit: Some(4 << 30),
        }
    }

    fn data(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn live(pairs: &[(&str, &str)]) -> Live {
        let reading = read(&data(pairs), &Texts::new(), &defaults());
        assert_eq!((reading.faults, reading.unknown), (vec![], vec![]), "{pairs:?}");
        reading.live
    }

    /// A key, a value, and what it changes.
    type Row = (&'static str, &'static str, fn(&mut Live));

    #[test]
    fn each_key_sets_its_value_and_nothing_else() {
        let seconds = Duration::from_secs;
        let rows: [Row; 36] = [
            ("interval", "30s", |live| live.interval = Duration::from_secs(30)),
            ("requeueResourcesAfter", " 1h30m\n", |live| live.interval = Duration::from_secs(5400)),
            ("reconcileOnEvents", "false", |live| live.on_events = false),
            ("eventBasedReconcile", "false", |live| live.on_events = false),
            ("retry.enabled", "false", |live| live.retry = false),
            ("retry.base", "50ms", |live| live.retry_base = Duration::from_millis(50)),
            ("retry.max", "1h", |live| live.retry_max = Duration::from_secs(3600)),
            ("apply.timeout", "1m", |live| live.apply_timeout = Duration::from_secs(60)),
            ("probe.interval", "1m", |live| live.probe_interval = Duration::from_secs(60)),
            ("probe.timeout", "2s", |live| live.probe_timeout = Duration::from_secs(2)),
            ("probe.misses", "3", |live| live.probe_misses = 3),
            ("informer.cacheSyncTimeout", "5s", |live| live.cache_sync_timeout = Duration::from_secs(5)),
            ("verifyInterval", "30m", |live| live.verify_interval = Some(Duration::from_secs(1800))),
            ("verifyInterval", "0s", |live| live.verify_interval = None),
            ("informer.onStartupError", "Stop", |live| live.stop_on_startup_error = true),
            ("removalGuard", "35", |live| live.removal_guard = 35),
            ("removalGuard", "35 %", |live| live.removal_guard = 35),
            ("objectRemovalGuard", "0 %", |live| live.object_removal_guard = 0),
            ("pruneDelay", "1m", |live| live.prune_delay = Duration::from_secs(60)),
            ("pruneDelay", "0s", |live| live.prune_delay = Duration::ZERO),
            ("namespaceMaxObjects", "7", |live| live.bounds.objects = 7),
            ("namespaceMaxBytes", "512Mi", |live| live.bounds.bytes = 512 << 20),
            ("namespaceMaxBytes", "2Gi", |live| live.bounds.bytes = 2 << 30),
            ("namespaceMaxBytes", "1048577", |live| live.bounds.bytes = (1 << 20) + 1),
            ("hubMaxBytes", "3Gi", |live| live.bounds.hub = 3 << 30),
            ("health.noStatus", "5m", |live| live.waits.no_status = Duration::from_secs(300)),
            ("health.staleStatus", "0s", |live| live.waits.stale_status = Duration::ZERO),
            ("health.failedAfter", "0s", |live| live.waits.failed = Duration::ZERO),
            ("clusterConcurrency", "16", |live| live.cluster_concurrency = 16),
            ("registrationNamespaces", "a, b\nc", |live| {
                live.registration_namespaces = ["a", "b", "c"].map(str::to_owned).into();
            }),
            ("defaultAllowedNamespaces", "team-b, team-a", |live| {
                live.default_allowed_namespaces = Some(["team-a", "team-b"].map(str::to_owned).into());
            }),
            ("carriedLabels", "env, -velero.io/", |live| {
                live.carried_labels = Carried::parse("env -velero.io/").unwrap();
            }),
            ("autoscalerManagers", "acme-scaler", |live| {
                live.autoscalers = Autoscalers::parse("acme-scaler").unwrap().into();
            }),
            ("allowInlineSecrets", "false", |live| live.allow_inline_secrets = false),
            ("allowProxy", "true", |live| live.allow_proxy = true),
            ("redact", "ConfigMap .data.password", |live| {
                live.redact = Redactions::parse("ConfigMap .data[\"password\"]").unwrap();
            }),
        ];
        for (key, text, set) in rows {
            let mut expected = defaults();
            set(&mut expected);
            assert_ne!(expected, defaults(), "{key}");
            assert_eq!(live(&[(key, text)]), expected, "{key}: {text}");
        }
        assert_eq!(live(&[]), defaults());
        assert_eq!(live(&[("interval", "1m"), ("requeueResourcesAfter", "2m")]).interval, seconds(60));
    }

    #[test]
    fn who_goes_by_what_has_changed_looks_again_and_nobody_else() {
        for (key, text, expected) in [
            ("interval", "7s", [true, false, false]),
            ("allowProxy", "true", [false, true, false]),
            ("hubMaxBytes", "3Gi", [false, false, true]),
            ("removalGuard", "35", [false, true, true]),
            ("defaultAllowedNamespaces", "team-a", [true, true, true]),
            ("probe.misses", "3", [false, false, false]),
        ] {
            let LookAgain { targets, members, resources } = live(&[(key, text)]).look_again(&defaults());
            assert_eq!([targets, members, resources], expected, "{key}");
        }
    }

    /// Each setting, with a value that is not its default.
    const GOOD: [(&str, &str); 29] = [
        ("interval", "7s"),
        ("reconcileOnEvents", "false"),
        ("retry.enabled", "false"),
        ("retry.base", "7s"),
        ("retry.max", "7s"),
        ("apply.timeout", "7s"),
        ("probe.interval", "7s"),
        ("probe.timeout", "7s"),
        ("probe.misses", "7"),
        ("informer.cacheSyncTimeout", "7s"),
        ("verifyInterval", "7m"),
        ("informer.onStartupError", "Stop"),
        ("removalGuard", "7"),
        ("objectRemovalGuard", "7"),
        ("pruneDelay", "7s"),
        ("namespaceMaxObjects", "7"),
        ("namespaceMaxBytes", "7Mi"),
        ("hubMaxBytes", "7Mi"),
        ("health.noStatus", "7s"),
        ("health.staleStatus", "7s"),
        ("health.failedAfter", "7s"),
        ("clusterConcurrency", "7"),
        ("registrationNamespaces", "seven"),
        ("defaultAllowedNamespaces", "seven"),
        ("carriedLabels", "seven"),
        ("autoscalerManagers", "seven"),
        ("allowInlineSecrets", "false"),
        ("allowProxy", "true"),
        ("redact", "ConfigMap .data.password"),
    ];

    #[test]
    fn a_bad_value_keeps_the_last_good_one_and_leaves_the_others_alone() {
        for (key, text, why) in [
            ("interval", "10", "write a duration from 1s to"),
            ("interval", "0s", "write a duration"),
            ("interval", "999ms", "write a duration"),
            ("interval", "8000h", "write a duration"),
            ("requeueResourcesAfter", "", "write a duration"),
            ("reconcileOnEvents", "yes", "write true or false"),
            ("retry.enabled", "True", "write true or false"),
            ("retry.base", "1ms", "write a duration from 10ms"),
            ("retry.max", "-1m", "write a duration"),
            ("apply.timeout", "1h", "write a duration"),
            ("probe.interval", "10m", "write a duration from 1s to 5m"),
            ("probe.timeout", "100ms", "write a duration from 1s to 1m"),
            ("probe.misses", "0", "write a whole number from 1 to 10"),
            ("informer.cacheSyncTimeout", "never", "write a duration"),
            ("verifyInterval", "30s", "write a duration from 1m to 168h"),
            ("informer.onStartupError", "stop", "write Continue or Stop"),
            ("removalGuard", "101", "write a whole number from 0 to 100"),
            ("removalGuard", "a lot", "write a whole number"),
            ("objectRemovalGuard", "101%", "write a whole number from 0 to 100"),
            ("pruneDelay", "2h", "write a duration from 1s to 1h"),
            ("namespaceMaxObjects", "0", "write a whole number from 1 to 10000000"),
            ("namespaceMaxBytes", "1023", "write an amount of memory from 1Mi to"),
            ("namespaceMaxBytes", "99999999999999Gi", "write an amount of memory"),
            ("namespaceMaxBytes", "2G", "write an amount of memory"),
            ("hubMaxBytes", "1Ki", "write an amount of memory from 1Mi to 1024Gi"),
            ("health.noStatus", "11m", "write a duration from 0s to 10m"),
            ("health.staleStatus", "61s", "write a duration from 0s to 1m"),
            ("health.failedAfter", "11m", "write a duration from 0s to 10m"),
            ("clusterConcurrency", "0", "write a whole number from 1 to 64"),
            ("registrationNamespaces", "team-a, Team-B", "write at most 50 names"),
            (
                "defaultAllowedNamespaces",
                "team-a, Team-B",
                "write at most 1000 names of namespaces, apart by",
            ),
            ("defaultAllowedNamespaces", "team-*", "or * for all"),
            ("carriedLabels", "env=prod", "write at most 50 prefixes"),
            ("autoscalerManagers", &"x".repeat(129), "write at most 50 names of field managers"),
            ("allowInlineSecrets", "no", "write true or false"),
            ("allowProxy", "yes", "write true or false"),
            ("redact", "ConfigMap data.password", "line 1: data.password: at character 1"),
        ] {
            let last = GOOD.map(|(key, text)| (key, text.to_owned())).into();
            let reading = read(&data(&[(key, text)]), &last, &defaults());
            assert_eq!(reading.faults.len(), 1, "{key}: {text}");
            assert!(reading.faults[0].0 == key && reading.faults[0].1.contains(why), "{:?}", reading.faults);
            // The other keys are not there, so they are as by default; this one is as it was.
            let setting = SETTINGS.iter().find(|one| one.key == key || one.alias == Some(key)).unwrap();
            let before = last[setting.key].as_str();
            assert_eq!(reading.live, live(&[(setting.key, before)]), "{key}: {text}");
            assert_eq!(reading.good, Texts::from([(setting.key, before.to_owned())]));
            assert_ne!(reading.live, defaults());
        }
    }

    #[test]
    fn all_namespaces_have_half_of_the_memory_that_the_process_may_take_where_that_is_bounded() {
        assert_eq!(defaults().bounds.hub, 2 << 30);
        let unbounded = Settings { memory_limit: None, ..settings() };
        assert_eq!(Live::defaults(&unbounded).bounds.hub, usize::MAX);
        assert_eq!(live(&[("hubMaxBytes", "1Gi")]).bounds.hub, 1 << 30);
    }

    #[test]
    fn while_nobody_knows_what_may_be_written_nothing_is() {
        let bad = data(&[("redact", "ConfigMap .data.password\nDeployment spec")]);
        let reading = read(&bad, &Texts::new(), &defaults());
        assert!(
            reading.live.redact.protects("", "ConfigMap")
                && reading.live.redact.protects("apps", "Deployment")
        );
        let shown = reading.live.redact.shown_path("apps", "Deployment", ".spec[name=\"pin 5\"]");
        assert_eq!(shown, ".spec[]");
        assert_eq!(reading.faults.len(), 1);
        assert!(!live(&[]).redact.protects("apps", "Deployment"));
        let reading = read(&data(&[("allowInlineSecrets", "no")]), &Texts::new(), &defaults());
        assert!(!reading.live.allow_inline_secrets && live(&[]).allow_inline_secrets);
    }

    #[test]
    fn who_may_deliver_where_members_do_not_say_holds_on_without_the_config_map_and_fails_closed() {
        let names = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        let (open, none, team) = (None, names(&[]), names(&["a"]));
        const KEY: &str = DEFAULT_ALLOWED;
        type Data = Option<&'static [(&'static str, &'static str)]>;
        let other: Data = Some(&[("interval", "1m")]);
        // What is read one after the other, nothing where the ConfigMap is not there; and what holds at the end.
        let rows: [(&[Data], _); 10] = [
            (&[other], &open),
            (&[None], &open),
            (&[Some(&[(KEY, "*")])], &open),
            (&[Some(&[(KEY, "a")])], &team),
            (&[Some(&[(KEY, "")])], &none),
            (&[Some(&[(KEY, "a")]), None], &team),
            (&[Some(&[(KEY, "a")]), None, Some(&[(KEY, "B")])], &team),
            (&[Some(&[(KEY, "a")]), other], &open),
            (&[Some(&[(KEY, "B")])], &none),
            (&[Some(&[(KEY, "B")]), None], &none),
        ];
        for (readings, expected) in rows {
            let (mut now, mut good) = (defaults(), Texts::new());
            for reading in readings {
                let reading = match reading {
                    Some(pairs) => read(&data(pairs), &good, &defaults()),
                    None => missing(&now, &good, &defaults()),
                };
                (now, good) = (reading.live, reading.good);
            }
            assert_eq!(now.default_allowed_namespaces, *expected, "{readings:?}");
        }
        let changed = live(&[("interval", "1m")]);
        assert_eq!(missing(&changed, &Texts::new(), &defaults()).live, defaults());
    }

    #[test]
    fn keys_that_mean_nothing_are_named_and_the_rest_is_used() {
        let reading = read(&data(&[("intervall", "1m"), ("retry.max", "1m")]), &Texts::new(), &defaults());
        assert_eq!(reading.unknown, ["intervall"]);
        assert_eq!(reading.live.retry_max, Duration::from_secs(60));
        assert_eq!(reading.faults, []);
    }
}
