//! Which types are `Send` and `Sync`, checked at compile time: a field that changes this breaks
//! users.

use std::sync::Arc;

use reattempt::route::Routed;
use reattempt::throttle::Throttle;
use reattempt::wrap::{IntoCall, OutOfCall};
use reattempt::{AttemptReporter, CallHandle, RetryInfoHandle, RoutePolicy, Routes};

const fn service<T: Clone + Send + Sync + Unpin + std::fmt::Debug>() {}

/// The assertions are made at compile time; the calls make this file a test.
#[test]
fn services_and_handles_can_be_shared_and_moved() {
    service::<IntoCall<()>>();
    service::<OutOfCall<()>>();
    service::<Routed<(), Arc<RoutePolicy>>>();
    service::<Routed<(), Routes<()>>>();
    service::<Throttle<()>>();
    service::<AttemptReporter>();
    service::<RetryInfoHandle>();
    service::<CallHandle>();
}
