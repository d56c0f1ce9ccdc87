//! Sequences with a bound: a server may send millions of entries that are empty.

use std::{fmt, marker::PhantomData};

use serde::{
    Deserialize,
    de::{Error, SeqAccess, Visitor},
};

/// Reads at most `MOST` entries, and none where there is nothing.
pub struct AtMost<T, const MOST: usize>(PhantomData<T>);

impl<T, const MOST: usize> Default for AtMost<T, MOST> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<'de, T: Deserialize<'de>, const MOST: usize> Visitor<'de> for AtMost<T, MOST> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at most {MOST} entries")
    }

    fn visit_unit<E: Error>(self) -> Result<Vec<T>, E> {
        Ok(Vec::new())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<Vec<T>, A::Error> {
        let mut all = Vec::new();
        while let Some(entry) = entries.next_element()? {
            if all.len() == MOST {
                return Err(A::Error::invalid_length(all.len() + 1, &self));
            }
            all.push(entry);
        }
        Ok(all)
    }
}
