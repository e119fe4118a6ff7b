//! Scripted delays.

use std::time::Duration;

/// Sleeps by tokio's clock; a zero delay touches no timer.
pub(crate) async fn pause(delay: Duration) {
    if !delay.is_zero() {
        tokio::time::sleep(delay).await;
    }
}
