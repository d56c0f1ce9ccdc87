//! When a VidraResource is Ready though not each of its targets is.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// When a VidraResource is Ready though not each of its targets is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Readiness {
    /// How many targets may be unreachable, of those that had what is declared Ready before and have not failed since: a
    /// number, or a percentage of all targets, rounded down. Unset: none. It says what Ready means and lets nothing go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::max_unreachable")]
    pub max_unreachable: Option<MaxUnreachable>,
}

/// A number, or a percentage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum MaxUnreachable {
    /// A number of targets.
    Count(i64),
    /// A percentage, as in `5%`. Any other text is none.
    Percent(String),
}

impl MaxUnreachable {
    /// How many that is of a total.
    pub fn of(&self, targets: i32) -> i32 {
        match self {
            Self::Count(count) => i32::try_from(*count).unwrap_or_default().max(0),
            Self::Percent(text) => {
                let percent = text.strip_suffix('%').and_then(|number| number.parse().ok());
                let percent = percent.filter(|percent| (1..=100).contains(percent)).unwrap_or(0);
                i32::try_from(i64::from(targets) * percent / 100).unwrap_or(0)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_percentage_is_of_all_targets_and_rounded_down() {
        for (written, targets, most) in [
            (json!(1), 1, 1),
            (json!(3), 1000, 3),
            (json!("5%"), 19, 0),
            (json!("5%"), 20, 1),
            (json!("5%"), 39, 1),
            (json!("100%"), 7, 7),
            // What no API server takes is none.
            (json!(-1), 10, 0),
            (json!(i64::MAX), 10, 0),
            (json!("0%"), 10, 0),
            (json!("101%"), 10, 0),
            (json!("x"), 10, 0),
            (json!("5"), 100, 0),
        ] {
            let read: MaxUnreachable = serde_json::from_value(written.clone()).unwrap();
            assert_eq!(read.of(targets), most, "{written} of {targets}");
            assert_eq!(serde_json::to_value(&read).unwrap(), written);
        }
    }
}
