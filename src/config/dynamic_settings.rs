//! What the ConfigMap of settings says: read key by key, so that one that is missing or wrong costs nothing but
//! itself. Pure: no I/O, no clock.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use vidra_core::{
    drift::Redactions,
    duration::told,
    feedback::ROOM_MAX,
    guard,
    health::facts::Waits,
    ignore::Autoscalers,
    mutants::{self, Mutant},
    registration_labels::LabelFilter,
    select,
};

use super::{Settings, parse_duration};

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
    /// Bytes of memory, of all namespaces together; [`usize::MAX`]: as much as there is.
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

/// How many bytes values that come back from members may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeedbackBounds {
    /// Those in the status of a VidraTarget, with the names of their objects; at most
    /// [`ROOM_MAX`].
    pub target: usize,
    /// Those that the process keeps, of all VidraTargets together.
    pub hub: usize,
}

impl Default for FeedbackBounds {
    fn default() -> Self {
        Self { target: 2048, hub: 64 << 20 }
    }
}

/// What can be changed while the hub runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DynamicSettings {
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
    /// Whether a member is asked why a workload has failed.
    pub causes: bool,
    /// What all VidraResources of a namespace of the hub may have together, and those of all.
    pub bounds: Bounds,
    /// How much may come back from members.
    pub feedback: FeedbackBounds,
    /// Targets that are worked on side by side on one member.
    pub cluster_concurrency: usize,
    /// Namespaces whose Secrets register members, besides the hub's own.
    pub registration_namespaces: BTreeSet<String>,
    /// Namespaces of the hub that members allow whose MemberClusters do not say; `None`: all.
    pub default_allowed_namespaces: Option<Vec<String>>,
    /// Which labels of a registration Secret go to its MemberCluster.
    pub carried_labels: LabelFilter,
    /// The field managers to which replicas that are scaled are left.
    pub autoscalers: Arc<Autoscalers>,
    /// Whether a Secret may stand in a VidraResource itself, where all may read it who read VidraResources.
    pub allow_inline_secrets: bool,
    /// Whether kubeconfigs of members may name a proxy.
    pub allow_proxy: bool,
    /// Fields whose values are never written, besides those of Secrets.
    pub redact: Redactions,
}

