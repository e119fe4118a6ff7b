//! tower layers that carry a call through failure.

pub mod call;
mod clock;
pub mod config_poll;
pub mod deadline;
pub mod hedge;
pub mod observe;
mod order;
#[cfg(test)]
pub mod probe;
pub mod pushback;
pub mod retry;
pub mod route;
pub mod throttle;

pub use reattempt_core::*;

pub use call::{CallLayer, UncallLayer};
pub use config_poll::ConfigPollLayer;
pub use deadline::DeadlineLayer;
pub use hedge::HedgeLayer;
pub use pushback::PushbackLayer;
pub use retry::RetryLayer;
pub use route::RouteLayer;
pub use throttle::ThrottleLayer;
