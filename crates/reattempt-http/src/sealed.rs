//! Keeps traits to the types that this crate implements them for, so that methods can be added.

pub trait Sealed {}
