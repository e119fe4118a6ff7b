//! What follows the end of an attempt.

use std::ops::ControlFlow;
use std::pin::Pin;
use std::task::Context;
use std::time::Instant;

use crate::machine::{Facts, FailedAttempt, HedgeAction};
use crate::{
    AttemptKind, CallContext, Classify, HasCallContext, Replay, Stage, StopReason, Verdict,
};
use tower_service::Service;

use super::future::{HedgeFuture, State, StateOwned};
use super::hedging::{Beside, Call, Other};
use crate::clock;
use crate::policy::{AttemptEnd, EndedAttempt, HedgePolicy};
use crate::recovery::{Outcome, Source};

/// An attempt ended: a hedge delay that learns is fed. `sent`: when, unless it is the first and
/// ended at once.
pub(super) fn fed(
    policy: &HedgePolicy,
    context: &CallContext,
    sent: Option<Instant>,
    end: AttemptEnd,
) {
    // Of an attempt that failed the verdict says it, and the answer of a layer is no server's.
    let has_left = || match end {
        AttemptEnd::Lost | AttemptEnd::Dropped => {
            let report = context.report();
            report.in_doubt || report.stage != Some(Stage::Dispatch)
        }
        AttemptEnd::Succeeded => !context.is_own_answer(),
        AttemptEnd::Failed => true,
    };
    if policy.learns_of(context.idempotency()) && has_left() {
        let number = context.attempt();
        let attempt = match sent {
            None => EndedAttempt::at_once(end),
            Some(sent) => {
                let now = clock::now();
                EndedAttempt::now(number, now.saturating_duration_since(sent), now, end)
            }
        };
        policy.delay().ended(&attempt);
    }
}

impl<S: Service<Req>, C, Req> Call<'_, S, C, Req> {
    /// As [`fed`], if the delay learns from this attempt.
    pub(super) fn feed(&self, context: &CallContext, sent: Option<Instant>, end: AttemptEnd) {
        if self.source.is_template() && self.hedging.driver.machine.teaches(context.attempt()) {
            fed(self.policy, context, sent, end);
        }
    }
}

