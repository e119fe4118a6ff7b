//! The examples of reattempt.
