//! What JSON takes in memory, against what the allocator gives out. One test in this binary: what other tests allocate
//! at the same time would be counted too.

use std::alloc::System;

use serde_json::Value;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use vidra_core::weight::{self, Bounded, OBJECT_MAX};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Bytes that are given out and not taken back by this, which is still held.
fn held<T>(make: impl FnOnce() -> T) -> (T, usize) {
    let region = Region::new(ALLOCATOR);
    let made = make();
    let change = region.change();
    (made, change.bytes_allocated.saturating_sub(change.bytes_deallocated))
}

fn many(item: &str, count: usize) -> String {
    format!("[{}]", vec![item; count].join(","))
}

#[test]
fn no_value_takes_more_memory_than_it_is_said_to_and_nonsense_is_not_read_to_its_end() {
    let entries: Vec<String> = (0..1000).map(|at| format!("\"key-{at:05}\":{at}")).collect();
    let backwards: Vec<String> = entries.iter().rev().cloned().collect();
    let texts = [
        many(r#"{"a":0}"#, 10_000),
        many("{}", 100_000),
        many("0", 100_000),
        many("[0]", 100_000),
        many(r#""a text of some length""#, 10_000),
        many(&format!("{{{}}}", entries[..12].join(",")), 5_000),
        format!("{{{}}}", entries.join(",")),
        format!("{{{}}}", backwards.join(",")),
    ];
    for text in texts {
        let (value, bytes) = held(|| serde_json::from_str::<Value>(&text).expect("it is JSON"));
        let (weight, shown) = (weight::of(&value), &text[..40]);
        assert!(bytes <= weight, "{shown}: takes {bytes}, said to take {weight}");
        assert!(weight <= 5 * bytes, "{shown}: takes {bytes}, said to take {weight}");
    }

    for item in ["{}", r#"{"a":0}"#, "0", "[]", "null", r#""""#] {
        // A page of nonsense.
        let text = many(item, (16 << 20) / (item.len() + 1));
        let region = Region::new(ALLOCATOR);
        let read = serde_json::from_str::<Bounded>(&text);
        // What was given out in all is no less than the most that was held at a time.
        let most = region.change().bytes_allocated;
        assert!(read.is_err() && most <= 2 * OBJECT_MAX, "{item}: {most} bytes");
    }
}
