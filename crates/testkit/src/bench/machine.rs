//! What the figures were measured on.

use std::fs::read_to_string;

use serde_json::{Value, json};

/// Processor, memory and system; what cannot be read is null.
pub fn describe() -> Value {
    json!({
        "cpus": std::thread::available_parallelism().ok().map(usize::from),
        "cpu": field("/proc/cpuinfo", "model name"),
        "memoryKiB": field("/proc/meminfo", "MemTotal").and_then(|text| leading(&text)),
        "kernel": read_to_string("/proc/sys/kernel/osrelease").ok().map(|text| text.trim().to_owned()),
        "arch": std::env::consts::ARCH,
    })
}

/// How many processes were running or waited for a core, on average over the last minute, five and fifteen.
pub fn load() -> Option<String> {
    let text = read_to_string("/proc/loadavg").ok()?;
    Some(text.split_whitespace().take(3).collect::<Vec<_>>().join(" "))
}

/// A line `name: value` of a file under /proc.
pub fn field(file: &str, name: &str) -> Option<String> {
    let text = read_to_string(file).ok()?;
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    lines.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim().to_owned())
}

/// The number that a text begins with.
pub fn leading(text: &str) -> Option<u64> {
    text.split_whitespace().next()?.parse().ok()
}
