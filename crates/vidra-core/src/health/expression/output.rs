//! What an expression gives, as JSON that is to be shown. It is bounded while it is made: what is lent many times over by
//! one list would be large only here.

use serde_json::{Map, Number, Value as Json};

use super::value::Value;

/// What one evaluation gave.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Output {
    /// Null, or an optional without a value.
    Nothing,
    Json(Json),
    /// It is not shown, and why.
    Unfit(&'static str),
}

/// Why JSON is not shown.
pub(crate) const TOO_LARGE: &str = "is larger than 4 KiB, or deeper than 8; give a part of it";

impl Output {
    pub(super) fn of(value: &Value<'_>, mut bytes: usize, depth: usize) -> Output {
        match json(value, &mut bytes, depth) {
            Ok(Json::Null) => Output::Nothing,
            Ok(json) => Output::Json(json),
            Err(why) => Output::Unfit(why),
        }
    }
}

fn take(room: &mut usize, bytes: usize) -> Result<(), &'static str> {
    *room = room.checked_sub(bytes).ok_or(TOO_LARGE)?;
    Ok(())
}

fn json(value: &Value<'_>, room: &mut usize, depth: usize) -> Result<Json, &'static str> {
    take(room, 1)?;
    Ok(match value {
        Value::Null | Value::Optional(None) => Json::Null,
        Value::Bool(truth) => Json::Bool(*truth),
        Value::Int(number) => Json::from(*number),
        Value::Double(number) => Number::from_f64(*number).map_or(Json::Null, Json::Number),
        Value::Text(text) => {
            take(room, text.len())?;
            Json::String(text.to_string())
        }
        Value::Optional(Some(inner)) => json(inner, room, depth)?,
        Value::Time(_) | Value::Span(_) => {
            return Err("is a timestamp or a duration; give the text that it was made of");
        }
        Value::Lent(_) | Value::List(_) | Value::Map(_) => {
            let depth = depth.checked_sub(1).ok_or(TOO_LARGE)?;
            // Before the items are copied.
            let size = value.size().and_then(|size| usize::try_from(size).ok());
            if size.is_none_or(|size| size > *room) {
                return Err(TOO_LARGE);
            }
            let items = value.items().unwrap_or_default();
            match value.is_list() {
                true => items.iter().map(|item| json(item, room, depth)).collect::<Result<_, _>>()?,
                false => Json::Object(entries(value, &items, room, depth)?),
            }
        }
    })
}

fn entries(
    map: &Value<'_>,
    keys: &[Value<'_>],
    room: &mut usize,
    depth: usize,
) -> Result<Map<String, Json>, &'static str> {
    let mut all = Map::new();
    for key in keys {
        let Value::Text(key) = key else { continue };
        take(room, key.len())?;
        if let Some(value) = map.get(key) {
            all.insert(key.to_string(), json(&value, room, depth)?);
        }
    }
    Ok(all)
}
