//! How classifier and reader of pushback find the settings of a call's route.

use std::borrow::Cow;

use http::Response;
use reattempt::reason::UNKNOWN;
use reattempt::{
    CallContext, Classify, Failure, FoundPushback, ReadPushback, ServerPushback, Verdict,
};

use crate::retry_after::may_push_back;
use crate::{HttpClassifier, HttpPushback, HttpRoute, TransportError};

impl<B, E: TransportError> Classify<Response<B>, E> for HttpClassifier {
    fn classify(&self, outcome: Result<&Response<B>, &E>, context: &CallContext) -> Verdict {
        let route = HttpRoute::of(context).and_then(HttpRoute::classifier);
        self.verdict(outcome, route)
    }

    fn unknown_error(&self, error: &E, failure: &Failure) -> Option<String> {
        if failure.reason == UNKNOWN {
            error.unknown_type()
        } else {
            None
        }
    }

    fn may_force(&self) -> bool {
        // Only requests that hyper never sent and h2's refused streams are retried beyond the
        // maximum.
        cfg!(any(feature = "hyper", feature = "h2"))
    }
}

fn in_force<'a>(layer: &'a HttpPushback, context: &CallContext) -> Cow<'a, HttpPushback> {
    match HttpRoute::of(context).and_then(HttpRoute::pushback) {
        Some(of_route) => Cow::Owned(of_route.over(layer)),
        None => Cow::Borrowed(layer),
    }
}

impl<B, E> ReadPushback<Response<B>, E> for HttpPushback {
    fn read(&self, outcome: Result<&Response<B>, &E>) -> Option<ServerPushback> {
        self.pushback(outcome.ok()?).valid()
    }

    fn read_in(&self, outcome: Result<&Response<B>, &E>, context: &CallContext) -> FoundPushback {
        match outcome {
            Ok(response) if may_push_back(response) => in_force(self, context).pushback(response),
            _ => FoundPushback::Absent,
        }
    }
}
