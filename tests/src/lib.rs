//! The cross-crate tests of reattempt, and the code they share.

pub mod alive;
pub mod kv;
pub mod nginx;
pub mod process;

use std::future::Future;
use std::time::Duration;

/// The time after which a test fails instead of hanging.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Waits for a future, at most `PATIENCE`.
pub async fn within<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(PATIENCE, future)
        .await
        .expect("it hangs")
}
