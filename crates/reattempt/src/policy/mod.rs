//! What users configure: strategies, back-offs, throttles, and the policy of a route.

pub mod admission;
pub mod backoff;
pub mod health;
mod hedge;
mod route;
pub mod strategy;
pub mod throttle;
mod ticks;

pub use hedge::*;
pub use route::*;
