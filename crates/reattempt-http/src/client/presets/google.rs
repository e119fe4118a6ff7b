//! Google's JSON APIs.

use super::{HttpClientLayer, MINUTE, SECOND, and_every_5xx, at_most, full_jitter};
use crate::HttpClassifier;

impl HttpClientLayer {
    /// For Google's JSON APIs, with the figures of its client libraries.
    ///
    /// | setting | value | source |
    /// | --- | --- | --- |
    /// | attempts | 10 | google-cloud-rust, `gax-internal/src/http.rs` |
    /// | time to the response head | 60 s | the same |
    /// | back-off | full jitter from 1 s, doubled, at most 60 s | google-cloud-rust, `gax/src/exponential_backoff.rs`; Cloud Storage, "Retry strategy" |
    /// | which failures | 408, 429, every 5xx, transport errors | Cloud Storage, "Retry strategy" |
    /// | which requests | idempotent ones, or those that were not processed | the same, "Idempotency" |
    /// | all others | as [`standard`](Self::standard) | |
    ///
    /// Google's libraries do not repeat a POST after 429; this does, because 429 states that it was
    /// not processed (RFC 6585). The figures 100 ms, 1.3 and 60 s are those of the gRPC service
    /// configs in googleapis, for use with gRPC.
    ///
    /// ```
    /// use std::time::Duration;
    /// use reattempt_http::HttpClientLayer;
    ///
    /// let layer = HttpClientLayer::google().timeout(Duration::from_secs(300));
    /// # let _ = layer;
    /// ```
    #[must_use]
    pub fn google() -> Self {
        Self::standard()
            .strategy(at_most(10, full_jitter(SECOND, MINUTE)))
            .classifier(HttpClassifier::new().retryable(and_every_5xx(&[408, 429])))
            .timeout(MINUTE)
    }
}
