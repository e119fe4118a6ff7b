//! Reads the rest of one body, within limits.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Buf;
use http_body::Body;
use tokio::runtime::Handle;

/// The limits of size, time and concurrency. Clones share the count.
#[derive(Clone, Debug)]
pub(super) struct Bounds {
    pub(super) bytes: u64,
    pub(super) time: Duration,
    pub(super) at_once: usize,
    reading: Arc<AtomicUsize>,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            bytes: 64 * 1024,
            time: Duration::from_secs(1),
            at_once: 64,
            reading: Arc::default(),
        }
    }
}

/// One of the concurrent readers, until it is dropped.
struct Place(Arc<AtomicUsize>);

impl Place {
    fn of(bounds: &Bounds) -> Option<Self> {
        let place = Self(Arc::clone(&bounds.reading));
        // Counts before it checks, so that two callers cannot both take the last place.
        let before = place.0.fetch_add(1, Ordering::Relaxed);
        (before < bounds.at_once).then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Reads in a task of its own; outside a runtime the body is dropped unread.
pub(super) fn read<B>(body: B, bounds: Bounds)
where
    B: Body + Send + Unpin + 'static,
{
    if body.is_end_stream() || body.size_hint().lower() > bounds.bytes {
        return;
    }
    let (Ok(runtime), Some(place)) = (Handle::try_current(), Place::of(&bounds)) else {
        return;
    };
    runtime.spawn(async move {
        let _place = place;
        // The result does not matter: the end, an error, or the timeout.
        let _ = tokio::time::timeout(bounds.time, to_end(body, bounds.bytes)).await;
    });
}

async fn to_end<B: Body + Unpin>(mut body: B, mut bytes: u64) {
    while let Some(Ok(frame)) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        let read = frame.data_ref().map_or(0, Buf::remaining);
        let read = u64::try_from(read).unwrap_or(u64::MAX);
        match bytes.checked_sub(read) {
            Some(left) => bytes = left,
            None => return,
        }
    }
}
