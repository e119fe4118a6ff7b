//! What moves between threads and what can be shared, pinned at compile time: a field that changes
//! it breaks users.

use std::sync::Arc;

use reattempt::call::{IntoCall, OutOfCall};
use reattempt::route::Routed;
use reattempt::throttle::Throttle;
use reattempt::{CallHandle, Conclusion, Reporter, RoutePolicy, Routes, Watch};

const fn service<T: Clone + Send + Sync + Unpin + std::fmt::Debug>() {}

/// The assertions are the test; the calls make the file one.
#[test]
fn services_and_handles_can_be_shared_and_moved() {
    service::<IntoCall<()>>();
    service::<OutOfCall<()>>();
    service::<Routed<(), Arc<RoutePolicy>>>();
    service::<Routed<(), Routes<()>>>();
    service::<Throttle<()>>();
    service::<Reporter>();
    service::<Conclusion>();
    service::<Watch>();
    service::<CallHandle>();
}
