//! What the hub logs, for tests that read it: kept beside what is printed, while somebody asks for it.

use std::{
    io::{self, Write},
    sync::Arc,
};

use parking_lot::Mutex;
use tracing_subscriber::fmt::{MakeWriter, TestWriter};

type Kept = Arc<Mutex<Vec<u8>>>;

static CAPTURES: Mutex<Vec<Kept>> = Mutex::new(Vec::new());

/// All that is logged in this process until it is dropped.
pub struct Logs(Kept);

impl Logs {
    /// From now on.
    pub fn capture() -> Self {
        let kept = Kept::default();
        CAPTURES.lock().push(kept.clone());
        Self(kept)
    }

    /// What was logged so far.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock()).into_owned()
    }
}

impl Drop for Logs {
    fn drop(&mut self) {
        CAPTURES.lock().retain(|kept| !Arc::ptr_eq(kept, &self.0));
    }
}

/// Prints as tests do, and keeps a copy for those who ask.
pub(super) struct Tee;

impl<'a> MakeWriter<'a> for Tee {
    type Writer = TeeWriter;

    fn make_writer(&'a self) -> TeeWriter {
        TeeWriter(TestWriter::new())
    }
}

/// See [`Tee`].
pub(super) struct TeeWriter(TestWriter);

impl Write for TeeWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.0.write(bytes)?;
        for kept in CAPTURES.lock().iter() {
            kept.lock().extend_from_slice(&bytes[..written]);
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
