//! Scripted delays.

use std::time::Duration;

/// Sleeps on tokio's clock; a zero delay arms no timer.
pub(crate) async fn pause(delay: Duration) {
    if !delay.is_zero() {
        tokio::time::sleep(delay).await;
    }
}
