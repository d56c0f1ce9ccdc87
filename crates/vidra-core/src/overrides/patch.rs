//! JSON Patch (RFC 6902) and JSON Merge Patch (RFC 7386), checked before they are used and bounded when they
//! are: copying into itself doubles an object with each operation.

use json_patch::{
    AddOperation, CopyOperation, MoveOperation, PatchErrorKind, PatchOperation, RemoveOperation,
    ReplaceOperation, TestOperation, jsonptr::PointerBuf,
};
use serde_json::Value;
use vidra_api::{JsonPatchOperation, PatchOp, Raw};

use crate::manifest::{self, MAX_VALUES, tree::Budget};

/// A request may have about 3 MB.
const SIZE_MAX: usize = 3 << 20;
/// JSON that is deeper than 128 levels is not read back.
const DEPTH_MAX: usize = 100;

/// One operation as the library has it; an error names the field and says what to do.
pub(super) fn operation(declared: &JsonPatchOperation) -> Result<PatchOperation, (&'static str, String)> {
    let pointer = |field: &'static str, text: &str| {
        PointerBuf::parse(text.to_owned()).map_err(|_| {
            let why = "write a JSON Pointer that begins with '/', such as /spec/replicas; '~' in a name is written ~0, '/' is written ~1";
            (field, why.to_owned())
        })
    };
    let path = pointer("path", &declared.path)?;
    let from = || match &declared.from {
        Some(from) => pointer("from", from),
        None => Err(("from", "give from to move and to copy".to_owned())),
    };
    let value = || match &declared.value {
        Some(raw) => read(raw).map_err(|why| ("value", why)),
        None => Err(("value", "give value to add, replace and test".to_owned())),
    };
    Ok(match declared.op {
        PatchOp::Add => PatchOperation::Add(AddOperation { path, value: value()? }),
        PatchOp::Remove => PatchOperation::Remove(RemoveOperation { path }),
        PatchOp::Replace => PatchOperation::Replace(ReplaceOperation { path, value: value()? }),
        PatchOp::Move => PatchOperation::Move(MoveOperation { from: from()?, path }),
        PatchOp::Copy => PatchOperation::Copy(CopyOperation { from: from()?, path }),
        PatchOp::Test => PatchOperation::Test(TestOperation { path, value: value()? }),
    })
}

/// What a patch holds, which may be as deep as a manifest may.
pub(super) fn read(raw: &Raw) -> Result<Value, String> {
    manifest::value(raw.text(), &Budget::new(MAX_VALUES))
}

/// What an operation is called.
pub(super) fn name(operation: &PatchOperation) -> &'static str {
    match operation {
        PatchOperation::Add(_) => "add",
        PatchOperation::Remove(_) => "remove",
        PatchOperation::Replace(_) => "replace",
        PatchOperation::Move(_) => "move",
        PatchOperation::Copy(_) => "copy",
        PatchOperation::Test(_) => "test",
    }
}

/// Why an operation does not apply, and what to do.
pub(super) fn why(operation: &PatchOperation, kind: &PatchErrorKind) -> &'static str {
    match (operation, kind) {
        (_, PatchErrorKind::TestFailed) => "something else is there; correct value, or the manifest",
        (_, PatchErrorKind::InvalidFromPointer) => "nothing is at from; correct it, or the manifest",
        (_, PatchErrorKind::CannotMoveInsideItself) => "it would be moved into itself; correct path",
        (PatchOperation::Replace(_), _) => "nothing is there to replace; correct path, or use add",
        (PatchOperation::Remove(_), _) => "nothing is there to remove; correct path, or the manifest",
        (PatchOperation::Test(_), _) => "nothing is there; correct path, or the manifest",
        (_, _) => "what would hold it is not there; correct path, or add that first",
    }
}

/// Whether an object is within what can be sent and read.
pub(super) fn is_in_bounds(object: &Value) -> bool {
    let mut room = SIZE_MAX;
    weigh(object, DEPTH_MAX, &mut room)
}

fn weigh(value: &Value, depth: usize, room: &mut usize) -> bool {
    let own = match value {
        Value::String(text) => text.len() + 2,
        _ => 4,
    };
    let Some(left) = room.checked_sub(own) else { return false };
    *room = left;
    let Some(below) = depth.checked_sub(1) else { return false };
    match value {
        Value::Array(items) => items.iter().all(|item| weigh(item, below, room)),
        Value::Object(fields) => fields.iter().all(|(name, value)| {
            *room = room.saturating_sub(name.len() + 3);
            weigh(value, below, room)
        }),
        _ => true,
    }
}
