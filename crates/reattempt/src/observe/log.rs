//! `LogObserver`: logs every decision and every call that did not go well with `tracing` (requested
//! by RFC 0049, Retry Orchestration).

use std::borrow::Cow;
use std::time::Duration;

use tracing::Level;

use crate::clock;
use crate::{
    AttemptKind, AttemptOutcome, AttemptRecord, CallContext, CallHandle, Elapsed, Failure,
    Observer, RetryInfo, Stage, StopReason,
};

#[cfg(test)]
pub(crate) mod tests;
mod text;

use text::{Reasons, Refusals, Tokens};

/// Logs what recovery layers do, with `tracing`. Part of every recovery layer.
///
/// | event | level | target |
/// | --- | --- | --- |
/// | a call failed or was not admitted, or its stream broke after the response head | WARN | `reattempt::call` |
/// | a call was saved by a retry, or dropped by its caller after a failure | INFO | `reattempt::call` |
/// | a call got the server's final answer at once (404, INVALID_ARGUMENT), or was dropped | DEBUG | `reattempt::call` |
/// | an attempt failed and is not retried, or a hedge was refused | INFO | `reattempt` |
/// | an attempt failed and is retried, got the server's final answer, or was cut off | DEBUG | `reattempt` |
///
/// All events of a call have the same number in `call`. The one of the call has its attempts, time,
/// stop reason and reasons, host or service, method, route and backend, as far as they are known;
/// its fields are in `docs/observing.md`. A call that succeeds at once is not logged, and costs
/// nothing more if no subscriber wants WARN.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogObserver;

/// False if no subscriber wants a warning: then no call has to keep anything for the log.
#[inline]
pub(crate) fn is_on() -> bool {
    tracing::enabled!(target: "reattempt::call", Level::WARN)
}

/// An event of one of three levels, which `tracing` wants as constants.
macro_rules! event_at {
    ($level:expr, $target:literal, $($fields:tt)*) => {
        match $level {
            Level::WARN => tracing::warn!(target: $target, $($fields)*),
            Level::INFO => tracing::info!(target: $target, $($fields)*),
            _ => tracing::debug!(target: $target, $($fields)*),
        }
    };
}

fn route(context: &CallContext) -> Option<&str> {
    let policy = context.policy()?;
    Some(policy.name()).filter(|name| !name.is_empty())
}

/// Why the throttle refused, if it was the throttle and says so.
fn refusal(
    context: &CallContext,
    stopped: Option<StopReason>,
    failure: Option<&Failure>,
) -> Option<Cow<'static, str>> {
    if stopped != Some(StopReason::Throttled) {
        return None;
    }
    context.throttle()?.refusal(failure)
}

impl Observer for LogObserver {
    fn sees_success(&self) -> bool {
        false
    }

    fn sees_sent(&self) -> bool {
        false
    }

    fn attempt_settled(&self, context: &CallContext, record: &AttemptRecord) {
        // It has no failure. A record of an attempt that was dropped has no time.
        if record.outcome == AttemptOutcome::Cancelled && record.ended.is_some() {
            tracing::debug!(
                target: "reattempt",
                call = context.call_id(),
                attempt = record.number,
                stopped = record.stopped.map(StopReason::name),
                route = route(context),
                backend = record.backend.as_ref().map(display),
                "attempt was cut off because another attempt continues alone"
            );
        }
        let Some(failure) = record.failure else {
            return;
        };
        match (record.outcome, record.stopped) {
            (AttemptOutcome::Retry, None) => tracing::debug!(
                target: "reattempt",
                call = context.call_id(),
                attempt = record.number,
                reason = %failure.reason,
                stage = failure.stage.name(),
                code = failure.code,
                delay = record.delay.map(debug),
                pushback = record.pushback.map(display),
                pushback_unreadable = record.pushback_unreadable.then_some(true),
                route = route(context),
                backend = record.backend.as_ref().map(display),
                "attempt failed, another one may follow"
            ),
            (_, stopped) => {
                let answered = stopped == Some(StopReason::Fatal) && failure.is_answer();
                let level = if answered { Level::DEBUG } else { Level::INFO };
                event_at!(
                    level,
                    "reattempt",
                    call = context.call_id(),
                    attempt = record.number,
                    reason = %failure.reason,
                    stage = failure.stage.name(),
                    code = failure.code,
                    stopped = stopped.map(StopReason::name),
                    pushback = record.pushback.map(display),
                    tokens = record.milli_tokens.map(|milli| display(Tokens(milli))),
                    refused = refusal(context, stopped, Some(&failure)).map(display),
                    route = route(context),
                    backend = record.backend.as_ref().map(display),
                    "attempt failed and is not retried"
                );
            }
        }
    }

    fn hedge_refused(&self, context: &CallContext, stopped: StopReason) {
        let throttle = context.throttle();
        let milli_tokens = throttle.and_then(|throttle| throttle.milli_tokens());
        tracing::info!(
            target: "reattempt",
            call = context.call_id(),
            stopped = stopped.name(),
            tokens = milli_tokens.map(|milli| display(Tokens(milli))),
            refused = refusal(context, Some(stopped), None).map(display),
            route = route(context),
            "a hedge was refused"
        );
    }

    fn sees_end(&self, _: StopReason) -> bool {
        is_on()
    }

