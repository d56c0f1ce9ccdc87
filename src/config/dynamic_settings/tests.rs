//! Each key of the settings, well written and not, and what holds where it is missing.

use vidra_core::kubeconfig::Allow;

use super::*;

fn defaults() -> DynamicSettings {
    DynamicSettings::defaults(&settings())
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

fn read_of(pairs: &[(&str, &str)]) -> DynamicSettings {
    let reading = read(&data(pairs), &Texts::new(), &defaults());
    assert_eq!((reading.faults, reading.unknown), (vec![], vec![]), "{pairs:?}");
    reading.settings
}

/// A key, a value, and what it changes.
type Row = (&'static str, &'static str, fn(&mut DynamicSettings));

#[test]
fn each_key_sets_its_value_and_nothing_else() {
    let seconds = Duration::from_secs;
    let rows: [Row; 39] = [
        ("interval", "30s", |settings| settings.interval = Duration::from_secs(30)),
        ("requeueResourcesAfter", " 1h30m\n", |settings| settings.interval = Duration::from_secs(5400)),
        ("reconcileOnEvents", "false", |settings| settings.on_events = false),
        ("eventBasedReconcile", "false", |settings| settings.on_events = false),
        ("retry.enabled", "false", |settings| settings.retry = false),
        ("retry.base", "50ms", |settings| settings.retry_base = Duration::from_millis(50)),
        ("retry.max", "1h", |settings| settings.retry_max = Duration::from_secs(3600)),
        ("apply.timeout", "1m", |settings| settings.apply_timeout = Duration::from_secs(60)),
        ("probe.interval", "1m", |settings| settings.probe_interval = Duration::from_secs(60)),
        ("probe.timeout", "2s", |settings| settings.probe_timeout = Duration::from_secs(2)),
        ("probe.misses", "3", |settings| settings.probe_misses = 3),
        ("informer.cacheSyncTimeout", "5s", |settings| settings.cache_sync_timeout = Duration::from_secs(5)),
        ("verifyInterval", "30m", |settings| settings.verify_interval = Some(Duration::from_secs(1800))),
        ("verifyInterval", "0s", |settings| settings.verify_interval = None),
        ("informer.onStartupError", "Stop", |settings| settings.stop_on_startup_error = true),
        ("removalGuard", "35", |settings| settings.removal_guard = 35),
        ("removalGuard", "35 %", |settings| settings.removal_guard = 35),
        ("objectRemovalGuard", "0 %", |settings| settings.object_removal_guard = 0),
        ("pruneDelay", "1m", |settings| settings.prune_delay = Duration::from_secs(60)),
        ("pruneDelay", "0s", |settings| settings.prune_delay = Duration::ZERO),
        ("namespaceMaxObjects", "7", |settings| settings.bounds.objects = 7),
        ("namespaceMaxBytes", "512Mi", |settings| settings.bounds.bytes = 512 << 20),
        ("namespaceMaxBytes", "2Gi", |settings| settings.bounds.bytes = 2 << 30),
        ("namespaceMaxBytes", "1048577", |settings| settings.bounds.bytes = (1 << 20) + 1),
        ("hubMaxBytes", "3Gi", |settings| settings.bounds.hub = 3 << 30),
        ("health.noStatus", "5m", |settings| settings.waits.no_status = Duration::from_secs(300)),
        ("health.staleStatus", "0s", |settings| settings.waits.stale_status = Duration::ZERO),
        ("health.causes", "false", |settings| settings.causes = false),
        ("health.failedAfter", "0s", |settings| settings.waits.failed = Duration::ZERO),
        ("feedback.targetMaxBytes", "16Ki", |settings| settings.feedback.target = 16 << 10),
        ("feedback.hubMaxBytes", "1Gi", |settings| settings.feedback.hub = 1 << 30),
        ("clusterConcurrency", "16", |settings| settings.cluster_concurrency = 16),
        ("registrationNamespaces", "a, b\nc", |settings| {
            settings.registration_namespaces = ["a", "b", "c"].map(str::to_owned).into();
        }),
        ("defaultAllowedNamespaces", "team-b, team-a", |settings| {
            settings.default_allowed_namespaces = Some(["team-a", "team-b"].map(str::to_owned).into());
        }),
        ("carriedLabels", "env, -velero.io/", |settings| {
            settings.carried_labels = LabelFilter::parse("env -velero.io/").unwrap();
        }),
        ("autoscalerManagers", "acme-scaler", |settings| {
            settings.autoscalers = Autoscalers::parse("acme-scaler").unwrap().into();
        }),
        ("allowInlineSecrets", "false", |settings| settings.allow_inline_secrets = false),
        ("allowProxy", "true", |settings| settings.allow_proxy = true),
        ("redact", "ConfigMap .data.password", |settings| {
            settings.redact = Redactions::parse("ConfigMap .data[\"password\"]").unwrap();
        }),
    ];
    for (key, text, set) in rows {
        let mut expected = defaults();
        set(&mut expected);
        assert_ne!(expected, defaults(), "{key}");
        assert_eq!(read_of(&[(key, text)]), expected, "{key}: {text}");
    }
    assert_eq!(read_of(&[]), defaults());
    assert_eq!(read_of(&[("interval", "1m"), ("requeueResourcesAfter", "2m")]).interval, seconds(60));
}

#[test]
fn who_goes_by_what_has_changed_looks_again_and_nobody_else() {
    for (key, text, expected) in [
        ("interval", "7s", [true, false, false]),
        ("allowProxy", "true", [false, true, false]),
        ("hubMaxBytes", "3Gi", [false, false, true]),
        ("feedback.targetMaxBytes", "4Ki", [true, false, false]),
        ("removalGuard", "35", [false, true, true]),
        ("defaultAllowedNamespaces", "team-a", [true, true, true]),
        ("probe.misses", "3", [false, false, false]),
    ] {
        let LookAgain { targets, members, resources } = read_of(&[(key, text)]).look_again(&defaults());
        assert_eq!([targets, members, resources], expected, "{key}");
    }
}

/// Each setting, with a value that is not its default.
const GOOD: [(&str, &str); 32] = [
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
    ("health.causes", "false"),
    ("feedback.targetMaxBytes", "7Ki"),
    ("feedback.hubMaxBytes", "7Mi"),
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
        ("health.causes", "maybe", "write true or false"),
        ("feedback.targetMaxBytes", "17Ki", "write a size from 1Ki to 16Ki"),
        ("feedback.targetMaxBytes", "2048", "write a size from 1Ki to 16Ki"),
        ("feedback.hubMaxBytes", "1Ki", "write an amount of memory from 1Mi to 1024Gi"),
        ("clusterConcurrency", "0", "write a whole number from 1 to 64"),
        ("registrationNamespaces", "team-a, Team-B", "write at most 50 names"),
        ("defaultAllowedNamespaces", "team-a, Team-B", "write at most 1000 names of namespaces, apart by"),
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
        assert_eq!(reading.settings, read_of(&[(setting.key, before)]), "{key}: {text}");
        assert_eq!(reading.good, Texts::from([(setting.key, before.to_owned())]));
        assert_ne!(reading.settings, defaults());
    }
}

