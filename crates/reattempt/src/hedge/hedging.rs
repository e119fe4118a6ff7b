//! What a hedged call keeps beside its first attempt.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use crate::call::state::ConfigWaiter;
use crate::driver::HedgeDriver;
use crate::machine::Planned;
use crate::{CallContext, CallDeadline, HedgePolicy, Idempotency};
use tower_service::Service;

use super::Config;
use crate::recovery::{Outcome, Source, past};
use crate::timer::Timer;

/// What a call keeps beside its first attempt.
pub(super) enum Beside<H> {
    /// The first attempt has not been pending.
    Nothing,
    /// No hedge has been due.
    Waits(Waiting),
    /// A hedge was due.
    Runs(Box<H>),
}

/// A first attempt that was pending.
pub(super) struct Waiting {
    /// When it was first pending.
    pub(super) began: Instant,
    /// For the first hedge, if one is planned.
    pub(super) timer: Timer,
}

impl Waiting {
    /// The first attempt is pending from this instant on, and the first hedge is due at the other.
    pub(super) fn new(began: Instant, first: Option<Instant>) -> Self {
        let timer = first.map(Timer::at).unwrap_or_default();
        Self { began, timer }
    }

    /// True when the first hedge is due.
    pub(super) fn poll(&mut self, owner: usize, cx: &mut Context<'_>) -> bool {
        self.timer.instant().is_some() && self.timer.poll_of(owner, cx).is_ready()
    }
}

/// What a call keeps once a hedge was due or its first attempt failed.
pub(super) struct Hedging<S: Service<Req>, Req> {
    pub(super) driver: HedgeDriver,
    pub(super) others: Vec<Other<S, Req>>,
    /// The failure that is returned if no other attempt succeeds.
    pub(super) last: Option<Outcome<S, Req>>,
    /// Of failed attempts that are retried, until it is known whether a newer configuration moved
    /// the key.
    pub(super) waiters: Vec<(CallContext, ConfigWaiter)>,
    timer: Timer,
}

/// A call while attempts may run side by side.
pub(super) struct Call<'a, S: Service<Req>, C, Req> {
    pub(super) hedging: &'a mut Hedging<S, Req>,
    pub(super) policy: &'a HedgePolicy,
    /// The first attempt is in flight.
    pub(super) first: bool,
    pub(super) source: &'a mut Source<S, Req>,
    /// The address of the hedge future.
    pub(super) owner: usize,
    pub(super) config: &'a Config<C>,
}

/// An attempt beyond the first.
pub(super) enum Other<S: Service<Req>, Req> {
    Readying {
        service: S,
        planned: Planned,
    },
    Flight {
        future: Pin<Box<S::Future>>,
        context: CallContext,
        sent: Instant,
    },
}

impl<S: Service<Req>, Req> Beside<Hedging<S, Req>> {
    /// When the first attempt was first pending.
    pub(super) fn began(&self) -> Option<Instant> {
        match self {
            Self::Nothing => None,
            Self::Waits(waiting) => Some(waiting.began),
            Self::Runs(hedging) => hedging.driver.machine.began(),
        }
    }
}

impl<S: Service<Req>, Req> Hedging<S, Req> {
    /// Goes on from what the call had so far.
    pub(super) fn of(
        beside: Beside<Self>,
        policy: &HedgePolicy,
        idempotency: Idempotency,
    ) -> Box<Self> {
        let mut driver = HedgeDriver::new(policy, idempotency);
        let timer = match beside {
            Beside::Runs(hedging) => return hedging,
            Beside::Waits(waiting) => {
                driver
                    .machine
                    .pending_since(waiting.began, waiting.timer.instant());
                waiting.timer
            }
            Beside::Nothing => Timer::default(),
        };
        Box::new(Self {
            driver,
            others: Vec::new(),
            last: None,
            waiters: Vec::new(),
            timer,
        })
    }

    /// Those of the attempts that are out, and when they were sent.
    pub(super) fn flights(&self) -> impl Iterator<Item = (&CallContext, Instant)> {
        self.others.iter().filter_map(|other| match other {
            Other::Flight { context, sent, .. } => Some((context, *sent)),
            Other::Readying { .. } => None,
        })
    }

    /// Drops the attempt at this place, which ended: it may hold a connection. Returns its context,
    /// and when it was sent.
    pub(super) fn ended(&mut self, at: usize) -> Option<(CallContext, Instant)> {
        match self.others.swap_remove(at) {
            Other::Flight { context, sent, .. } => Some((context, sent)),
            Other::Readying { .. } => None,
        }
    }

    /// An attempt that is cut off, and its place among the others (`None`: the first). Never the
    /// last that is out while there is no failure to return.
    pub(super) fn cut_off(
        &self,
        first: Option<&CallContext>,
        mut is_cut_off: impl FnMut(&CallContext) -> bool,
    ) -> Option<(Option<usize>, CallContext)> {
        let out = usize::from(first.is_some()) + self.flights().count();
        if out < 2 && (out == 0 || self.last.is_none()) {
            return None;
        }
        let others = self.others.iter().enumerate();
        let flights = others.filter_map(|(at, other)| match other {
            Other::Flight { context, .. } => Some((Some(at), context)),
            Other::Readying { .. } => None,
        });
        // All are asked, so that a change wakes this task whichever it is about.
        let first = first.map(|context| (None, context));
        let mut found = None;
        for (at, context) in first.into_iter().chain(flights) {
            if is_cut_off(context) {
                found.get_or_insert((at, context.clone()));
            }
        }
        found
    }

    /// True if a service is still being made ready for an attempt that is no longer sent.
    pub(super) fn waits_in_vain(&self) -> bool {
        let machine = &self.driver.machine;
        let in_vain = |other: &Other<S, Req>| match other {
            Other::Readying { planned, .. } => machine.forbids(planned),
            Other::Flight { .. } => false,
        };
        self.others.iter().any(in_vain)
    }

    /// True when the instant has come.
    pub(super) fn poll_sleep(&mut self, at: Instant, owner: usize, cx: &mut Context<'_>) -> bool {
        self.timer.set_to(at);
        self.timer.poll_of(owner, cx).is_ready()
    }

    /// Nothing more is sent: keeps only this failure, and waits for the deadline.
    pub(super) fn expire(&mut self, last: Outcome<S, Req>, deadline: Option<CallDeadline>) {
        self.last = Some(last);
        self.others = Vec::new();
        self.waiters = Vec::new();
        match deadline {
            Some(deadline) => self.timer.set_to(past(deadline)),
            None => self.timer = Timer::default(),
        }
    }

    /// Ready when the call ends by itself.
    pub(super) fn poll_expired(&mut self, owner: usize, cx: &mut Context<'_>) -> Poll<()> {
        self.timer.poll_of(owner, cx)
    }
}
