//! Field sets against realistic objects and entries, and the properties that drift detection rests on.

mod entries;
mod hostile;
mod objects;
mod properties;
mod values;
mod walks;
