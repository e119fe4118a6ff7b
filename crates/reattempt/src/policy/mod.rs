//! What users configure: strategies, back-offs, throttles, and the policy of a route.

pub mod backoff;
mod route;
pub mod strategy;
pub mod throttle;

pub use route::*;
