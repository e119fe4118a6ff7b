use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::failure::reason::{KV_LOCKED, KV_NOT_MY_VBUCKET, KV_TEMPORARY_FAILURE};
use crate::{
    AttemptOutcome, AttemptRecord, Call, CallContext, CallDeadline, RetryInfo, RetryThrottle,
    RoutePolicy, ServerPushback, StopReason, TokenBucket, Transparent, Verdict,
};
use tower::{Layer, ServiceExt};

use super::*;
use crate::clock;
use crate::test_util::{
    Answer, CallResult, Fault, NeverForces, Payload, Probe, attempt, call_result, ms, probe,
    readiness, send, send_request, verdict,
};
use crate::{AttemptKind, Failure, NextAttempt, Observer, Stage};

mod cut_off;
mod failures;
mod fed;
mod gates;
mod passed;
mod refused;
mod winners;

type Verdicts = fn(Result<&Answer, &Fault>, &CallContext) -> Verdict;

/// Three attempts, ten milliseconds apart.
fn three() -> HedgeLayer<Verdicts> {
    HedgeLayer::new(verdict, HedgePolicy::new(3, ms(10)).hedge_non_idempotent())
}

/// A request with a limited number of copies, of which those for some attempts are cut off.
struct Scarce {
    call: Call<Payload>,
    copies_left: Arc<AtomicU32>,
    cut_off: &'static [u32],
    /// Attempts known to be cut off before they return.
    stalled: &'static [u32],
}

impl Scarce {
    fn new(probe: &Probe, copies: u32) -> Self {
        Self {
            call: probe.request(),
            copies_left: Arc::new(AtomicU32::new(copies)),
            cut_off: &[],
            stalled: &[],
        }
    }
}

impl HasCallContext for Scarce {
    fn context(&self) -> Option<&CallContext> {
        self.call.context()
    }

    fn context_mut(&mut self) -> &mut CallContext {
        self.call.context_mut()
    }
}

impl Replay for Scarce {
    fn can_replay(&self, _: &NextAttempt<'_>) -> bool {
        self.copies_left.load(Ordering::Relaxed) > 0
    }

    fn was_cut_off(&self, attempt: u32) -> bool {
        self.cut_off.contains(&attempt)
    }

    fn poll_cut_off(&self, attempt: u32, _: &mut Context<'_>) -> Poll<()> {
        if self.stalled.contains(&attempt) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }

    fn replay(&self, _: &NextAttempt<'_>) -> Option<Self> {
        let left = self.copies_left.load(Ordering::Relaxed).checked_sub(1)?;
        self.copies_left.store(left, Ordering::Relaxed);
        Some(Self {
            call: self.call.clone(),
            copies_left: Arc::clone(&self.copies_left),
            cut_off: self.cut_off,
            stalled: self.stalled,
        })
    }
}

/// Compile-time checks of the layer's types.
const _: fn() = || {
    fn service<T: Clone + Send + Sync + Unpin + std::fmt::Debug>() {}
    fn future<T: Send + std::fmt::Debug>() {}
    service::<HedgeLayer<Verdicts>>();
    service::<Hedge<Probe, Verdicts>>();
    future::<HedgeFuture<Probe, Verdicts, Call<()>>>();
};
