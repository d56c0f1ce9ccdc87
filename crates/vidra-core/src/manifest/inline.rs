//! How much may stand in a VidraResource itself: beyond that its status, its finalizer and what others write into it may
//! find no room in etcd any more.

use std::io::{self, Write};

use vidra_api::VidraResourceSpec;

use super::{MAX_INLINE, ManifestError};
use crate::mutants::{self, Mutant};

/// Checks that a spec, as JSON, is not larger than [`MAX_INLINE`].
///
/// # Errors
/// It is: how large, and what to do.
pub fn check_inline(spec: &VidraResourceSpec) -> Result<(), ManifestError> {
    let mut length = Length(0);
    // It was read from JSON, so it can be written; what cannot be has no length.
    let _ = serde_json::to_writer(&mut length, spec);
    match length.0 > MAX_INLINE && !mutants::is(Mutant::InlineUnbounded) {
        true => Err(ManifestError::InlineTooLarge { bytes: length.0 }),
        false => Ok(()),
    }
}

/// Counts what is written.
struct Length(usize);

impl Write for Length {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A spec that is so long as JSON.
    fn spec(bytes: usize, part: &str) -> VidraResourceSpec {
        let with = |text: &str| {
            let mut spec = VidraResourceSpec::default();
            match part {
                "manifest" => spec.manifest = Some(text.to_owned()),
                _ => {
                    spec.manifests = vec![json!({"apiVersion": "v1", "kind": "ConfigMap", "x": text}).into()]
                }
            }
            spec
        };
        let rest = serde_json::to_string(&with("")).unwrap().len();
        with(&"x".repeat(bytes - rest))
    }

    #[test]
    fn a_spec_as_large_as_it_may_be_is_taken_and_a_byte_more_is_told_with_the_bound_and_what_to_do() {
        for part in ["manifest", "manifests"] {
            assert_eq!(check_inline(&spec(MAX_INLINE, part)), Ok(()), "{part}");
            let refused = check_inline(&spec(MAX_INLINE + 1, part)).unwrap_err();
            assert_eq!(refused, ManifestError::InlineTooLarge { bytes: MAX_INLINE + 1 }, "{part}");
            let told = refused.to_string();
            for words in ["1310721 bytes", "1310720", "ConfigMaps or Secrets", "spec.manifestsFrom"] {
                assert!(told.contains(words), "{told}");
            }
        }
    }
}
