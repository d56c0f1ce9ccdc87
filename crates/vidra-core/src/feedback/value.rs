//! One value: what an expression gives, and the form in which a status has it.

use serde_json::Value;
use vidra_api::{
    FeedbackValue,
    feedback::{JSON_MAX, TEXT_MAX},
};

use super::{Expression, Stop, View};
use crate::{
    health::expression::{Output, TOO_LARGE},
    unseen::{escaped_json, shown},
};

/// Deepest lists and maps within each other.
const DEPTH_MAX: usize = 8;

/// Why a value is not told.
pub(super) struct Untold {
    /// In words.
    pub(super) why: String,
    /// It costs too much with what was asked of the object before.
    pub(super) is_costly: bool,
}

impl From<&str> for Untold {
    fn from(why: &str) -> Self {
        Self { why: why.to_owned(), is_costly: false }
    }
}

/// What an expression gives; `None`: a field is missing, or it is null.
///
/// # Errors
/// Why it is not told.
pub(super) fn evaluate(expression: &Expression, view: &View<'_>) -> Result<Option<Value>, Untold> {
    match expression.output(view, JSON_MAX, DEPTH_MAX) {
        Ok(Output::Json(json)) => Ok(Some(json)),
        Ok(Output::Nothing) | Err(Stop::Undefined(_)) => Ok(None),
        Ok(Output::Unfit(why)) => Err(why.into()),
        Err(Stop::Costly(why)) => Err(Untold {
            why: format!("costs too much: {why}; make the expression simpler"),
            is_costly: true,
        }),
    }
}

/// As a status has it.
///
/// # Errors
/// Why it is not told.
pub(super) fn form(name: &str, json: Value) -> Result<FeedbackValue, &'static str> {
    let mut value = FeedbackValue { name: name.to_owned(), ..FeedbackValue::default() };
    match json {
        Value::Bool(truth) => value.boolean = Some(truth),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => value.integer = Some(whole),
            None => value.number = Some(number.to_string()),
        },
        Value::String(text) => {
            // One that is cut ends with a sign of more than one byte.
            let text = shown(&text, TEXT_MAX);
            value.text = Some(text).filter(|text| text.len() <= TEXT_MAX);
            if value.text.is_none() {
                return Err("is a text of more than 1 KiB; give a part of it");
            }
        }
        json => {
            let text = escaped_json(&json.to_string());
            if text.len() > JSON_MAX {
                return Err(TOO_LARGE);
            }
            value.json = Some(text);
        }
    }
    Ok(value)
}

/// Bytes that it takes in a status.
pub(super) fn size(value: &FeedbackValue) -> usize {
    serde_json::to_vec(value).map_or(usize::MAX, |json| json.len())
}
