//! What the hub logs at info: a line for each change, and nothing while nothing changes.

use std::{
    io::{self, Write},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use serde_json::json;
use testkit::world::{At, World, in_memory};
use tokio::time::sleep;
use tracing::{Level, subscriber::with_default};

use crate::config_map;

/// What this thread logs, on which all of a world in memory runs.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn take(&self) -> String {
        String::from_utf8(std::mem::take(&mut *self.0.lock())).expect("logs are text")
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn scenario(scenario: impl AsyncFnOnce(World, Log)) {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_max_level(Level::INFO)
        .with_writer(move || writer.clone())
        .finish();
    with_default(subscriber, || in_memory(async |world| scenario(world, log).await));
}

#[test]
fn a_line_tells_each_change_with_its_object_and_a_hub_with_nothing_to_do_tells_nothing() {
    scenario(async |world, log| {
        world.register(&["berlin"]).await;
        world.deliver("shop", &["berlin"], &config_map("settings", "one")).await;
        world.ready("shop").await;
        world.recorded("shop", &["berlin"]).await;
        let told = log.take();
        for (controller, key) in [
            ("cluster", "berlin".to_owned()),
            ("target", format!("{}/shop.berlin", world.ns)),
            ("resource", format!("{}/shop", world.ns)),
        ] {
            let span = format!("reconcile{{controller=\"{controller}\" key={key} trigger=");
            let is_ready = |line: &str| line.contains(&span) && line.contains("ready=\"True\"");
            assert_eq!(told.lines().filter(|line| is_ready(line)).count(), 1, "{controller}: {told}");
        }

        sleep(Duration::from_secs(3600)).await;
        assert_eq!(log.take(), "", "an hour in which nothing changes");

        let settings = At::config_map(&world.ns, "settings");
        world.alice("berlin").await.merge(&settings, json!({"data": {"key": "evil"}})).await;
        sleep(Duration::from_secs(60)).await;
        let told = log.take();
        let lines: Vec<_> = told.lines().collect();
        assert!(matches!(lines[..], [line] if line.contains("the hub corrected drift")), "{told}");
        world.end().await;
    });
}
