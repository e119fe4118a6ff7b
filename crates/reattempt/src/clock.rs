//! The clock of all layers: tokio's, so that paused time works everywhere.

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Instant;

use tokio::task::unconstrained;
use tokio::time::Sleep;

pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

pub(crate) use crate::call_deadline::later as after;

/// Polls a timer outside of tokio's cooperative budget: the guarded future may use up the budget at
/// every poll, and the limit would never be polled.
pub(crate) fn poll_sleep(sleep: Pin<&mut Sleep>, cx: &mut Context<'_>) -> Poll<()> {
    pin!(unconstrained(sleep)).poll(cx)
}
