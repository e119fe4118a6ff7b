//! The clock of all layers: tokio's, so that paused time works everywhere.

use std::time::Instant;

pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

pub(crate) use crate::call_deadline::later as after;
