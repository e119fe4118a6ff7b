//! `reattempt call` for people.
