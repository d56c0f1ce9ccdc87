//! From the bytes of a ConfigMap's binaryData or of a Secret to text: gzip and zstd are told by their magic
//! bytes, everything else is taken as it is. What comes out is bounded, so that a bomb costs no memory.

use std::io::Read;

use thiserror::Error;

/// RFC 1952.
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// RFC 8878.
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// The largest window that a zstd frame may ask for, as a power of two: 16 MiB, no less than [`super::MAX_TEXT`].
/// All levels but the three highest (`--ultra`) stay below it whatever they read.
const ZSTD_WINDOW: u32 = 24;

/// Why bytes give no text. It never quotes them.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum UnpackError {
    /// More comes out than may be read.
    #[error(
        "it unpacks to more than the {most} bytes that may still be read: split it over several VidraResources"
    )]
    TooLarge {
        /// How many bytes were allowed.
        most: usize,
    },
    /// It begins as a packed file and does not go on as one.
    #[error(
        "it begins as {format} and is damaged, cut off, or packed with a window above 16 MiB: pack it again"
    )]
    Damaged {
        /// `gzip` or `zstd`.
        format: &'static str,
    },
    /// It is no UTF-8.
    #[error("it is neither UTF-8 text, nor gzip, nor zstd: byte {at} {of} is not UTF-8")]
    NotText {
        /// The first byte that is none, 1 for the first.
        at: usize,
        /// Of what: the key's value or what it unpacks to.
        of: &'static str,
    },
}

/// The text in some bytes, unpacked where they are packed; at most `most` bytes of it.
///
/// # Errors
/// They are damaged, not UTF-8, or unpack to more.
pub fn unpack(bytes: &[u8], most: usize) -> Result<String, UnpackError> {
    if bytes.starts_with(&GZIP) {
        let text = read("gzip", flate2::read::MultiGzDecoder::new(bytes), most)?;
        return text_of(text, "of what it unpacks to");
    }
    if bytes.starts_with(&ZSTD) {
        let damaged = |_| UnpackError::Damaged { format: "zstd" };
        let mut decoder = zstd::stream::read::Decoder::with_buffer(bytes).map_err(damaged)?;
        decoder.window_log_max(ZSTD_WINDOW).map_err(damaged)?;
        return text_of(read("zstd", decoder, most)?, "of what it unpacks to");
    }
    if bytes.len() > most {
        return Err(UnpackError::TooLarge { most });
    }
    text_of(bytes.to_vec(), "of it")
}

fn read(format: &'static str, packed: impl Read, most: usize) -> Result<Vec<u8>, UnpackError> {
    let mut text = Vec::new();
    let limit = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
    packed.take(limit).read_to_end(&mut text).map_err(|_| UnpackError::Damaged { format })?;
    if text.len() > most { Err(UnpackError::TooLarge { most }) } else { Ok(text) }
}

fn text_of(bytes: Vec<u8>, of: &'static str) -> Result<String, UnpackError> {
    String::from_utf8(bytes)
        .map_err(|error| UnpackError::NotText { at: error.utf8_error().valid_up_to() + 1, of })
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*, sample::Index};

    use super::*;
    use std::io::Write;

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        packer.write_all(text).unwrap();
        packer.finish().unwrap()
    }

    fn zstd(text: &[u8]) -> Vec<u8> {
        zstd::encode_all(text, 19).unwrap()
    }

    #[test]
    fn plain_gzip_and_zstd_give_the_same_text() {
        let text = "apiVersion: v1 # ü\n".repeat(1000);
        for bytes in [text.as_bytes().to_vec(), gzip(text.as_bytes()), zstd(text.as_bytes())] {
            assert_eq!(unpack(&bytes, text.len()).as_deref(), Ok(text.as_str()));
            assert_eq!(unpack(&bytes, text.len() - 1), Err(UnpackError::TooLarge { most: text.len() - 1 }));
        }
        // Several files, one after the other, are one file to gunzip and to unzstd.
        for pack in [gzip, zstd] {
            assert_eq!(unpack(&[pack(b"a: 1\n"), pack(b"b: 2\n")].concat(), 100).unwrap(), "a: 1\nb: 2\n");
        }
        assert_eq!(unpack(b"", 10).as_deref(), Ok(""));
    }

    #[test]
    fn a_bomb_is_refused_before_it_has_unpacked() {
        let zeros = vec![b'#'; 64 << 20];
        for bomb in [gzip(&zeros), zstd(&zeros)] {
            assert!(bomb.len() < 100_000);
            assert_eq!(unpack(&bomb, 1 << 20), Err(UnpackError::TooLarge { most: 1 << 20 }));
        }
    }

    #[test]
    fn what_is_no_text_is_refused_by_what_it_looks_like() {
        for (bytes, format) in [(gzip(b"a: 1\n"), "gzip"), (zstd(b"a: 1\n"), "zstd")] {
            let cut = bytes.split_last().unwrap().1;
            assert_eq!(unpack(cut, 100), Err(UnpackError::Damaged { format }));
        }
        assert_eq!(unpack(b"a\xff", 9), Err(UnpackError::NotText { at: 2, of: "of it" }));
        let packed = gzip(b"ab\xff");
        assert_eq!(unpack(&packed, 9), Err(UnpackError::NotText { at: 3, of: "of what it unpacks to" }));
        // UTF-16, as an editor may save it.
        assert!(unpack(&[0xff, 0xfe, b'a', 0], 9).unwrap_err().to_string().contains("UTF-8"));
    }

    #[test]
    fn a_zstd_frame_that_asks_for_a_huge_window_is_refused() {
        let mut packer = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
        packer.window_log(27).unwrap();
        packer.write_all(b"a: 1\n").unwrap();
        packer.flush().unwrap();
        let packed = packer.finish().unwrap();
        assert_eq!(unpack(&packed, 100), Err(UnpackError::Damaged { format: "zstd" }));
    }

    proptest! {
        #[test]
        fn whatever_begins_as_packed_is_unpacked_within_bounds_or_refused(
            text in "[ab\n]{0,400}",
            is_gzip in any::<bool>(),
            changes in vec((any::<Index>(), any::<u8>()), 0..4),
            end in any::<Index>(),
            is_cut in any::<bool>(),
            most in 0..500usize,
        ) {
            let mut bytes = match is_gzip {
                true => gzip(text.as_bytes()),
                // Level 19 takes long for its memory alone.
                false => zstd::encode_all(text.as_bytes(), 1).unwrap(),
            };
            let is_whole = changes.is_empty() && !is_cut;
            for (at, byte) in changes {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            if is_cut {
                bytes.truncate(end.index(bytes.len()));
            }
            match unpack(&bytes, most) {
                Ok(unpacked) => prop_assert!(unpacked.len() <= most && (!is_whole || unpacked == text)),
                Err(error) => {
                    let is_due = error == UnpackError::TooLarge { most } && text.len() > most;
                    prop_assert!(!is_whole || is_due, "{}", error);
                }
            }
        }
    }
}
