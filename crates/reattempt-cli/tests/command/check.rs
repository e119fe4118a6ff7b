//! `reattempt check`.
