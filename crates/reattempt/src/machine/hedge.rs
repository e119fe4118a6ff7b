//! The hedge machine: several attempts at once (A6, Hedging Policy).

mod failed;
mod plan;

use std::time::Instant;

use super::transparent::TransparentRetries;
use crate::policy::HedgePolicy;
use crate::{AttemptKind, CallDeadline, Failure, Idempotency, StopReason};
use plan::{Next, Queued};

/// An attempt to be sent once a service is ready for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planned {
    /// A hedge after its delay.
    Hedge,
    /// A hedge that this failure caused.
    HedgeAfter(Failure),
    /// A retry that this failure demands, whatever the policy says.
    Retry(Failure),
    /// A transparent retry of this failure.
    Transparent(Failure),
}

impl Planned {
    /// Why it is sent.
    #[must_use]
    pub const fn kind(&self) -> AttemptKind {
        match self {
            Self::Hedge | Self::HedgeAfter(_) => AttemptKind::Hedge,
            Self::Retry(_) => AttemptKind::Retry,
            Self::Transparent(_) => AttemptKind::Transparent,
        }
    }

    /// The failure that caused it; `None` for a hedge after its delay.
    #[must_use]
    pub const fn after(&self) -> Option<&Failure> {
        match self {
            Self::Hedge => None,
            Self::HedgeAfter(failure) | Self::Retry(failure) | Self::Transparent(failure) => {
                Some(failure)
            }
        }
    }
}

/// What is due now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Nothing before [`HedgeMachine::wake`].
    Nothing,
    /// Get a service ready for one more attempt, then ask [`HedgeMachine::permit`].
    Plan(Planned),
    /// The hedge delay held back a hedge: until [`HedgeMachine::wake`], if that is set. The first
    /// such hedge of a call counts as refused ([`StopReason::Throttled`]), as by a budget.
    HeldBack {
        /// It is the first of its call.
        first: bool,
    },
}

/// What becomes of a call after a planned attempt was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Withdrawn {
    /// Other attempts are in flight or planned.
    OthersGoOn,
    /// Nothing is in flight or planned: the last failure ends the call.
    Over {
        /// The attempt that failed last; its record gets the reason.
        attempt: u32,
        /// Why no further attempt is sent.
        stopped: StopReason,
        /// The deadline ends the call instead of the failure.
        expire: bool,
    },
}

/// What to do after an attempt failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HedgeAction {
    /// End the call with this failure, after the other attempts were dropped.
    Return(StopReason),
    /// Keep this failure as the last one, and go on. One that was
    /// [cut off](super::Facts::cut_off) is kept only if there is no other.
    Go,
    /// Send nothing more and let the deadline end the call.
    Expire,
}

/// The decisions of one call that is hedged.
///
/// Each failed attempt goes through [`HedgeMachine::failed`] and [`HedgeMachine::decide`]. The
/// machine applies nothing: it returns what to do, and writes what the attempt's record says.
#[derive(Debug)]
pub struct HedgeMachine {
    max: u32,
    /// Planned attempts, the first one included: sent, being made ready, queued, or refused.
    used: u32,
    sent: u32,
    in_flight: u32,
    readying: u32,
    /// The attempt that failed last.
    last_failed: u32,
    next: Option<Next>,
    /// When the first attempt was first pending, or failed, if that was at its first poll.
    began: Option<Instant>,
    /// Beside the next hedge, one for each failure, so that two at one instant are two attempts.
    queued: Vec<Queued>,
    /// No further hedge is sent.
    frozen: Option<Frozen>,
    /// No attempt is sent beside another: the call is not idempotent, and its policy is for calls
    /// that are.
    alone: bool,
    /// The throttle refused the latest hedge: unless one more is sent, that is why none followed.
    throttled: bool,
    /// The hedge delay held back a hedge.
    held_back: bool,
    forced: u32,
    /// The attempts that were sent after the hedge delay, one bit each; those numbered below 32.
    after_delay: u32,
    transparent: TransparentRetries,
}

/// The end of the hedging.
#[derive(Clone, Copy, Debug)]
struct Frozen {
    /// What ended it first.
    stopped: StopReason,
    no_more: NoMore,
}

/// What there is no more of, each without what stands before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum NoMore {
    /// Transparent retries go on: no policy decides on them (A6, Transparent Retries).
    Hedges,
    /// The deadline has passed.
    Time,
    /// The request cannot be sent again.
    Copies,
}

impl Frozen {
    const fn forbids(self, planned: &Planned) -> bool {
        !matches!(
            (self.no_more, planned),
            (NoMore::Hedges, Planned::Transparent(_))
        )
    }
}

impl HedgeMachine {
    /// A machine for one such call under this policy; its first attempt is about to be sent.
    #[must_use]
    pub fn for_call(policy: &HedgePolicy, idempotency: Idempotency) -> Self {
        Self {
            alone: !policy.hedges(idempotency),
            max: policy.max_attempts(),
            used: 1,
            sent: 1,
            in_flight: 1,
            readying: 0,
            last_failed: 0,
            next: None,
            began: None,
            queued: Vec::new(),
            frozen: None,
            throttled: false,
            held_back: false,
            forced: 0,
            after_delay: 0,
            transparent: TransparentRetries::default(),
        }
    }

