//! `LogObserver`: logs every decision with `tracing` (requested by RFC 0049, Retry Orchestration).

use crate::{AttemptOutcome, AttemptRecord, CallContext, Observer, StopReason};

#[cfg(test)]
mod tests;

/// Logs every scheduled retry at DEBUG, and every refused retry or hedge at INFO, with reason,
/// delay and gate, to the target `reattempt`. The default observer of every recovery layer. Calls
/// that succeed are not logged.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogObserver;

impl Observer for LogObserver {
    fn sees_success(&self) -> bool {
        false
    }

    fn attempt_settled(&self, context: &CallContext, record: &AttemptRecord) {
        let Some(failure) = record.failure else {
            return;
        };
        let route = context.policy().map_or("", |policy| policy.name());
        let backend = record
            .backend
            .as_ref()
            .map_or("", |backend| backend.as_str());
        match (record.outcome, record.stopped) {
            (AttemptOutcome::Retry, None) => tracing::debug!(
                target: "reattempt",
                attempt = record.number,
                reason = %failure.reason,
                stage = failure.stage.name(),
                code = failure.code,
                delay = ?record.delay,
                pushback = ?record.pushback,
                pushback_unreadable = record.pushback_unreadable.then_some(true),
                route,
                backend,
                "attempt failed, another one may follow"
            ),
            (AttemptOutcome::Cancelled, stopped) => tracing::debug!(
                target: "reattempt",
                attempt = record.number,
                reason = %failure.reason,
                stopped = stopped.map(StopReason::name),
                route,
                backend,
                "attempt was cut off because another attempt continues alone"
            ),
            (_, stopped) => tracing::info!(
                target: "reattempt",
                attempt = record.number,
                reason = %failure.reason,
                stage = failure.stage.name(),
                code = failure.code,
                stopped = stopped.map(StopReason::name),
                milli_tokens = record.milli_tokens,
                route,
                backend,
                "attempt failed and is not retried"
            ),
        }
    }

    fn hedge_refused(&self, context: &CallContext, stopped: StopReason) {
        let route = context.policy().map_or("", |policy| policy.name());
        let milli_tokens = context
            .throttle()
            .and_then(|throttle| throttle.milli_tokens());
        tracing::info!(
            target: "reattempt",
            stopped = stopped.name(),
            milli_tokens,
            route,
            "a hedge was refused"
        );
    }
}
