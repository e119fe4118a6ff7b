//! What a call that works costs its throttle, and an admission around it.

use std::sync::Arc;

use reattempt::RetryThrottle;
use reattempt::admission::{Admission, Criticality};
use reattempt::throttle::{Governor, Settled, TokenBucket};

use crate::cases::Case;

/// As the recovery layers see it.
fn succeed(throttle: &Arc<dyn RetryThrottle>, calls: u64) -> u64 {
    for _ in 0..calls {
        std::hint::black_box(throttle).settled(Settled::Success);
    }
    throttle.milli_tokens().unwrap_or_default()
}

fn bucket(calls: u64) -> u64 {
    let bucket: Arc<dyn RetryThrottle> = Arc::new(TokenBucket::default());
    succeed(&bucket, calls)
}

fn governor(calls: u64) -> u64 {
    let governor: Arc<dyn RetryThrottle> = Arc::new(Governor::default());
    succeed(&governor, calls)
}

/// Admission reads the clock once a call.
fn admission(calls: u64) -> u64 {
    let admission = Admission::default();
    let mut admitted = 0;
    for _ in 0..calls {
        let admission = std::hint::black_box(&admission);
        admitted += u64::from(admission.admit(Criticality::CRITICAL).is_ok());
        admission.ended(Criticality::CRITICAL, true);
    }
    admitted
}

/// Every case, in the order of the table.
#[must_use]
pub fn all() -> Vec<Case> {
    let case = |name, run| Case {
        name,
        run,
        future: 0,
    };
    vec![
        case("bucket-success", bucket),
        case("governor-success", governor),
        case("admission-success", admission),
    ]
}