    fn call_ended(&self, context: &CallContext, info: &RetryInfo) {
        let last = info.records().next_back();
        // Behind it the losers of a hedge, which were cancelled without a failure of their own.
        let failed_last = info.records().rev().find(|record| record.failure.is_some());
        // Not if the service broke before it could be asked again.
        let is_final = failed_last.is_some_and(|record| record.outcome == AttemptOutcome::Fatal);
        let failure = failed_last.and_then(|record| record.failure.as_ref());
        let retried = info.reasons().next().is_some() || info.transparent > 0;
        // A hedge may win after an attempt that could not be sent, and is not retried.
        let succeeds = matches!(
            info.stopped(),
            Some(StopReason::Success | StopReason::Committed)
        );
        let failed = retried || succeeds && failure.is_some();
        let (level, said) = match info.stopped() {
            Some(StopReason::Success | StopReason::Committed) if failed => match winner(info) {
                Some(AttemptKind::Initial) => (
                    Level::DEBUG,
                    "the first attempt answered, and a hedge failed",
                ),
                Some(AttemptKind::Hedge) => (Level::INFO, "call was saved by a hedge"),
                _ => (Level::INFO, "call was saved by a retry"),
            },
            Some(StopReason::Success | StopReason::Committed) | None => return,
            Some(StopReason::Cancelled) if failed => {
                (Level::INFO, "call was dropped after a failure")
            }
            Some(StopReason::Cancelled) => (Level::DEBUG, "call was dropped"),
            Some(StopReason::Fatal) if is_final && failure.is_some_and(Failure::is_answer) => {
                match failed_last.map(|record| record.kind) {
                    Some(AttemptKind::Hedge) if failed => (
                        Level::INFO,
                        "call was saved by a hedge: the server answered",
                    ),
                    Some(AttemptKind::Retry | AttemptKind::Transparent) if failed => (
                        Level::INFO,
                        "call was saved by a retry: the server answered",
                    ),
                    _ => (Level::DEBUG, "the server answered with a failure"),
                }
            }
            Some(_) => (Level::WARN, "call failed"),
        };
        let now = clock::now();
        // A call that does not give up before its delay has that delay in its record.
        let waits = last.is_some_and(|last| last.delay.is_some());
        let until = match (info.stopped(), context.deadline()) {
            (Some(StopReason::Deadline), Some(deadline)) if waits && deadline.enforced => {
                deadline.at.max(now)
            }
            _ => now,
        };
        let end = End {
            took: context.took(until),
            stopped: info.stopped(),
            failure,
        };
        end.log(level, said, context, info);
    }
}

/// What the attempt was that succeeded, if its record is still there.
fn winner(info: &RetryInfo) -> Option<AttemptKind> {
    let won = |outcome| matches!(outcome, AttemptOutcome::Success | AttemptOutcome::Committed);
    let record = info.records().rev().find(|record| won(record.outcome));
    Some(record?.kind)
}

/// The response of a call was committed, and then its stream failed.
#[cold]
pub(crate) fn stream_failed(context: &CallContext, failure: &Failure) {
    if !is_on() {
        return;
    }
    let end = End {
        took: context.took(clock::now()),
        stopped: Some(StopReason::Committed),
        failure: Some(failure),
    };
    let (level, said) = if failure.is_answer() {
        (Level::DEBUG, "the server ended the stream with a failure")
    } else {
        (Level::WARN, "call failed after its response had begun")
    };
    end.log(level, said, context, &context.info());
}

/// A deadline ended a call on which no recovery layer acted, or had acted with success: otherwise
/// it would have logged it.
#[cold]
pub(crate) fn deadline_alone(call: &CallHandle, elapsed: &Elapsed) {
    if (!call.is_claimed() || call.has_won()) && !call.is_copied() {
        tracing::warn!(
            target: "reattempt::call",
            call = call.id(),
            took = elapsed.timeout.map(debug),
            stopped = StopReason::Deadline.name(),
            ambiguous = elapsed.ambiguous.then_some(true),
            route = call.route(),
            "call failed"
        );
    }
}

/// The client gave up a response that was being read.
#[cold]
pub(crate) fn response_failed(call: &CallHandle, stopped: StopReason) {
    tracing::warn!(
        target: "reattempt::call",
        call = call.id(),
        attempts = call.info().attempts(),
        stopped = stopped.name(),
        route = call.route(),
        "call failed after its response had begun"
    );
}

/// What is logged of a call's end besides its history.
struct End<'a> {
    took: Duration,
    stopped: Option<StopReason>,
    failure: Option<&'a Failure>,
}

impl End<'_> {
    #[inline(never)]
    fn log(&self, level: Level, said: &'static str, context: &CallContext, info: &RetryInfo) {
        let subject = context.subject().unwrap_or_default();
        let backend = info
            .records()
            .rev()
            .find_map(|record| record.backend.as_ref());
        let refused = info.refusals().next().is_some();
        // An attempt that lost to another one is no reason for the end.
        let is_dropped = matches!(
            self.stopped,
            Some(StopReason::Deadline | StopReason::Cancelled)
        );
        let last = info.records().next_back().filter(|_| is_dropped);
        event_at!(
            level,
            "reattempt::call",
            call = context.call_id(),
            attempts = info.attempts(),
            took = ?self.took,
            stopped = self.stopped.map(StopReason::name),
            reasons = info.reasons().next().map(|_| display(Reasons(info))),
            failure = self.failure.map(|failure| display(failure.reason)),
            code = self.failure.and_then(|failure| failure.code),
            stage = self.failure.map(|failure| failure.stage.name()),
            cut_off_in = last.and_then(|last| last.cut_off_in).map(Stage::name),
            hedges_refused = refused.then(|| display(Refusals(info))),
            host = subject.host.as_deref(),
            method = subject.method.as_deref(),
            route = route(context),
            backend = backend.map(display),
            "{said}"
        );
    }
}
