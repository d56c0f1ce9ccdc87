//! What a read sees that a fault shows an older state.

use super::{Object, Resource, Store};
use crate::failure::Failure;
use crate::fault::Verb;
use crate::route::Asked;
use crate::write::Write;

/// The state of an older revision.
#[derive(Clone, Copy, Debug)]
pub struct View {
    pub revision: u64,
    /// Shown to those too that ask for the latest state.
    pub to_all: bool,
}

impl Asked {
    /// The revision that there has to be for this read, where it names one.
    pub fn wanted(&self) -> Option<u64> {
        let named = || self.param("resourceVersion").parse().ok();
        match self.verb {
            Verb::List | Verb::DeleteCollection => {
                // The token begins with the revision of its list.
                let token = self.param("continue").split('/').next();
                named().or_else(|| token?.parse().ok())
            }
            Verb::Get => named(),
            Verb::Watch if self.param("sendInitialEvents") == "true" => named(),
            _ => None,
        }
    }

    /// The revision up to which this read sees the store, where a fault says so.
    pub fn limit(&self) -> Option<u64> {
        let named = !self.param("resourceVersion").is_empty();
        self.view.filter(|view| view.to_all || named).map(|view| view.revision)
    }
}

impl Store {
    /// An object as a request sees it.
    pub fn seen(&self, asked: &Asked, write: &Write) -> Result<Object, Failure> {
        if let Some(wanted) = asked.wanted().filter(|wanted| *wanted > self.revision) {
            return Err(Failure::too_large(wanted, self.revision));
        }
        let Some(revision) = asked.limit().filter(|revision| *revision < self.revision) else {
            return self.existing(write);
        };
        let wanted = asked.param("resourceVersion").parse().unwrap_or_default();
        if wanted > revision {
            return Err(Failure::too_large(wanted, revision));
        }
        let table = self.table_at(&Resource::from(&*write.kind), revision)?;
        let found = table.get(&write.place).map(|stored| self.read(stored));
        found.ok_or_else(|| Failure::not_found(&write.kind, &write.place.name))
    }
}
