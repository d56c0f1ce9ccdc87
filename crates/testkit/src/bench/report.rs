//! What a bench found: a table for people, one JSON object for programs.

use std::fmt;

use serde_json::{Map, Value, json};

use super::machine;

/// One figure.
#[derive(Clone, Debug)]
pub struct Figure {
    /// Its key in the JSON.
    pub key: &'static str,
    /// Its value.
    pub value: f64,
    /// What it must reach.
    pub bound: Option<Bound>,
    /// What it counts, in words.
    pub what: String,
}

/// What a figure must reach.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// It must not exceed this.
    AtMost(f64),
    /// It must not fall below this.
    AtLeast(f64),
}

impl Bound {
    fn holds(self, value: f64) -> bool {
        match self {
            Self::AtMost(most) => value <= most,
            Self::AtLeast(least) => value >= least,
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtMost(most) => write!(f, "<= {most}"),
            Self::AtLeast(least) => write!(f, ">= {least}"),
        }
    }
}

/// The figures of one bench, with their bounds.
#[derive(Debug)]
pub struct Report {
    bench: &'static str,
    figures: Vec<Figure>,
    conditions: Map<String, Value>,
}

impl Report {
    /// Nothing found yet.
    pub fn new(bench: &'static str) -> Self {
        Self { bench, figures: Vec::new(), conditions: Map::new() }
    }

    /// Adds a figure.
    pub fn figure(&mut self, key: &'static str, value: f64, at_most: Option<f64>, what: impl Into<String>) {
        self.figures.push(Figure { key, value, bound: at_most.map(Bound::AtMost), what: what.into() });
    }

    /// Adds a figure that is the better the higher it is.
    pub fn figure_at_least(&mut self, key: &'static str, value: f64, least: f64, what: impl Into<String>) {
        self.figures.push(Figure { key, value, bound: Some(Bound::AtLeast(least)), what: what.into() });
    }

    /// Adds what the figures were found under, or what is good to know beside them.
    pub fn condition(&mut self, name: &str, value: impl Into<Value>) {
        self.conditions.insert(name.to_owned(), value.into());
    }

    /// For programs.
    pub fn json(&self) -> Value {
        let figures: Map<String, Value> =
            self.figures.iter().map(|figure| (figure.key.to_owned(), json!(figure.value))).collect();
        json!({
            "bench": self.bench,
            "figures": figures,
            "machine": machine::describe(),
            "conditions": self.conditions,
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.bench)?;
        for Figure { key, value, bound, what } in &self.figures {
            let bound = match bound {
                Some(bound) if bound.holds(*value) => bound.to_string(),
                Some(bound) => format!("{bound} MISSED"),
                None => String::new(),
            };
            let value = if value.fract() == 0.0 { format!("{value}") } else { format!("{value:.3}") };
            writeln!(f, "  {key:<20} {value:>14}  {bound:<12} {what}")?;
        }
        for (name, value) in &self.conditions {
            match value {
                Value::Object(rows) => {
                    writeln!(f, "  {name}:")?;
                    for (row, value) in rows {
                        writeln!(f, "    {row:<60} {value}")?;
                    }
                }
                Value::String(text) => writeln!(f, "  {name}: {text}")?,
                other => writeln!(f, "  {name}: {other}")?,
            }
        }
        Ok(())
    }
}

/// The value that this part of the values does not exceed, 0.5 for the median: the nearest rank.
pub fn quantile(values: &[f64], part: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (part * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missed_bound_is_seen_and_programs_get_every_figure() {
        let mut report = Report::new("calls");
        report.figure("create", 1.0, Some(1.0), "requests");
        report.figure("idle", 2.5, Some(0.0), "requests");
        report.figure_at_least("ratio", 0.5, 0.6, "objects");
        report.condition("members", 3);
        let text = report.to_string();
        assert_eq!(text.matches("MISSED").count(), 2, "{text}");
        let json = report.json();
        assert_eq!(
            (&json["bench"], &json["figures"]),
            (&json!("calls"), &json!({"create": 1.0, "idle": 2.5, "ratio": 0.5}))
        );
        assert_eq!(json["conditions"]["members"], 3);
        assert!(json["machine"]["cpus"].as_u64().is_some_and(|cpus| cpus > 0), "{json}");
    }

    #[test]
    fn a_quantile_is_the_nearest_rank() {
        let values: Vec<f64> = (1..=200).rev().map(f64::from).collect();
        for (part, wanted) in [(0.5, 100.0), (0.99, 198.0), (1.0, 200.0), (0.0, 1.0)] {
            assert_eq!(quantile(&values, part), wanted, "{part}");
        }
        assert!(quantile(&[], 0.5).is_nan());
    }
}
