//! Responses whose headers say more about the failure than their status.

use http::header::RETRY_AFTER;
use http::{HeaderMap, HeaderName, Response, StatusCode};
use reattempt::{Failure, Stage, Verdict};

use super::{HttpClassifier, InForce};
use crate::reasons::of_status;
use crate::retry_after::remaining;

const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

impl HttpClassifier {
    /// Reads a 403 as 429 if the response says that a rate limit caused it: with a `Retry-After`,
    /// or with `(X-)RateLimit-Remaining: 0`: retried and safe where 429 is. Any other 403 keeps its
    /// meaning. For GitHub and APIs like it.
    #[must_use]
    pub const fn limited_403(mut self) -> Self {
        self.limited_403 = true;
        self
    }

    /// Obeys the header `x-should-retry` of a failure (a status from 400 up), as the SDKs of OpenAI
    /// and Anthropic do. `true` makes any status retryable, also for a request that is not
    /// idempotent: the server itself says that the request may come again. `false` makes it final.
    /// Any other value counts as absent.
    #[must_use]
    pub const fn should_retry_header(mut self) -> Self {
        self.should_retry_header = true;
        self
    }

    /// Whether the response itself says that it is final, or the user's function has judged it.
    pub(crate) fn is_decided<B>(&self, response: &Response<B>, route: Option<&Self>) -> bool {
        let in_force = InForce::new(self, route);
        let headers = response.headers();
        let says_no = || {
            in_force.has(|classifier| classifier.should_retry_header)
                && matches!(headers.get(&SHOULD_RETRY), Some(value) if value == "false")
        };
        in_force.judged(response.status(), headers).is_some() || says_no()
    }
}

impl InForce<'_> {
    #[inline]
    pub(super) fn of_head(&self, status: StatusCode, headers: &HeaderMap) -> Verdict {
        let looks_further = |classifier: &HttpClassifier| {
            classifier.should_retry_header
                || classifier.limited_403
                || classifier.judge_heads.is_some()
        };
        if self.has(looks_further) {
            self.of_whole_head(status, headers)
        } else {
            self.of_status(status.as_u16())
        }
    }

    fn of_whole_head(&self, status: StatusCode, headers: &HeaderMap) -> Verdict {
        if let Some(verdict) = self.judged(status, headers) {
            return verdict;
        }
        let status = status.as_u16();
        let failure = |reason| Failure::new(reason, Stage::Response).code(i32::from(status));
        if self.has(|classifier| classifier.should_retry_header)
            && status >= 400
            && !self.is_limit_apart(status)
        {
            match headers.get(&SHOULD_RETRY).map(|value| value.as_bytes()) {
                Some(b"true") => return Verdict::Retry(failure(of_status(status)).safe(true)),
                Some(b"false") => return Verdict::Fatal(failure(of_status(status))),
                _ => {}
            }
        }
        if status == 403
            && self.has(|classifier| classifier.limited_403)
            && (headers.contains_key(RETRY_AFTER) || remaining(headers) == Some(0))
        {
            return match self.of_status(429) {
                Verdict::Retry(failure) => Verdict::Retry(failure.code(403)),
                Verdict::Fatal(failure) => Verdict::Fatal(failure.code(403)),
                other => other,
            };
        }
        self.of_status(status)
    }
}

#[cfg(test)]
mod tests {
    use reattempt::{CallContext, Classify};

    use super::*;
    use crate::StatusSet;
    use crate::reasons::HTTP_TOO_MANY_REQUESTS;

    fn verdict_with(classifier: HttpClassifier, status: u16, headers: &[(&str, &str)]) -> Verdict {
        let mut response = http::Response::builder().status(status);
        for (name, value) in headers {
            response = response.header(*name, *value);
        }
        let response = response.body(()).unwrap();
        let context = CallContext::default();
        Classify::<_, std::io::Error>::classify(&classifier, Ok(&response), &context)
    }

    #[test]
    fn a_403_with_a_rate_limit_is_a_429() {
        let github = HttpClassifier::new().limited_403();
        for limited in [
            ("retry-after", "60"),
            ("x-ratelimit-remaining", "0"),
            ("ratelimit-remaining", "0"),
        ] {
            let Verdict::Retry(failure) = verdict_with(github, 403, &[limited]) else {
                panic!("{limited:?}")
            };
            assert_eq!(failure.code, Some(403));
            assert_eq!(failure.reason, HTTP_TOO_MANY_REQUESTS);
            assert!(failure.safe, "it was not processed");
            let default = verdict_with(HttpClassifier::new(), 403, &[limited]);
            assert!(matches!(default, Verdict::Fatal(_)), "{limited:?}");
        }
        for other in [("x-ratelimit-remaining", "4999"), ("x-other", "0")] {
            let verdict = verdict_with(github, 403, &[other]);
            assert!(matches!(verdict, Verdict::Fatal(_)), "{other:?}");
        }
        assert!(matches!(
            verdict_with(github, 401, &[("retry-after", "1")]),
            Verdict::Fatal(_)
        ));
    }

    #[test]
    fn a_limited_403_is_retried_and_safe_only_where_429_is() {
        let github = HttpClassifier::new().limited_403();
        let limited = |classifier| {
            let verdict = verdict_with(classifier, 403, &[("retry-after", "60")]);
            let failure = *verdict.failure().unwrap();
            assert_eq!(failure.reason, HTTP_TOO_MANY_REQUESTS);
            assert_eq!(failure.code, Some(403));
            (matches!(verdict, Verdict::Retry(_)), failure.safe)
        };
        let others = StatusSet::of(&[403, 503]);
        assert_eq!(limited(github.retryable(others)), (false, true));
        assert_eq!(limited(github.safe(others)), (true, false));
    }

    #[test]
    fn the_server_may_say_itself_whether_to_retry() {
        let llm = HttpClassifier::new().should_retry_header();
        let says = |status, value| verdict_with(llm, status, &[("x-should-retry", value)]);
        for status in [400, 404, 409, 503, 529] {
            let Verdict::Retry(failure) = says(status, "true") else {
                panic!("{status}")
            };
            assert!(failure.safe, "{status}");
            assert!(matches!(says(status, "false"), Verdict::Fatal(_)));
        }
        for junk in ["", "TRUE", "yes", "1"] {
            assert!(matches!(says(503, junk), Verdict::Retry(f) if !f.safe));
            assert!(matches!(says(404, junk), Verdict::Fatal(_)), "{junk}");
        }
        assert_eq!(says(200, "true"), Verdict::Success);
        let unasked = verdict_with(HttpClassifier::new(), 503, &[("x-should-retry", "false")]);
        assert!(matches!(unasked, Verdict::Retry(_)));
    }
}
