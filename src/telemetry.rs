//! Logs: structured, on stderr, without secrets; panics are lines of them.

use std::{
    any::Any,
    backtrace::{Backtrace, BacktraceStatus},
    io::IsTerminal,
    panic::PanicHookInfo,
};

use tracing_subscriber::{EnvFilter, fmt, prelude::*};

/// kube logs a whole body at WARN when it does not decode: it may hold a Secret.
const ALWAYS: [&str; 2] = ["kube_client::client=error", "kube_runtime=error"];

/// At debug these tell of each frame of each connection: who wants that names them.
const QUIET: &str = "h2=info,hyper=info,hyper_util=info,rustls=info,tower=info";

/// Starts logging; RUST_LOG says what, else `default`.
pub fn start(json: bool, default: &str) {
    let asked = std::env::var(EnvFilter::DEFAULT_ENV).unwrap_or_default();
    let is_wide = asked.split(',').any(|directive| matches!(directive.trim(), "debug" | "trace"));
    let asked = if is_wide { format!("{QUIET},{asked}") } else { asked };
    let asked =
        Some(asked).filter(|asked| !asked.is_empty()).and_then(|asked| EnvFilter::try_new(asked).ok());
    let filter = filtered(asked.unwrap_or_else(|| EnvFilter::new(default)));
    let layer = fmt::layer().with_ansi(std::io::stderr().is_terminal()).with_writer(std::io::stderr);
    let registry = tracing_subscriber::registry().with(filter);
    if json {
        registry.with(layer.json()).init();
    } else {
        registry.with(layer.with_target(false)).init();
    }
    std::panic::set_hook(Box::new(log_panic));
}

/// A filter that lets nothing through that may hold a Secret.
pub fn filtered(mut filter: EnvFilter) -> EnvFilter {
    for directive in ALWAYS {
        if let Ok(directive) = directive.parse() {
            filter = filter.add_directive(directive);
        }
    }
    filter
}

/// Where, and what may be told; with RUST_BACKTRACE the way there.
fn log_panic(info: &PanicHookInfo<'_>) {
    let at = info.location().map(ToString::to_string).unwrap_or_default();
    let thread = std::thread::current();
    let (thread, words) = (thread.name().unwrap_or_default(), words(info.payload()));
    let trace = Backtrace::capture();
    match trace.status() {
        BacktraceStatus::Captured => tracing::error!(at, thread, words, %trace, "a thread panicked"),
        _ => tracing::error!(at, thread, words, "a thread panicked"),
    }
}

/// A literal of the source holds no value. What was put together when it ran may: of an error that nobody expected, of
/// a text that was cut in the middle of a character.
fn words(payload: &dyn Any) -> &'static str {
    payload.downcast_ref::<&'static str>().copied().unwrap_or("(withheld: they may hold a value)")
}
