//! The tests of reattempt.
