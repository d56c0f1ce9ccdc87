//! What the hub logs, for tests that read it: kept while somebody asks for it.

use std::{
    io::{self, Write},
    sync::Arc,
};

use parking_lot::Mutex;
use tracing_subscriber::{
    EnvFilter,
    filter::{FilterExt, dynamic_filter_fn},
    fmt::{self, MakeWriter, TestWriter},
    prelude::*,
};
use vidra_hub::telemetry;

type Kept = Arc<Mutex<Vec<u8>>>;

static CAPTURES: Mutex<Vec<Kept>> = Mutex::new(Vec::new());

/// All that is logged in this process until it is dropped.
pub struct Logs(Kept);

impl Logs {
    /// From now on.
    pub fn capture() -> Self {
        let kept = Kept::default();
        CAPTURES.lock().push(kept.clone());
        Self(kept)
    }

    /// What was logged so far.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock()).into_owned()
    }
}

impl Drop for Logs {
    fn drop(&mut self) {
        CAPTURES.lock().retain(|kept| !Arc::ptr_eq(kept, &self.0));
    }
}

/// Prints as tests do, what RUST_LOG says; and keeps for those who ask all that the process would say at most: of the
/// hub's own crates everything, of others what the product logs.
pub(super) fn start() {
    let printed = std::env::var("RUST_LOG").unwrap_or_else(|_| "vidra_hub=debug,testkit=info".into());
    let printed = fmt::layer().with_writer(TestWriter::new).with_filter(EnvFilter::new(printed));
    let product = telemetry::filtered(EnvFilter::new("info,vidra_hub=trace,vidra_core=trace,testkit=off"));
    let asked = dynamic_filter_fn(|_, _| !CAPTURES.lock().is_empty());
    let kept = fmt::layer().with_ansi(false).with_writer(Keep).with_filter(product.and(asked));
    let _ = tracing_subscriber::registry().with(printed).with(kept).try_init();
}

/// Keeps a copy for each who asks.
struct Keep;

impl MakeWriter<'_> for Keep {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        Self
    }
}

impl Write for Keep {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for kept in CAPTURES.lock().iter() {
            kept.lock().extend_from_slice(bytes);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
