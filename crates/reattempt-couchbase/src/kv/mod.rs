//! The key-value service: statuses, operations, the error map, and the verdict on one response.

mod classify;
pub mod error_map;
mod error_map_strategy;
mod error_maps;
mod framing_extras;
pub mod opcode;
pub mod status;
mod strategy;
#[cfg(test)]
mod tests;
mod throttle;
mod traits;

pub use classify::KvClassifier;
pub use error_map::{Attributes, ErrorMap, ErrorMapEntry, RetrySpec};
pub use error_map_strategy::ErrorMapStrategy;
pub use error_maps::ErrorMaps;
pub use opcode::Opcode;
pub use status::Status;
pub use strategy::KvStrategy;
pub use throttle::KvPushback;
pub use traits::{KvAnswer, KvRequest, KvTransportError, attach_idempotency};
