//! The state of a call with more than one attempt.

use std::pin::Pin;
use std::sync::Arc;
use std::task::Context;
use std::time::Instant;

use reattempt_core::findings::ConfigWaiter;
use reattempt_core::machine::HedgeMachine;
use reattempt_core::{AttemptKind, CallContext, HedgePolicy, Idempotency, Replay};
use tokio::time::Sleep;
use tower_service::Service;

use super::first::Start;
use super::future::Outcome;
use crate::clock;

/// The state of several attempts.
pub(super) struct Hedging<S: Service<Req>, Req> {
    pub(super) machine: HedgeMachine,
    pub(super) policy: Arc<HedgePolicy>,
    pub(super) source: Option<(Req, S)>,
    pub(super) others: Vec<Other<S, Req>>,
    /// The failure to return if nothing else arrives.
    pub(super) last: Option<Outcome<S, Req>>,
    /// Waiters of failed attempts with a planned retry, kept until it is known whether a newer
    /// configuration moved the key.
    pub(super) waiters: Vec<(CallContext, ConfigWaiter)>,
    sleep: Option<Pin<Box<Sleep>>>,
    /// The first delay is running or no longer needed.
    pub(super) armed: bool,
    /// Nothing more is sent or recorded.
    pub(super) over: bool,
    /// The deadline ends the call.
    pub(super) expired: bool,
}

/// An attempt beyond the first.
pub(super) enum Other<S: Service<Req>, Req> {
    Readying {
        service: S,
        kind: AttemptKind,
    },
    Flight {
        future: Pin<Box<S::Future>>,
        context: CallContext,
    },
}

impl<S: Service<Req>, Req> Hedging<S, Req> {
    pub(super) fn new(Start { policy, source }: Start<S, Req>, idempotency: Idempotency) -> Self {
        Self {
            machine: HedgeMachine::for_call(&policy, idempotency),
            policy,
            source,
            others: Vec::new(),
            last: None,
            waiters: Vec::new(),
            sleep: None,
            armed: false,
            over: false,
            expired: false,
        }
    }

    /// The contexts of the attempts in flight.
    pub(super) fn contexts(&self) -> impl Iterator<Item = &CallContext> {
        self.others.iter().filter_map(|other| match other {
            Other::Flight { context, .. } => Some(context),
            Other::Readying { .. } => None,
        })
    }

    /// An attempt that is cut off, and its index among the others (`None`: the first). Never the
    /// last one in flight if there is no failure to return.
    pub(super) fn cut_off(
        &self,
        first: Option<&CallContext>,
        mut is_cut_off: impl FnMut(&CallContext) -> bool,
    ) -> Option<(Option<usize>, CallContext)> {
        let out = usize::from(first.is_some()) + self.contexts().count();
        if out < 2 && (out == 0 || self.last.is_none()) {
            return None;
        }
        let others = self.others.iter().enumerate();
        let flights = others.filter_map(|(at, other)| match other {
            Other::Flight { context, .. } => Some((Some(at), context)),
            Other::Readying { .. } => None,
        });
        // All of them are polled, so that a change of any wakes this task.
        let first = first.map(|context| (None, context));
        let mut found = None;
        for (at, context) in first.into_iter().chain(flights) {
            if is_cut_off(context) {
                found.get_or_insert((at, context.clone()));
            }
        }
        found
    }

    /// True if a service is still being prepared although nothing more is sent.
    pub(super) fn waits_in_vain(&self) -> bool {
        let readying = |other: &Other<S, Req>| matches!(other, Other::Readying { .. });
        self.machine.is_frozen() && self.others.iter().any(readying)
    }

    /// Nothing more is sent or recorded.
    pub(super) fn end(&mut self) {
        self.over = true;
        self.source = None;
        self.waiters.clear();
    }

    /// The deadline ends the call: until then nothing is kept.
    pub(super) fn expire(&mut self) {
        self.expired = true;
        self.source = None;
        self.last = None;
        self.waiters.clear();
    }

    /// True once the instant has passed.
    pub(super) fn poll_sleep(&mut self, at: Instant, cx: &mut Context<'_>) -> bool {
        let at = tokio::time::Instant::from_std(at);
        let sleep = self
            .sleep
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(at)));
        if sleep.deadline() != at {
            sleep.as_mut().reset(at);
        }
        clock::poll_sleep(sleep.as_mut(), cx).is_ready()
    }
}

impl<S: Service<Req>, Req: Replay> Hedging<S, Req> {
    /// An attempt is over: data kept for it is dropped.
    pub(super) fn lost(&self, context: &CallContext) {
        if let Some((request, _)) = &self.source {
            request.attempt_over(context.attempt());
        }
    }
}
