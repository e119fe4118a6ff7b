//! Attempts that run side by side.

use std::future::Future;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use crate::{CallContext, Classify, HasCallContext, Replay};
use tower_service::Service;

use super::future::{HedgeFuture, State, StateOwned, StateProj};
use super::hedging::{Beside, Call, Hedging, Other};
use crate::poll::polled_after_completion;
use crate::recovery::Outcome;
use crate::timer;

impl<S, C, Req> HedgeFuture<S, C, Req>
where
    S: Service<Req> + Clone,
    C: Classify<S::Response, S::Error>,
    Req: HasCallContext + Replay,
{
    /// Every poll but those of a first attempt that is alone. `None` is pending.
    #[inline(never)]
    pub(super) fn poll_on(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Option<Outcome<S, Req>> {
        match self.poll_states(cx) {
            Poll::Ready(outcome) => Some(outcome),
            Poll::Pending => None,
        }
    }

    /// Ends: at one instant a bounded number of hedges, transparent retries and moved keys is sent,
    /// and every other attempt waits for its back-off.
    fn poll_states(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome<S, Req>> {
        let owner = timer::address(&*self);
        loop {
            match self.as_mut().project().state.project() {
                StateProj::First { .. } | StateProj::Others { .. } => {}
                StateProj::Passed { future } => match future.poll(cx) {
                    Poll::Ready(outcome) => return Poll::Ready(self.passed(outcome)),
                    Poll::Pending => {
                        self.project().source.context_mut().waits();
                        return Poll::Pending;
                    }
                },
                StateProj::Expired { hedging } => {
                    ready!(hedging.poll_expired(owner, cx));
                    return Poll::Ready(self.expired());
                }
                StateProj::Done => polled_after_completion("HedgeFuture"),
            }
            match self.as_mut().poll_attempts(cx) {
                ControlFlow::Break(outcome) => return Poll::Ready(outcome),
                ControlFlow::Continue(readied) => {
                    let Some(mut call) = self.as_mut().call() else {
                        continue;
                    };
                    // Polls the timer of the next attempt, if one is planned.
                    let planned = call.plan(cx);
                    if !(planned || readied || call.hedging.waits_in_vain()) {
                        return Poll::Pending;
                    }
                }
            }
        }
    }

    /// Polls every attempt once. True when the service of one became ready.
    fn poll_attempts(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> ControlFlow<Outcome<S, Req>, bool> {
        self.as_mut().cancel_cut_off(cx)?;
        if let StateProj::First { first, .. } = self.as_mut().project().state.project() {
            let Some(first) = first.as_pin_mut() else {
                polled_after_completion("HedgeFuture")
            };
            if let Poll::Ready(outcome) = first.poll(cx) {
                let this = self.as_mut().project();
                let settings = &this.config.settings;
                let context = this.source.context_mut();
                settings.warnings.if_attempt_timeout_ignored(context);
                let verdict = settings.classify(outcome.as_ref(), context);
                let (context, sent) = self.as_mut().first_ended();
                self.as_mut().settled(&context, sent, verdict, outcome)?;
            }
        }
        let mut readied = false;
        let mut at = 0;
        while let Some(call) = self.as_mut().call() {
            // No attempt waits for a service that will not be called.
            let machine = &call.hedging.driver.machine;
            let ready = match call.hedging.others.get_mut(at) {
                None => break,
                Some(Other::Flight {
                    future, context, ..
                }) => {
                    let Poll::Ready(outcome) = future.as_mut().poll(cx) else {
                        at += 1;
                        continue;
                    };
                    // Not taken out before, so that a panic of the classifier loses no attempt.
                    let verdict = call.config.settings.classify(outcome.as_ref(), context);
                    if let Some((context, sent)) = call.hedging.ended(at) {
                        self.as_mut()
                            .settled(&context, Some(sent), verdict, outcome)?;
                    }
                    continue;
                }
                Some(Other::Readying { planned, .. }) if machine.forbids(planned) => Ok(()),
                Some(Other::Readying { service, .. }) => {
                    let Poll::Ready(ready) = service.poll_ready(cx) else {
                        at += 1;
                        continue;
                    };
                    readied = true;
                    ready
                }
            };
            self.as_mut().send(at, ready)?;
        }
        ControlFlow::Continue(readied)
    }

    /// The deadline has passed, and no layer above ended the call.
    fn expired(self: Pin<&mut Self>) -> Outcome<S, Req> {
        match self.project().state.project_replace(State::Done) {
            StateOwned::Expired { mut hedging } => hedging.last.take(),
            _ => None,
        }
        .unwrap_or_else(|| polled_after_completion("HedgeFuture"))
    }

    /// The call passed through. If no layer below claimed it, it is counted here (A6: every RPC
    /// counts).
    fn passed(self: Pin<&mut Self>, outcome: Outcome<S, Req>) -> Outcome<S, Req> {
        let mut this = self.project();
        let context = this.source.context_mut();
        this.config.settings.passed(outcome.as_ref(), context);
        this.state.set(State::Done);
        outcome
    }
}

impl<S, C, Req> HedgeFuture<S, C, Req>
where
    S: Service<Req>,
    Req: HasCallContext,
{
    /// The call, while attempts may run side by side.
    pub(super) fn call(self: Pin<&mut Self>) -> Option<Call<'_, S, C, Req>> {
        let owner = timer::address(&*self);
        let this = self.project();
        let (policy, hedging, first) = match this.state.project() {
            StateProj::First {
                policy,
                beside: Beside::Runs(hedging),
                ..
            } => (policy, hedging, true),
            StateProj::Others { policy, hedging } => (policy, hedging, false),
            _ => return None,
        };
        Some(Call {
            hedging,
            policy,
            first,
            source: this.source,
            owner,
            config: this.config,
        })
    }

    /// Drops the first attempt, which ended. Returns its context, and when it was sent unless it
    /// ended at once.
    pub(super) fn first_ended(self: Pin<&mut Self>) -> (CallContext, Option<Instant>) {
        let mut this = self.project();
        let context = this.source.context_mut().clone();
        let StateProj::First { policy, beside, .. } = this.state.as_mut().project() else {
            return (context, None);
        };
        let beside = std::mem::replace(beside, Beside::Nothing);
        let hedging = Hedging::of(beside, policy, context.idempotency());
        let sent = hedging.driver.machine.began();
        let policy = Arc::clone(policy);
        this.state.set(State::Others { policy, hedging });
        (context, sent)
    }
}
