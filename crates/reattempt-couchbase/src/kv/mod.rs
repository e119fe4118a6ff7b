//! The key-value service: statuses, operations, the error map, and the verdict on one response.

mod classify;
mod client;
pub mod error_map;
mod error_map_strategy;
mod error_maps;
pub mod opcode;
pub mod status;
#[cfg(test)]
mod tests;
mod throttle;

pub use classify::KvClassifier;
pub use client::{KvAnswer, KvRequest, KvTransportError, stamp_idempotency};
pub use error_map::{Attributes, ErrorMap, ErrorMapEntry, ErrorMapError, RetrySpec};
pub use error_map_strategy::ErrorMapStrategy;
pub use error_maps::ErrorMaps;
pub use opcode::Opcode;
pub use status::Status;
pub use throttle::KvPushback;
