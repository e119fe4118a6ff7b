//! A request that is not sent yet, and watches for a map without its node.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep};

use super::routes::{Routes, Sending};
use super::state::Outcome;

/// The wait before the map is looked at first. Its source says nothing when it changes, and no
/// other request may look at it.
const FIRST: Duration = Duration::from_millis(100);

/// The longest wait before the next look. Each wait is twice the one before: at a node that is
/// overloaded thousands of requests wait.
const LONGEST: Duration = Duration::from_millis(800);

/// A request that waits for a permit or the connection of its node, until the node leaves.
#[derive(Debug)]
pub(super) struct Watching {
    routes: Arc<Routes>,
    sending: Sending,
    pause: Pin<Box<Sleep>>,
    waited: Duration,
}

impl Watching {
    pub(super) fn begin(routes: &Arc<Routes>, sending: Sending) -> Self {
        Self {
            routes: routes.clone(),
            sending,
            pause: Box::pin(sleep(FIRST)),
            waited: FIRST,
        }
    }

    pub(super) const fn sending(&self) -> &Sending {
        &self.sending
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Outcome> {
        loop {
            if let Poll::Ready(outcome) = self.sending.poll(cx) {
                return Poll::Ready(outcome);
            }
            if !self.sending.response.is_dialling() {
                return Poll::Pending;
            }
            ready!(self.pause.as_mut().poll(cx));
            self.routes.compare();
            self.waited = LONGEST.min(self.waited * 2);
            self.pause.as_mut().reset(Instant::now() + self.waited);
        }
    }
}
