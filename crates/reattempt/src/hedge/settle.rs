//! Settles attempts through the machine.

use std::pin::Pin;
use std::task::Context;

use reattempt_core::machine::HedgeAction;
use reattempt_core::{Annotated, AttemptKind, CallContext, Classify, NextAttempt, Replay, Verdict};
use tower_service::Service;

use super::future::{HedgeFuture, Outcome};
use super::hedging::Other;
use crate::clock;

impl<S, C, Req> HedgeFuture<S, C, Req>
where
    S: Service<Req> + Clone,
    C: Classify<S::Response, S::Error>,
    Req: Annotated + Replay,
{
    /// An attempt is over: `at` is its index among the others, `None` the first. Returns the
    /// outcome if this ends the call.
    pub(super) fn settle(
        mut self: Pin<&mut Self>,
        at: Option<usize>,
        outcome: Outcome<S, Req>,
    ) -> Option<Outcome<S, Req>> {
        let mut this = self.as_mut().project();
        let (Some(first), Some(hedging)) = (this.context.as_ref(), this.hedging.as_mut()) else {
            return Some(outcome);
        };
        // Dropped at once: it may hold a connection.
        let context = match at {
            None => {
                this.first.set(None);
                first.clone()
            }
            Some(at) => match hedging.others.swap_remove(at) {
                Other::Flight { context, .. } => context,
                Other::Readying { .. } => return None,
            },
        };
        if context.has_policy() {
            let warning = &this.config.no_attempt_deadline;
            warning.warn_if_attempts_unlimited("HedgeLayer", &context);
        }
        let verdict = this.config.classifier.classify(outcome.as_ref(), &context);
        self.settled(&context, verdict, outcome)
    }

    /// An attempt is over and has been classified.
    pub(super) fn settled(
        mut self: Pin<&mut Self>,
        context: &CallContext,
        verdict: Verdict,
        outcome: Outcome<S, Req>,
    ) -> Option<Outcome<S, Req>> {
        let this = self.as_mut().project();
        let Some(hedging) = this.hedging.as_mut() else {
            return Some(outcome);
        };
        let Some(failure) = verdict.failure() else {
            let committed = verdict == Verdict::Committed;
            self.as_mut().drop_losers();
            self.project()
                .config
                .env(context, false)
                .succeeded(committed);
            return Some(outcome);
        };
        // The machine plans what follows a failure; if the first attempt failed before it was
        // pending, its hedging delay must not be planned in addition.
        hedging.armed = true;
        let next = NextAttempt {
            number: context.attempt() + 1,
            kind: AttemptKind::Hedge,
            after: Some(failure),
        };
        let template = hedging.source.as_ref().map(|(request, _)| request);
        let replayable = template.is_some_and(|request| request.can_replay(&next));
        let env = this.config.env(context, replayable);
        let mut found = context.findings();
        if let (Err(_), Some(request)) = (&outcome, template) {
            found.cut_off = request.was_cut_off(context.attempt());
            found.unread = request.was_unread(context.attempt());
        }
        hedging.lost(context);
        let action = hedging
            .machine
            .failed(clock::now(), &verdict, found, &hedging.policy, &env);
        match action {
            HedgeAction::Go if found.cut_off => {
                hedging.last.get_or_insert(outcome);
                None
            }
            HedgeAction::Go => {
                hedging.last = Some(outcome);
                if hedging.machine.may_nudge(context.attempt()) {
                    let waiter = context.take_config_waiter();
                    let waiter = waiter.map(|waiter| (context.clone(), waiter));
                    hedging.waiters.extend(waiter);
                }
                None
            }
            HedgeAction::Expire => {
                hedging.expire();
                None
            }
            HedgeAction::Return(stopped) => {
                let last = hedging.last.take().filter(|_| found.cut_off);
                self.as_mut().drop_losers();
                self.project().config.env(context, false).ended(stopped);
                Some(last.unwrap_or(outcome))
            }
        }
    }

    /// Cancels attempts whose copies are cut off because another attempt continues alone. Returns
    /// the outcome if the call ends with the last of them.
    pub(super) fn cancel_cut_off(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Option<Outcome<S, Req>> {
        loop {
            let mut this = self.as_mut().project();
            let hedging = this.hedging.as_mut()?;
            let (request, _) = hedging.source.as_ref()?;
            let is_cut_off =
                |context: &CallContext| request.poll_cut_off(context.attempt(), cx).is_ready();
            let (at, context) = hedging.cut_off(
                this.first.is_some().then_some(this.context.as_ref()?),
                is_cut_off,
            )?;
            match at {
                None => this.first.set(None),
                Some(at) => drop(hedging.others.swap_remove(at)),
            }
            hedging.lost(&context);
            let env = this.config.env(&context, false);
            let action = hedging.machine.cut_off(clock::now(), &hedging.policy, &env);
            match action {
                HedgeAction::Go => {}
                HedgeAction::Expire => {
                    hedging.expire();
                    return None;
                }
                HedgeAction::Return(stopped) => {
                    let last = hedging.last.take();
                    self.as_mut().drop_losers();
                    self.project().config.env(&context, false).ended(stopped);
                    return last;
                }
            }
        }
    }

    /// The call is over. Losers are dropped at once and recorded before its end is reported; the
    /// caller does not wait for them.
    fn drop_losers(self: Pin<&mut Self>) {
        let mut this = self.project();
        let (Some(first), Some(hedging)) = (this.context.as_ref(), this.hedging.as_mut()) else {
            return;
        };
        let env = |context| this.config.env(context, false);
        if this.first.is_some() {
            this.first.set(None);
            hedging.lost(first);
            env(first).cancelled(None);
        }
        for context in hedging.contexts() {
            hedging.lost(context);
            env(context).cancelled(None);
        }
        hedging.others.clear();
        hedging.end();
    }
}