#[test]
fn all_namespaces_have_half_of_the_memory_that_the_process_may_take_where_that_is_bounded() {
    assert_eq!(defaults().bounds.hub, 2 << 30);
    let unbounded = Settings { memory_limit: None, ..settings() };
    assert_eq!(DynamicSettings::defaults(&unbounded).bounds.hub, usize::MAX);
    assert_eq!(read_of(&[("hubMaxBytes", "1Gi")]).bounds.hub, 1 << 30);
}

#[test]
fn while_nobody_knows_what_may_be_written_nothing_is() {
    let bad = data(&[("redact", "ConfigMap .data.password\nDeployment spec")]);
    let reading = read(&bad, &Texts::new(), &defaults());
    assert!(
        reading.settings.redact.protects("", "ConfigMap")
            && reading.settings.redact.protects("apps", "Deployment")
    );
    let shown = reading.settings.redact.shown_path("apps", "Deployment", ".spec[name=\"pin 5\"]");
    assert_eq!(shown, ".spec[]");
    assert_eq!(reading.faults.len(), 1);
    assert!(!read_of(&[]).redact.protects("apps", "Deployment"));
    let reading = read(&data(&[("allowInlineSecrets", "no")]), &Texts::new(), &defaults());
    assert!(!reading.settings.allow_inline_secrets && read_of(&[]).allow_inline_secrets);
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
            (now, good) = (reading.settings, reading.good);
        }
        assert_eq!(now.default_allowed_namespaces, *expected, "{readings:?}");
    }
    let changed = read_of(&[("interval", "1m")]);
    assert_eq!(missing(&changed, &Texts::new(), &defaults()).settings, defaults());
}

#[test]
fn keys_that_mean_nothing_are_named_and_the_rest_is_used() {
    let reading = read(&data(&[("intervall", "1m"), ("retry.max", "1m")]), &Texts::new(), &defaults());
    assert_eq!(reading.unknown, ["intervall"]);
    assert_eq!(reading.settings.retry_max, Duration::from_secs(60));
    assert_eq!(reading.faults, []);
}