impl<S, C, Req> HedgeFuture<S, C, Req>
where
    S: Service<Req> + Clone,
    C: Classify<S::Response, S::Error>,
    Req: HasCallContext + Replay,
{
    /// An attempt is classified: a success ends the call, and the machine decides on a failure.
    pub(super) fn settled(
        mut self: Pin<&mut Self>,
        context: &CallContext,
        sent: Option<Instant>,
        verdict: Verdict,
        outcome: Outcome<S, Req>,
    ) -> ControlFlow<Outcome<S, Req>> {
        let Some(failure) = verdict.failure() else {
            let committed = verdict == Verdict::Committed;
            self.as_mut().feed(context, sent, AttemptEnd::Succeeded);
            self.as_mut().cancel_losers();
            self.config.settings.effects(context).succeeded(committed);
            self.over();
            return ControlFlow::Break(outcome);
        };
        let Some(call) = self.as_mut().call() else {
            return ControlFlow::Break(outcome);
        };
        call.source.describe(call.config.settings.service.as_ref());
        let effects = call.config.settings.effects(context);
        let mut facts = effects.facts(clock::now());
        if !facts.report.circuit_open {
            let settings = &call.config.settings;
            let unknown = &settings.classifier;
            settings
                .warnings
                .if_unknown(unknown, outcome.as_ref(), &verdict);
        }
        call.source.complete(
            &mut facts,
            AttemptKind::Hedge,
            Some(failure),
            outcome.is_err(),
        );
        let Some(mut failed) = FailedAttempt::new(&facts, &verdict) else {
            return ControlFlow::Break(outcome);
        };
        if let Some(end) = failed.learned() {
            call.feed(context, sent, end);
        }
        let action = effects.one_failed(&mut call.hedging.driver, &mut failed, call.policy);
        // The response to the caller may need the rest of its request: a server that answers early
        // explains itself while it still reads. So the request of a failure that may be returned
        // goes on until another attempt is sent.
        if let (HedgeAction::Go, Source::Template { request, .. }) = (&action, &*call.source) {
            // Without a copy for another attempt it may be the one that goes on alone.
            let others_go_on = call.hedging.driver.machine.is_in_flight() && facts.replayable;
            if facts.cut_off || outcome.is_err() || others_go_on {
                request.attempt_over(facts.attempt);
            }
        }
        match action {
            HedgeAction::Go if facts.cut_off => {
                call.hedging.last.get_or_insert(outcome);
            }
            HedgeAction::Go => {
                call.hedging.last = Some(outcome);
                if call.hedging.driver.machine.may_nudge(context.attempt()) {
                    let waiter = context.take_config_waiter();
                    let waiter = waiter.map(|waiter| (context.clone(), waiter));
                    call.hedging.waiters.extend(waiter);
                }
            }
            HedgeAction::Expire => {
                let last = call.hedging.last.take().filter(|_| facts.cut_off);
                self.expire(last.unwrap_or(outcome));
            }
            HedgeAction::Return(stopped) => {
                let last = call.hedging.last.take().filter(|_| facts.cut_off);
                self.ended(context, stopped);
                return ControlFlow::Break(last.unwrap_or(outcome));
            }
        }
        ControlFlow::Continue(())
    }

    /// As [`Call::feed`], while the call goes on.
    fn feed(self: Pin<&mut Self>, context: &CallContext, sent: Option<Instant>, end: AttemptEnd) {
        if let Some(call) = self.call() {
            call.feed(context, sent, end);
        }
    }

    /// Cancels attempts that can go no further, because another goes on alone.
    pub(super) fn cancel_cut_off(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> ControlFlow<Outcome<S, Req>> {
        while let Some(call) = self.as_mut().call() {
            let first = call.first.then(|| call.source.context_mut().clone());
            let Source::Template { request, .. } = &*call.source else {
                break;
            };
            let is_cut_off =
                |context: &CallContext| request.poll_cut_off(context.attempt(), cx).is_ready();
            let Some((at, context)) = call.hedging.cut_off(first.as_ref(), is_cut_off) else {
                break;
            };
            let sent = match at {
                None => self.as_mut().first_ended().1,
                Some(at) => call.hedging.ended(at).map(|(_, sent)| sent),
            };
            self.as_mut().feed(&context, sent, AttemptEnd::Dropped);
            let Some(call) = self.as_mut().call() else {
                break;
            };
            if let Source::Template { request, .. } = &*call.source {
                request.attempt_over(context.attempt());
            }
            let effects = call.config.settings.effects(&context);
            let facts = Facts {
                replayable: false,
                ..effects.facts(clock::now())
            };
            let mut failed = FailedAttempt::of_cut_off(facts);
            match effects.one_failed(&mut call.hedging.driver, &mut failed, call.policy) {
                HedgeAction::Go => {}
                HedgeAction::Expire => {
                    if let Some(last) = call.hedging.last.take() {
                        self.as_mut().expire(last);
                    }
                }
                HedgeAction::Return(stopped) => {
                    let last = call.hedging.last.take();
                    self.as_mut().ended(&context, stopped);
                    if let Some(last) = last {
                        return ControlFlow::Break(last);
                    }
                }
            }
        }
        ControlFlow::Continue(())
    }

    /// The call has its outcome: attempts that are still in flight lost.
    fn cancel_losers(mut self: Pin<&mut Self>) {
        if matches!(self.state, State::First { .. }) {
            let (context, sent) = self.as_mut().first_ended();
            self.as_mut().lost(&context, sent);
        }
        while let Some(call) = self.as_mut().call() {
            if call.hedging.others.is_empty() {
                return;
            }
            if let Other::Flight {
                future,
                context,
                sent,
            } = call.hedging.others.remove(0)
            {
                drop(future);
                self.as_mut().lost(&context, Some(sent));
            }
        }
    }

    fn lost(mut self: Pin<&mut Self>, context: &CallContext, sent: Option<Instant>) {
        self.as_mut().feed(context, sent, AttemptEnd::Lost);
        let this = self.project();
        if let Source::Template { request, .. } = &*this.source {
            request.attempt_over(context.attempt());
        }
        this.config.settings.effects(context).cancelled(None);
    }

    /// The call ends without a success: attempts that are still in flight are dropped.
    fn ended(mut self: Pin<&mut Self>, context: &CallContext, stopped: StopReason) {
        self.as_mut().cancel_losers();
        self.config.settings.effects(context).ended(stopped);
        self.over();
    }

    /// The end of the call is recorded.
    pub(super) fn over(self: Pin<&mut Self>) {
        let mut this = self.project();
        this.state.set(State::Done);
        this.source.shed();
    }

    /// Nothing more is sent, and the deadline ends the call. Only this failure is kept until then.
    pub(super) fn expire(self: Pin<&mut Self>, last: Outcome<S, Req>) {
        let mut this = self.project();
        let deadline = this.source.context_mut().deadline();
        if let StateOwned::First {
            beside: Beside::Runs(mut hedging),
            ..
        }
        | StateOwned::Others { mut hedging, .. } =
            this.state.as_mut().project_replace(State::Done)
        {
            hedging.expire(last, deadline);
            this.state.set(State::Expired { hedging });
        }
        this.source.shed();
    }
}