impl DynamicSettings {
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
            causes: true,
            bounds: Bounds {
                objects: 100_000,
                bytes: 1 << 30,
                // The rest is for what is kept of the members, and for work.
                hub: settings.memory_limit.map_or(usize::MAX, |limit| limit / 2),
                is_wide: false,
            },
            feedback: FeedbackBounds::default(),
            cluster_concurrency: 4,
            registration_namespaces: BTreeSet::new(),
            default_allowed_namespaces: None,
            carried_labels: LabelFilter::default(),
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

impl DynamicSettings {
    /// What goes by something that is not as it was before.
    pub fn look_again(&self, before: &Self) -> LookAgain {
        let allowed = self.default_allowed_namespaces != before.default_allowed_namespaces;
        LookAgain {
            targets: allowed
                || self.interval != before.interval
                || self.on_events != before.on_events
                || self.redact != before.redact
                || self.feedback != before.feedback
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
    pub settings: DynamicSettings,
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
    take: fn(&mut DynamicSettings, &str) -> Result<(), String>,
}

const SETTINGS: [Setting; 32] = [
    Setting {
        key: "interval",
        alias: Some("requeueResourcesAfter"),
        take: |settings, text| put(&mut settings.interval, duration(text, 1_000, 7 * 24 * 3_600_000)),
    },
    Setting {
        key: "reconcileOnEvents",
        alias: Some("eventBasedReconcile"),
        take: |settings, text| put(&mut settings.on_events, switch(text)),
    },
    Setting {
        key: "retry.enabled",
        alias: None,
        take: |settings, text| put(&mut settings.retry, switch(text)),
    },
    Setting {
        key: "retry.base",
        alias: None,
        take: |settings, text| put(&mut settings.retry_base, duration(text, 10, 3_600_000)),
    },
    Setting {
        key: "retry.max",
        alias: None,
        take: |settings, text| put(&mut settings.retry_max, duration(text, 1_000, 24 * 3_600_000)),
    },
    Setting {
        key: "apply.timeout",
        alias: None,
        take: |settings, text| put(&mut settings.apply_timeout, duration(text, 1_000, 600_000)),
    },
    Setting {
        key: "probe.interval",
        alias: None,
        take: |settings, text| put(&mut settings.probe_interval, duration(text, 1_000, 300_000)),
    },
    Setting {
        key: "probe.timeout",
        alias: None,
        take: |settings, text| put(&mut settings.probe_timeout, duration(text, 1_000, 60_000)),
    },
    Setting {
        key: "probe.misses",
        alias: None,
        take: |settings, text| put(&mut settings.probe_misses, whole(text, 1, 10)),
    },
    Setting {
        key: "informer.cacheSyncTimeout",
        alias: None,
        take: |settings, text| put(&mut settings.cache_sync_timeout, duration(text, 1_000, 3_600_000)),
    },
    Setting {
        key: "verifyInterval",
        alias: None,
        take: |settings, text| match text {
            "0" | "0s" => put(&mut settings.verify_interval, Ok(None)),
            text => put(
                &mut settings.verify_interval,
                duration(text, 60_000, 7 * 24 * 3_600_000)
                    .map(Some)
                    .map_err(|why| format!("{why}; 0s is never")),
            ),
        },
    },
    Setting {
        key: "informer.onStartupError",
        alias: None,
        take: |settings, text| {
            put(
                &mut settings.stop_on_startup_error,
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
        take: |settings, text| put(&mut settings.removal_guard, percent(text)),
    },
    Setting {
        key: "objectRemovalGuard",
        alias: None,
        take: |settings, text| put(&mut settings.object_removal_guard, percent(text)),
    },
    Setting {
        key: "pruneDelay",
        alias: None,
        take: |settings, text| match text {
            "0" | "0s" => put(&mut settings.prune_delay, Ok(Duration::ZERO)),
            text => put(
                &mut settings.prune_delay,
                duration(text, 1_000, 3_600_000).map_err(|why| format!("{why}; 0s is at once")),
            ),
        },
    },
    Setting {
        key: "namespaceMaxObjects",
        alias: None,
        take: |settings, text| put(&mut settings.bounds.objects, whole(text, 1, 10_000_000)),
    },
    Setting {
        key: "namespaceMaxBytes",
        alias: None,
        take: |settings, text| put(&mut settings.bounds.bytes, bytes(text)),
    },
    Setting {
        key: "hubMaxBytes",
        alias: None,
        take: |settings, text| put(&mut settings.bounds.hub, bytes(text)),
    },
    Setting {
        key: "health.noStatus",
        alias: None,
        take: |settings, text| put(&mut settings.waits.no_status, duration(text, 0, 600_000)),
    },
    Setting {
        key: "health.staleStatus",
        alias: None,
        take: |settings, text| put(&mut settings.waits.stale_status, duration(text, 0, 60_000)),
    },
    Setting {
        key: "health.failedAfter",
        alias: None,
        take: |settings, text| put(&mut settings.waits.failed, duration(text, 0, 600_000)),
    },
    Setting {
        key: "health.causes",
        alias: None,
        take: |settings, text| put(&mut settings.causes, switch(text)),
    },
    Setting {
        key: "feedback.targetMaxBytes",
        alias: None,
        take: |settings, text| put(&mut settings.feedback.target, kibibytes(text, 1, ROOM_MAX / 1024)),
    },
    Setting {
        key: "feedback.hubMaxBytes",
        alias: None,
        take: |settings, text| put(&mut settings.feedback.hub, bytes(text)),
    },
    Setting {
        key: "clusterConcurrency",
        alias: None,
        take: |settings, text| put(&mut settings.cluster_concurrency, whole(text, 1, 64)),
    },
    Setting {
        key: "registrationNamespaces",
        alias: None,
        take: |settings, text| {
            put(&mut settings.registration_namespaces, select::namespaces(text, NAMESPACES_MAX))
        },
    },
    Setting {
        key: DEFAULT_ALLOWED,
        alias: None,
        take: |settings, text| {
            // Where no earlier text holds: it is not known who may.
            settings.default_allowed_namespaces = Some(Vec::new());
            put(&mut settings.default_allowed_namespaces, allowed(text))
        },
    },
    Setting {
        key: "carriedLabels",
        alias: None,
        take: |settings, text| put(&mut settings.carried_labels, LabelFilter::parse(text)),
    },
    Setting {
        key: "autoscalerManagers",
        alias: None,
        take: |settings, text| put(&mut settings.autoscalers, Autoscalers::parse(text).map(Arc::new)),
    },
    Setting {
        key: "allowInlineSecrets",
        alias: None,
        take: |settings, text| {
            // Where no earlier text holds: it is not known whether they may.
            settings.allow_inline_secrets = false;
            put(&mut settings.allow_inline_secrets, switch(text))
        },
    },
    Setting {
        key: "allowProxy",
        alias: None,
        take: |settings, text| put(&mut settings.allow_proxy, switch(text)),
    },
    Setting {
        key: "redact",
        alias: None,
        take: |settings, text| {
            // Where no earlier text holds: it is not known what may be written.
            if !mutants::is(Mutant::RedactsNothing) {
                settings.redact = Redactions::everything();
            }
            put(&mut settings.redact, Redactions::parse(text).map_err(|bad| bad.to_string()))
        },
    },
];

/// Reads the ConfigMap's data. A key that is not there means the default, one that cannot be used what `last`
/// says.
pub fn read(data: &BTreeMap<String, String>, last: &Texts, defaults: &DynamicSettings) -> Reading {
    let mut settings = defaults.clone();
    let (mut good, mut faults) = (Texts::new(), Vec::new());
    for setting in &SETTINGS {
        let own = data.get_key_value(setting.key);
        let given = own.or_else(|| setting.alias.and_then(|alias| data.get_key_value(alias)));
        let Some((key, text)) = given else { continue };
        let text = text.trim();
        let holds = match (setting.take)(&mut settings, text) {
            Ok(()) => Some(text),
            Err(why) => {
                faults.push((key.clone(), why));
                let before = last.get(setting.key).map(String::as_str);
                before.filter(|before| (setting.take)(&mut settings, before).is_ok())
            }
        };
        good.extend(holds.map(|text| (setting.key, text.to_owned())));
    }
    let is_known = |key: &str| SETTINGS.iter().any(|one| one.key == key || one.alias == Some(key));
    let unknown = data.keys().filter(|key| !is_known(key)).cloned().collect();
    Reading { settings, good, faults, unknown }
}

/// What holds in place of a text that cannot be used.
pub fn held_instead(key: &str, now: &DynamicSettings) -> &'static str {
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
pub fn missing(before: &DynamicSettings, last: &Texts, defaults: &DynamicSettings) -> Reading {
    let allowed = before.default_allowed_namespaces.clone();
    let mut settings = defaults.clone();
    settings.default_allowed_namespaces = allowed;
    let good = last.get_key_value(DEFAULT_ALLOWED).map(|(key, text)| (*key, text.clone()));
    Reading { settings, good: good.into_iter().collect(), faults: Vec::new(), unknown: Vec::new() }
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

/// Bytes, in whole KiB.
fn kibibytes(text: &str, least: usize, most: usize) -> Result<usize, String> {
    let number = text.strip_suffix("Ki").and_then(|number| number.parse::<usize>().ok());
    let number = number.filter(|number| (least..=most).contains(number));
    number.map(|number| number * 1024).ok_or_else(|| format!("write a size from {least}Ki to {most}Ki"))
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
        zero.or_else(|| parse_duration(text).ok()).filter(|duration| (least..=most).contains(duration));
    read.ok_or_else(|| {
        let (least, most) = (told(least), told(most));
        format!("write a duration from {least} to {most} with its units, such as 30s, 10m or 1h30m")
    })
}

#[cfg(test)]
mod tests;
