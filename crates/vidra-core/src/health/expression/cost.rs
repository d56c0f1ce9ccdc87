//! What evaluations cost: steps, and bytes that they make, counted down from the bounds.

use super::{
    BYTES_MAX, STEPS_MAX, Stop,
    value::{Text, Value},
};

/// What evaluations take, or what is left of the bounds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cost {
    pub(super) steps: usize,
    pub(super) bytes: usize,
}

pub(super) const TOO_MANY_STEPS: &str = "it takes more than 10,000 steps";
pub(super) const TOO_MANY_BYTES: &str = "it makes more than 256 KiB";
/// Of all expressions over one object.
pub(super) const NO_STEPS_LEFT: &str = "with those before it, it takes more than 20,000 steps";
pub(super) const NO_BYTES_LEFT: &str = "with those before it, it makes more than 512 KiB";

impl Cost {
    /// That of this many evaluations, each up to its bounds.
    pub(super) fn of(evaluations: usize) -> Self {
        Self { steps: STEPS_MAX * evaluations, bytes: BYTES_MAX * evaluations }
    }

    /// This without another.
    pub(super) fn without(self, other: Self) -> Self {
        let (steps, bytes) = (self.steps.saturating_sub(other.steps), self.bytes.saturating_sub(other.bytes));
        Self { steps, bytes }
    }

    pub(super) fn at_most(self, most: Self) -> Self {
        Self { steps: self.steps.min(most.steps), bytes: self.bytes.min(most.bytes) }
    }

    pub(super) fn steps(&mut self, count: usize) -> Result<(), Stop> {
        let left = self.steps.checked_sub(count);
        self.steps = left.unwrap_or_default();
        left.map(drop).ok_or(Stop::Costly(TOO_MANY_STEPS))
    }

    /// Reading this many bytes of texts.
    pub(super) fn read(&mut self, bytes: usize) -> Result<(), Stop> {
        self.steps(bytes / 64)
    }

    /// Going over all items of a list or map.
    pub(super) fn all(&mut self, of: &Value<'_>) -> Result<(), Stop> {
        match of {
            Value::Text(_) => Ok(()),
            of => self.steps(of.size().and_then(|size| usize::try_from(size).ok()).unwrap_or_default()),
        }
    }

    pub(super) fn bytes(&mut self, count: usize) -> Result<(), Stop> {
        let left = self.bytes.checked_sub(count);
        self.bytes = left.unwrap_or_default();
        left.map(drop).ok_or(Stop::Costly(TOO_MANY_BYTES))
    }

    /// Making this many items of a list or map.
    pub(super) fn items(&mut self, count: usize) -> Result<(), Stop> {
        self.bytes(count.saturating_mul(size_of::<Value<'_>>()))
    }

    /// Makes a text of at most this many bytes.
    pub(super) fn text<'a>(&mut self, most: usize, make: impl FnOnce() -> String) -> Result<Value<'a>, Stop> {
        self.bytes(most)?;
        Ok(Value::Text(Text::Made(make().into())))
    }
}
