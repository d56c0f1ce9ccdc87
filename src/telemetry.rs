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

/// Starts logging; RUST_LOG says what, else `default`.
pub fn start(json: bool, default: &str) {
    let filter = filtered(EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default)));
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
