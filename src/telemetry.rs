//! Logs: structured, on stderr, without secrets.

use std::io::IsTerminal;

use tracing_subscriber::{EnvFilter, fmt, prelude::*};

/// kube logs a whole body at WARN when it does not decode: it may hold a Secret.
const ALWAYS: [&str; 2] = ["kube_client::client=error", "kube_runtime=error"];

/// Starts logging; RUST_LOG says what, else `default`.
pub fn start(json: bool, default: &str) {
    let mut filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default));
    for directive in ALWAYS {
        if let Ok(directive) = directive.parse() {
            filter = filter.add_directive(directive);
        }
    }
    let layer = fmt::layer().with_ansi(std::io::stderr().is_terminal()).with_writer(std::io::stderr);
    let registry = tracing_subscriber::registry().with(filter);
    if json {
        registry.with(layer.json()).init();
    } else {
        registry.with(layer.with_target(false)).init();
    }
}
