//! What a VidraTarget's status has room for.

use serde_json::json;
use vidra_api::{
    Feedback, FeedbackObject, clip,
    feedback::{FEEDBACK_OBJECTS_MAX, LEFT_OUT_MAX},
};

use super::{Extract, UNNAMED_MAX, value::size};
use crate::{
    mutants::{self, Mutant},
    object::ObjectKey,
};

/// Most bytes of all values of a VidraTarget with the names of their objects, as JSON, whatever the settings say.
pub const ROOM_MAX: usize = 16 * 1024;
/// Why a value is left out that is small enough.
pub const NO_ROOM: &str = "has no room among the values of a VidraTarget; ask for less, or raise the setting feedback.targetMaxBytes";

/// Puts together what rules give for objects, in the order of the rules. `beyond`: how many more objects the rules are
/// about; `room`: bytes of all values with the names of their objects, as JSON.
pub fn gather<'o>(
    objects: impl Iterator<Item = (&'o ObjectKey, &'o Extract)>,
    (beyond, mut room): (usize, usize),
) -> Feedback {
    let (mut feedback, mut left_out) = (Feedback::default(), beyond);
    for (key, extract) in objects {
        left_out += extract.left_out;
        let mut why = extract.why.clone();
        let mut object = FeedbackObject {
            group: key.group.to_string(),
            kind: key.kind.to_string(),
            namespace: key.namespace.to_string(),
            name: key.name.to_string(),
            values: Vec::new(),
        };
        let mut head = json!(object).to_string().len();
        for value in &extract.values {
            match room.checked_sub(head + size(value)) {
                Some(left) => {
                    (room, head) = (left, 0);
                    object.values.push(value.clone());
                }
                None if mutants::is(Mutant::FeedbackUnbounded) => object.values.push(value.clone()),
                None => {
                    left_out += 1;
                    why.get_or_insert_with(|| format!("{} {NO_ROOM}", value.name));
                }
            }
        }
        if let (Some(why), None) = (why, &feedback.message) {
            let message = format!("{} {}: {why}", object.kind, object.name);
            feedback.message = Some(clip(&message, LEFT_OUT_MAX));
        }
        if !object.values.is_empty() {
            feedback.objects.push(object);
        }
    }
    if beyond > 0 {
        let more = || {
            format!(
                "the rules match more objects than a status has room for, which is {UNNAMED_MAX} for a rule without a name and {FEEDBACK_OBJECTS_MAX} in all; set name in more rules"
            )
        };
        feedback.message.get_or_insert_with(more);
    }
    feedback.left_out = i64::try_from(left_out).unwrap_or(i64::MAX);
    feedback
}
