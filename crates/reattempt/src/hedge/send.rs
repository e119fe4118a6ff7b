//! Attempts beyond the first: planned when they are due, sent when their service is ready.

use std::pin::Pin;
use std::task::{Context, Poll};

use reattempt_core::machine::{Due, Permit};
use reattempt_core::{Annotated, Classify, NextAttempt, Replay};
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
    /// Plans what is due, and arms a timer for what is not. True if an attempt was planned.
    pub(super) fn plan(self: Pin<&mut Self>, cx: &mut Context<'_>) -> bool {
        let this = self.project();
        let Some(hedging) = this.hedging.as_mut() else {
            return false;
        };
        if !hedging.armed {
            hedging.armed = true;
            hedging.machine.pending(clock::now(), &hedging.policy);
        }
        // Each waiter is polled until its configuration is known or the retry was sent without it.
        let mut at = 0;
        while let Some((context, waiter)) = hedging.waiters.get_mut(at) {
            let moved = if hedging.machine.may_nudge(context.attempt()) {
                waiter.as_mut().poll(cx)
            } else {
                Poll::Ready(false)
            };
            match moved {
                Poll::Pending => at += 1,
                Poll::Ready(moved) => {
                    let (context, _) = hedging.waiters.swap_remove(at);
                    if moved {
                        let env = this.config.env(&context, true);
                        hedging.machine.nudged(clock::now(), &env);
                    }
                }
            }
        }
        let mut planned = false;
        while let Some(at) = hedging.machine.wake() {
            let now = clock::now();
            if at > now && !hedging.poll_sleep(at, cx) {
                break;
            }
            match (
                hedging.machine.due(now.max(at), &hedging.policy),
                &hedging.source,
            ) {
                (Due::Plan(kind), Some((_, service))) => {
                    hedging.others.push(Other::Readying {
                        service: service.clone(),
                        kind,
                    });
                    planned = true;
                }
                // The request moved with the first attempt because it could not be copied: this is
                // recorded when the first hedge is due.
                (Due::Plan(_), None) => {
                    let env = this.context.as_ref().map(|of| this.config.env(of, false));
                    if let Some(env) = env {
                        hedging.machine.refused(&env);
                    }
                    break;
                }
                (Due::Nothing, _) => break,
            }
        }
        planned
    }

    /// A planned attempt's service is ready or has failed: sends the attempt if the machine
    /// permits.
    pub(super) fn send(
        self: Pin<&mut Self>,
        at: usize,
        ready: Result<(), S::Error>,
    ) -> Option<Outcome<S, Req>> {
        let this = self.project();
        let (Some(context), Some(hedging)) = (this.context.as_ref(), this.hedging.as_mut()) else {
            return None;
        };
        let Other::Readying { mut service, kind } = hedging.others.swap_remove(at) else {
            return None;
        };
        let number = hedging.machine.next_number();
        let next = NextAttempt {
            number,
            kind,
            after: None,
        };
        let copy = match (&ready, &hedging.source) {
            (Ok(()), Some((request, _))) if request.can_replay(&next) => request.replay(&next),
            _ => None,
        };
        let env = this.config.env(context, copy.is_some());
        let permit = match (&ready, &copy) {
            (Ok(()), Some(_)) => hedging.machine.permit(clock::now(), kind, &env),
            (Ok(()), None) => hedging.machine.refused(&env),
            (Err(_), _) => hedging.machine.broken(&env),
        };
        match (permit, copy) {
            (Permit::Send(number), Some(mut request)) => {
                let mut context = context.clone();
                context.start_attempt(number, kind);
                *request.context_mut() = context.clone();
                this.config.observer.attempt_sent(&context);
                let future = Box::pin(service.call(request));
                hedging.others.push(Other::Flight { future, context });
                None
            }
            (Permit::Expire, _) => {
                hedging.expire();
                None
            }
            (Permit::Return, _) => {
                hedging.end();
                hedging.last.take().or_else(|| ready.err().map(Err))
            }
            _ => None,
        }
    }
}
