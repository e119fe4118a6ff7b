#[cfg(feature = "tokio")]
mod failover;
mod parsing;
#[cfg(feature = "tokio")]
mod repeated_body;
#[cfg(feature = "tokio")]
mod stale;
#[cfg(feature = "tokio")]
mod store;
