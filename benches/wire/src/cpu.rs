//! The CPU time of this process.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// User and system time of all threads of this process since its start.
pub(crate) fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    let nanos = u32::try_from(time.tv_nsec).unwrap_or_default();
    Duration::new(seconds, nanos)
}
