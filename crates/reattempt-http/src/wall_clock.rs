//! The clock of headers that carry a date.

use std::time::SystemTime;

/// The system's. Who reads or writes such a header can be given another.
#[allow(
    clippy::disallowed_methods,
    reason = "those headers are wall-clock time; `wall_clock` sets another clock"
)]
pub(crate) const SYSTEM: fn() -> SystemTime = SystemTime::now;
