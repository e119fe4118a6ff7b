//! APIs of language models, in the style of OpenAI and Anthropic.

use std::time::Duration;

use reattempt::backoff::{Backoff, Jitter};

use super::{HttpClientLayer, MIB, MINUTE, and_every_5xx, at_most};
use crate::body::BufferBudget;
use crate::retry_after::BeyondCap;
use crate::{HttpClassifier, HttpPushback, IdempotencyKeyLayer};

impl HttpClientLayer {
    /// For APIs of language models, with the figures of the SDKs of OpenAI and Anthropic.
    ///
    /// | setting | value | source |
    /// | --- | --- | --- |
    /// | attempts | 3 | both SDKs, `_constants.py`: 2 retries |
    /// | back-off | 0.5 s, doubled, at most 8 s, up to a quarter shorter | the same; `_calculate_retry_timeout` |
    /// | which failures | 408, 409, 429, every 5xx (Anthropic's 529 too), transport errors; `x-should-retry: true` or `false` overrides the status | both SDKs, `_should_retry` |
    /// | server's delay | `retry-after-ms`, else `Retry-After` (whole numbers or a date, while OpenAI's SDK also reads decimals), up to 2 min and 250 ms later (zero means now; the SDKs then wait as without one); beyond it the response is returned | OpenAI's SDK; Anthropic's honours 60 s, and beyond it sends again by its own back-off |
    /// | time to the response head | 10 min for all attempts together | both SDKs: 10 min an attempt |
    /// | which requests | idempotent ones, or those that were not processed, or with `x-should-retry: true` | RFC 9110; see below |
    /// | `Idempotency-Key` | makes a request idempotent | the caller sends it to a server that honours it |
    /// | bytes of a request body kept | 32 MiB a call, 256 MiB in all; a larger body is sent once | prompts with images; Anthropic, "Errors": a request has at most 32 MB. Long pieces are kept by reference, not copied |
    /// | throttle | as [`standard`](Self::standard), but 429 neither costs nor needs a token | a limit of the caller's own key is no outage |
    /// | all others | as [`standard`](Self::standard) | |
    ///
    /// The SDKs repeat every POST after every failure of this list. This repeats a POST only after
    /// 429, if it was never sent, or if the server says so itself with `x-should-retry: true`;
    /// otherwise an answer that was lost could be computed and billed twice, and what an agent
    /// asked for be done twice. Where that is acceptable, mark the request as idempotent
    /// (`set_idempotency` on its context; with reqwest `send_with(..).idempotent()`). No key is
    /// made: neither SDK sends one to these APIs.
    ///
    /// ```
    /// use http::Request;
    /// use reattempt::{HasCallContext, Idempotency};
    /// use reattempt_http::HttpClientLayer;
    ///
    /// let layer = HttpClientLayer::llm();
    /// let mut request = Request::post("https://llm.example/v1/chat/completions").body(())?;
    /// request.context_mut().set_idempotency(Idempotency::Idempotent);
    /// # let _ = layer;
    /// # Ok::<(), http::Error>(())
    /// ```
    #[must_use]
    pub fn llm() -> Self {
        let backoff = Backoff::exponential(Duration::from_millis(500), Duration::from_secs(8));
        let classifier = HttpClassifier::new()
            .retryable(and_every_5xx(&[408, 409, 429]))
            .should_retry_header();
        let pushback = HttpPushback::new()
            .rate_limits(false)
            .cap(2 * MINUTE, BeyondCap::Stop)
            .spread(Duration::from_millis(250));
        Self::standard()
            .strategy(at_most(3, backoff.jitter(Jitter::Shortened(0.25))))
            .classifier(classifier)
            .pushback(pushback)
            .timeout(10 * MINUTE)
            .limits_apart()
            .body_limit(32 * MIB, BufferBudget::new(256 * MIB))
            .idempotency_keys(IdempotencyKeyLayer::new())
    }
}
