//! `Hop`: what is known about the request being served.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use http::{Extensions, HeaderMap, Request};
use reattempt::{CallDeadline, HasCallContext, StopReason};

use super::AmzSdkRequest;
use super::clock_skew::ClockSkew;
use super::headers::{attempt_count, expected_timeout, retry_reason};

/// A timeout so long that it is treated as none, and no timer is armed.
const FAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// What the calling service reported about the request being served.
/// [`ServerHopLayer`](super::ServerHopLayer) puts it into the request's extensions; clones share
/// it.
#[derive(Clone, Debug, Default)]
pub struct Hop(Arc<Served>);

#[derive(Debug, Default)]
struct Served {
    attempt: Option<u32>,
    max_attempts: Option<u32>,
    reason: Option<String>,
    deadline: Option<Instant>,
    gave_up: OnceLock<StopReason>,
}

impl Hop {
    /// The hop that serves this request, or for which it is sent.
    #[must_use]
    pub fn of<B>(request: &Request<B>) -> Option<&Self> {
        request.extensions().get()
    }

    /// Reads the headers of a request that has just arrived. A timeout given as a duration takes
    /// precedence over one given as an instant, which requires synchronized clocks.
    pub(super) fn read(
        headers: &HeaderMap,
        now: Instant,
        wall_clock: SystemTime,
        skew: ClockSkew,
    ) -> Self {
        let amz = AmzSdkRequest::read(headers).unwrap_or_default();
        let by_clock = || amz.ttl.map(|ttl| skew.left(ttl, wall_clock));
        let left = expected_timeout(headers).or_else(by_clock);
        Self(Arc::new(Served {
            attempt: attempt_count(headers).or(amz.attempt),
            max_attempts: amz.max,
            reason: retry_reason(headers).map(str::to_owned),
            deadline: left
                .filter(|left| *left < FAR)
                .and_then(|left| now.checked_add(left)),
            gave_up: OnceLock::new(),
        }))
    }

    /// The number of the attempt, from 1, if it was given.
    #[must_use]
    pub fn attempt(&self) -> Option<u32> {
        self.0.attempt
    }

    /// The maximum of attempts of the calling service, if it was given.
    #[must_use]
    pub fn max_attempts(&self) -> Option<u32> {
        self.0.max_attempts
    }

    /// The name of the reason of the failure that caused this attempt, if it was given.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        self.0.reason.as_deref()
    }

    /// When the caller stops waiting, if it was given.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.0.deadline
    }

    /// Marks `request` as sent on behalf of this hop: it gets the hop's deadline, and reports to
    /// the hop if it gives up. For calls that the response depends on; the failure of an optional
    /// call should not mark it.
    pub fn pass_on<B>(&self, request: &mut Request<B>) {
        self.pass_on_in(request.extensions_mut());
    }

    /// [`pass_on`](Self::pass_on) in the extensions of a request under construction:
    /// `hop.pass_on_in(request.extensions_mut())` on a `tonic::Request`.
    pub fn pass_on_in(&self, extensions: &mut Extensions) {
        if let Some(at) = self.deadline() {
            extensions
                .context_mut()
                .attach_deadline(CallDeadline::attached(at));
        }
        extensions.insert(self.clone());
    }

    /// A call for this hop has given up: if the response is a failure it is marked "do not retry".
    /// The first reason is kept.
    pub fn give_up(&self, why: StopReason) {
        let _ = self.0.gave_up.set(why);
    }

    /// Why a call for this hop has given up, if one has.
    #[must_use]
    pub fn gave_up(&self) -> Option<StopReason> {
        self.0.gave_up.get().copied()
    }
}
