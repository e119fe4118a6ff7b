//! The benches of reattempt.
