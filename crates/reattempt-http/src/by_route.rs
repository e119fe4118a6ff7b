//! How classifier and reader of pushback find the settings of a call's route.

use http::Response;
use reattempt::reason::UNKNOWN;
use reattempt::{
    AttemptRecord, CallContext, Classify, Failure, FoundPushback, ReadPushback, Stage, Verdict,
};

use crate::reasons::{HTTP_KEY_IN_USE, HTTP_STREAM_REFUSED, HTTP_TOO_MANY_REQUESTS};
use crate::retry_after::may_push_back;
use crate::{HttpClassifier, HttpPushback, HttpRoute, TransportError};

/// The call's user data: its request has an idempotency key that counts.
pub(crate) struct Keyed;

#[cold]
fn is_keyed(context: &CallContext) -> bool {
    context.data::<Keyed>().is_some()
}

/// Whether the server may have accepted another attempt of the call than this one, whose answer has
/// no record yet.
#[cold]
fn may_have_key(context: &CallContext) -> bool {
    let info = context.info();
    // One without a record is in flight.
    let others = info.attempts().saturating_sub(1) as usize;
    let unprocessed = info.records().filter(|it| was_unprocessed(it)).count();
    others > unprocessed
}

/// Whether it is known that the server did not process the attempt: it did not get it, said so, or
/// was busy with another one of the same key. What a policy or a server only calls safe to repeat
/// may be processed.
fn was_unprocessed(record: &AttemptRecord) -> bool {
    let said = |code| u16::try_from(code).is_ok_and(|code| HttpClassifier::SAFE.contains(code));
    // Such a 403 is read as 429 (`HttpClassifier::limited_403`).
    let limited = (Some(403), HTTP_TOO_MANY_REQUESTS);
    record.failure.is_some_and(|failure| {
        failure.stage == Stage::Dispatch
            || [HTTP_STREAM_REFUSED, HTTP_KEY_IN_USE].contains(&failure.reason)
            || failure.code.is_some_and(said)
            || (failure.code, failure.reason) == limited
    })
}

impl<B, E: TransportError> Classify<Response<B>, E> for HttpClassifier {
    fn classify(&self, outcome: Result<&Response<B>, &E>, context: &CallContext) -> Verdict {
        let route = HttpRoute::of(context).and_then(HttpRoute::classifier);
        let verdict = self.verdict(outcome, route);
        match verdict {
            // Another attempt with the same key is still being processed.
            Verdict::Fatal(mut failure) | Verdict::Retry(mut failure)
                if failure.code == Some(409)
                    && is_keyed(context)
                    && may_have_key(context)
                    && !outcome.is_ok_and(|it| self.is_decided(it, route)) =>
            {
                failure.reason = HTTP_KEY_IN_USE;
                Verdict::Retry(failure)
            }
            verdict => verdict,
        }
    }

    fn unknown_error(&self, error: &E, failure: &Failure) -> Option<String> {
        if failure.reason == UNKNOWN {
            error.unknown_type()
        } else {
            None
        }
    }

    fn may_force(&self) -> bool {
        // Requests that were never sent, refused streams, and refusals of a circuit breaker are
        // retried beyond the maximum.
        true
    }
}

/// Whether the call's route says that this status is retryable.
fn route_retries(status: u16, context: &CallContext) -> bool {
    let route = HttpRoute::of(context).and_then(HttpRoute::classifier);
    route.is_some_and(|it| it.sets_retryable(status))
}

impl<B, E> ReadPushback<Response<B>, E> for HttpPushback {
    fn read(&self, outcome: Result<&Response<B>, &E>, context: &CallContext) -> FoundPushback {
        let Ok(response) = outcome else {
            return FoundPushback::Absent;
        };
        if !may_push_back(response) && !route_retries(response.status().as_u16(), context) {
            return FoundPushback::Absent;
        }
        match HttpRoute::of(context).and_then(HttpRoute::pushback) {
            Some(of_route) => of_route.over(self).pushback(response),
            None => self.pushback(response),
        }
    }
}
