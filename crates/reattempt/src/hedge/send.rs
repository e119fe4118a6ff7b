//! Further attempts are planned and sent.

use std::ops::ControlFlow;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::machine::{Due, Withdrawn};
use crate::policy::HedgeView;
use crate::{AttemptKind, Classify, HasCallContext, NextAttempt, Replay, StopReason};
use tower_service::Service;

use super::future::HedgeFuture;
use super::hedging::{Call, Other};
use crate::recovery::{Outcome, Source};
use crate::{clock, timer};

impl<S, C, Req> Call<'_, S, C, Req>
where
    S: Service<Req> + Clone,
    Req: HasCallContext + Replay,
{
    /// Begins to get a service ready for each attempt that is due. True if there is one.
    pub(super) fn plan(&mut self, cx: &mut Context<'_>) -> bool {
        let hedging = &mut *self.hedging;
        // Each waiter is polled until the configuration is known, or until the attempt that it
        // might bring forward was sent without it.
        let mut at = 0;
        while let Some((context, waiter)) = hedging.waiters.get_mut(at) {
            let moved = if hedging.driver.machine.may_nudge(context.attempt()) {
                waiter.as_mut().poll(cx)
            } else {
                Poll::Ready(false)
            };
            match moved {
                Poll::Pending => at += 1,
                Poll::Ready(moved) => {
                    let (context, _) = hedging.waiters.swap_remove(at);
                    if moved {
                        let effects = self.config.settings.effects(&context);
                        let now = clock::now();
                        if hedging.driver.machine.nudged(now, context.attempt()) {
                            effects.waited_until(now);
                        }
                    }
                }
            }
        }
        let mut any_planned = false;
        while let Some(at) = hedging.driver.machine.wake() {
            let now = clock::now();
            let is_due = at <= now || hedging.poll_sleep(at, self.owner, cx);
            if !is_due || timer::budget_is_used_up(cx) {
                break;
            }
            let can_copy = can_copy(self.source, hedging.driver.machine.next_number());
            let context = self.source.context_mut();
            let view = HedgeView::new(now.max(at)).of(context).if_copied(can_copy);
            let due = hedging.driver.machine.due(view, self.policy);
            match (due, &mut *self.source) {
                (Due::Plan(planned), Source::Template { service, .. }) => {
                    hedging.others.push(Other::Readying {
                        service: service.clone(),
                        planned,
                    });
                    any_planned = true;
                }
                // The request moved with the first attempt, because it could not be copied. That is
                // recorded when the first hedge is missed.
                (Due::Plan(_), Source::Last(context)) => {
                    let stopped = StopReason::NotReplayable;
                    let refused = hedging.driver.withdrawn(stopped, context.deadline());
                    self.config.settings.effects(context).refused(refused);
                    break;
                }
                (Due::HeldBack { first }, source) => {
                    if first {
                        // The log of a refusal has the call's number.
                        source.describe(self.config.settings.service.as_ref());
                        let effects = self.config.settings.effects(source.context_mut());
                        effects.hedge_refused(StopReason::Throttled);
                    }
                }
                (Due::Nothing, _) => break,
            }
        }
        any_planned
    }
}

/// Whether the request can be sent once more, as a hedge with this number.
fn can_copy<S: Service<Req>, Req: Replay>(source: &Source<S, Req>, number: u32) -> bool {
    let next = NextAttempt {
        number,
        kind: AttemptKind::Hedge,
        after: None,
    };
    match source {
        Source::Template { request, .. } => request.can_replay(&next),
        Source::Last(_) => false,
    }
}

impl<S, C, Req> HedgeFuture<S, C, Req>
where
    S: Service<Req> + Clone,
    C: Classify<S::Response, S::Error>,
    Req: HasCallContext + Replay,
{
    /// A planned attempt's service is ready, or failed: send the attempt, unless the machine
    /// refuses it.
    pub(super) fn send(
        mut self: Pin<&mut Self>,
        at: usize,
        ready: Result<(), S::Error>,
    ) -> ControlFlow<Outcome<S, Req>> {
        let Some(call) = self.as_mut().call() else {
            return ControlFlow::Continue(());
        };
        let (hedging, source, config) = (call.hedging, call.source, call.config);
        let Other::Readying {
            mut service,
            planned,
        } = hedging.others.swap_remove(at)
        else {
            return ControlFlow::Continue(());
        };
        let kind = planned.kind();
        let number = hedging.driver.machine.next_number();
        let next = NextAttempt {
            number,
            kind,
            after: planned.after(),
        };
        let is_forbidden = hedging.driver.machine.forbids(&planned);
        let copy = match (&ready, &*source) {
            (Ok(()), Source::Template { request, .. })
                if !is_forbidden && request.can_replay(&next) =>
            {
                request.replay(&next)
            }
            _ => None,
        };
        // The log of a refusal has the call's number.
        source.describe(config.settings.service.as_ref());
        let context = source.context_mut();
        let effects = config.settings.effects(context);
        let driver = &mut hedging.driver;
        let (now, deadline) = (clock::now(), context.deadline());
        let (refused, error) = match (ready, copy) {
            (Ok(()), Some(mut request)) => {
                match driver.permit(now, planned, deadline, effects.throttle()) {
                    Ok(number) => {
                        let mut context = context.clone();
                        context.start_attempt(number, kind);
                        if kind == AttemptKind::Hedge && driver.machine.may_lose() {
                            context.allow_to_lose();
                        }
                        *request.context_mut() = context.clone();
                        config.settings.sent_again(&context);
                        hedging.others.push(Other::Flight {
                            future: Box::pin(service.call(request)),
                            context,
                            sent: now,
                        });
                        // With another attempt in flight, a failure that was kept is no longer
                        // returned.
                        let failed = hedging.driver.machine.last_failed();
                        if let (1.., Source::Template { request, .. }) = (failed, &*source) {
                            request.attempt_over(failed);
                        }
                        return ControlFlow::Continue(());
                    }
                    Err(refused) => (refused, None),
                }
            }
            (Ok(()), None) => {
                let stopped = driver.machine.permit(now, &planned, deadline).err();
                let stopped = stopped.unwrap_or(StopReason::NotReplayable);
                (driver.withdrawn(stopped, deadline), None)
            }
            (Err(error), _) => (driver.withdrawn(StopReason::Fatal, deadline), Some(error)),
        };
        effects.refused(refused);
        if let Withdrawn::Over { expire, .. } = refused.then {
            match hedging.last.take().or(error.map(Err)) {
                Some(outcome) if expire => self.expire(outcome),
                Some(outcome) => {
                    self.over();
                    return ControlFlow::Break(outcome);
                }
                None => {}
            }
        }
        ControlFlow::Continue(())
    }
}
