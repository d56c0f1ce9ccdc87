//! Files that the user names.

use std::io::Read;
use std::path::Path;

use crate::error::Failure;

/// What messages call a file.
pub fn name(file: &Path) -> String {
    if file == Path::new("-") { "standard input".to_owned() } else { file.display().to_string() }
}

/// The text of a file; of standard input for `-`.
///
/// # Errors
/// It cannot be read, or is no text.
pub fn text(file: &Path) -> Result<String, Failure> {
    let mut text = String::new();
    let read = if file == Path::new("-") {
        std::io::stdin().read_to_string(&mut text).map(drop)
    } else {
        std::fs::read_to_string(file).map(|read| text = read)
    };
    let unread = |error| format!("cannot read {}: {error}; name a file, or - for standard input", name(file));
    read.map(|()| text).map_err(|error| Failure::Input(unread(error)))
}