    /// Whether a planned attempt whose service is ready may be sent, before the throttle is asked.
    ///
    /// # Errors
    ///
    /// Why not. [`HedgeMachine::withdrawn`] follows.
    pub fn permit(
        &self,
        now: Instant,
        planned: &Planned,
        deadline: Option<CallDeadline>,
    ) -> Result<(), StopReason> {
        match self.frozen {
            // Decided while the service became ready: no new hedge after a "do not retry".
            Some(frozen) if frozen.forbids(planned) => Err(frozen.stopped),
            _ if deadline.is_some_and(|deadline| deadline.passed(now)) => Err(StopReason::Deadline),
            _ => Ok(()),
        }
    }

    /// Whether the attempt that was sent last may lose: others are in flight, and if they fail,
    /// the policy has another attempt for the call.
    #[must_use]
    pub const fn may_lose(&self) -> bool {
        self.in_flight > 1 && self.has_another()
    }

    /// A planned attempt is sent. Returns its number.
    pub fn sent(&mut self, planned: Planned) -> u32 {
        self.readying = self.readying.saturating_sub(1);
        self.in_flight += 1;
        self.sent += 1;
        if planned.kind() == AttemptKind::Hedge {
            self.throttled = false;
        }
        if planned == Planned::Hedge {
            self.after_delay += 1_u32.checked_shl(self.sent).unwrap_or(0);
        }
        self.sent
    }

    /// Whether a hedge delay learns from this attempt: the first, and those that were sent after
    /// the delay. One that follows a failure says nothing about hedging, and neither does a call
    /// that is never hedged.
    #[must_use]
    pub const fn teaches(&self, attempt: u32) -> bool {
        let bits = self.after_delay.checked_shr(attempt);
        !self.alone && (attempt == 1 || matches!(bits, Some(bits) if bits & 1 == 1))
    }

    /// The number of the attempt that failed last; 0 before the first failure.
    #[cfg(feature = "tokio")]
    pub(crate) const fn last_failed(&self) -> u32 {
        self.last_failed
    }

    /// Whether an attempt is in flight.
    #[cfg(feature = "tokio")]
    pub(crate) const fn is_in_flight(&self) -> bool {
        self.in_flight > 0
    }

    /// The number of the next attempt.
    #[must_use]
    pub const fn next_number(&self) -> u32 {
        self.sent + 1
    }

    /// A planned attempt is not sent, and is used up: the throttle or [`HedgeMachine::permit`]
    /// refused it, its service failed ([`StopReason::Fatal`]), or the request cannot be copied
    /// ([`StopReason::NotReplayable`]).
    pub fn withdrawn(&mut self, stopped: StopReason, deadline: Option<CallDeadline>) -> Withdrawn {
        self.readying = self.readying.saturating_sub(1);
        self.throttled |= stopped == StopReason::Throttled;
        match stopped {
            // A throttled call does not wait until the throttle has recovered: with nothing in
            // flight that could succeed, the failure is returned now (A6). What is queued stays:
            // the throttle does not refuse retries, and hedges ask it at once.
            StopReason::Throttled if self.in_flight == 0 => self.next = None,
            // One clone of the service that failed says nothing about the next.
            StopReason::Throttled | StopReason::Fatal => {}
            _ => self.freeze(stopped),
        }
        if !self.is_over() {
            return Withdrawn::OthersGoOn;
        }
        let stopped = self.frozen.map_or(stopped, |frozen| frozen.stopped);
        let enforced = deadline.is_some_and(|deadline| deadline.enforced);
        Withdrawn::Over {
            attempt: self.last_failed,
            stopped,
            expire: stopped == StopReason::Deadline && enforced,
        }
    }

    /// No further attempt from here on; those in flight may still succeed (a request that no longer
    /// fits its buffer). One of them that the server's application never saw is still sent again,
    /// while there are a copy and time for it.
    pub fn freeze(&mut self, stopped: StopReason) {
        let no_more = match stopped {
            StopReason::NotReplayable => NoMore::Copies,
            StopReason::Deadline => NoMore::Time,
            _ => NoMore::Hedges,
        };
        let frozen = self.frozen.get_or_insert(Frozen { stopped, no_more });
        frozen.no_more = frozen.no_more.max(no_more);
        let frozen = *frozen;
        self.next = None;
        self.queued
            .retain(|queued| !frozen.forbids(&queued.planned));
    }

    /// Whether no further attempt is sent, but for transparent retries.
    #[must_use]
    pub const fn is_frozen(&self) -> bool {
        self.frozen.is_some()
    }

    /// Whether this attempt is no longer sent: its service need not be waited for.
    #[must_use]
    pub const fn forbids(&self, planned: &Planned) -> bool {
        match self.frozen {
            Some(frozen) => frozen.forbids(planned),
            None => false,
        }
    }

    fn is_over(&self) -> bool {
        self.in_flight == 0 && self.readying == 0 && self.wake().is_none()
    }
}
