//! What a call needs once an attempt has failed.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use crate::call::attempts::ConfigWaiter;
use crate::driver::RetryDriver;
use crate::machine::{Keep, Wait};
use crate::{AttemptKind, CallContext, Verdict};
use tokio::time::Sleep;

use crate::clock;

/// Allocated with the first failure.
pub(super) struct Failing<O> {
    pub(super) driver: RetryDriver,
    /// The failure that a gate still ahead may return.
    pub(super) kept: Option<O>,
    pub(super) kind: AttemptKind,
    pub(super) verdict: Verdict,
    sleep: Option<Pin<Box<Sleep>>>,
    waiter: Option<ConfigWaiter>,
}

impl<O> Failing<O> {
    pub(super) fn new(verdict: Verdict) -> Box<Self> {
        Box::new(Self {
            driver: RetryDriver::default(),
            kept: None,
            kind: AttemptKind::Retry,
            verdict,
            sleep: None,
            waiter: None,
        })
    }

    fn sleep_until(&mut self, until: Instant) {
        let until = tokio::time::Instant::from_std(until);
        match &mut self.sleep {
            Some(sleep) => sleep.as_mut().reset(until),
            None => self.sleep = Some(Box::pin(tokio::time::sleep_until(until))),
        }
    }

    /// True once a newer configuration moved what the call is about.
    fn poll_moved(&mut self, cx: &mut Context<'_>) -> bool {
        let moved = self.waiter.as_mut().map(|waiter| waiter.as_mut().poll(cx));
        if let Some(Poll::Ready(_)) = moved {
            self.waiter = None;
        }
        moved == Some(Poll::Ready(true))
    }

    /// Takes up the waiter of the attempt that failed. True if what the call is about has moved by
    /// now.
    #[cold]
    pub(super) fn has_moved(&mut self, context: &CallContext) -> bool {
        self.waiter = context.take_config_waiter();
        // No waker is needed: the waiter is polled again when the delay begins.
        self.poll_moved(&mut Context::from_waker(Waker::noop()))
    }

    /// Ready when the delay is over (false), or a newer configuration moved what the call is about
    /// (true).
    pub(super) fn poll_wait(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        if self.poll_moved(cx) {
            return Poll::Ready(true);
        }
        match &mut self.sleep {
            Some(sleep) => clock::poll_sleep(sleep.as_mut(), cx).map(|()| false),
            None => Poll::Ready(false),
        }
    }
}

impl<Res, Err> Failing<Result<Res, Err>> {
    pub(super) fn wait(&mut self, wait: &Wait, outcome: Result<Res, Err>) {
        self.kind = wait.kind;
        match wait.keep {
            Keep::New => self.kept = Some(outcome),
            Keep::Held => {}
            Keep::Error => self.kept = outcome.is_err().then_some(outcome),
        }
        if !wait.nudge {
            self.waiter = None;
        }
        if let Some(until) = wait.until {
            self.sleep_until(until);
        }
    }
}
