//! The examples of reattempt, one file a real use, and the README's code as tests.

/// The README's code blocks, compiled and run as doctests.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;
