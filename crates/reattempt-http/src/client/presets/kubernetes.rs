//! The Kubernetes API server.

use std::time::Duration;

use super::{HttpClientLayer, MIB, SECOND, at_most, full_jitter};
use crate::body::BufferBudget;
use crate::{HttpClassifier, StatusSet};

impl HttpClientLayer {
    /// For the Kubernetes API server, below `kube::Client` for example.
    ///
    /// | setting | value | source |
    /// | --- | --- | --- |
    /// | attempts | 11 | client-go, `rest/request.go`: 10 retries |
    /// | which failures | 429, 500, 503, 504; 502 of a load balancer; transport errors | API conventions, "HTTP Status codes" |
    /// | delay | `Retry-After` up to 30 s; else full jitter from 1 s, doubled, at most 30 s | API conventions ("wait at least that long", "retry with exponential backoff"); client-go's 1 s after a lost connection |
    /// | which requests | reads; any other only if it was not processed: 429, or never sent | client-go: "not automatically retrying write operations, as they are not idempotent" |
    /// | time to the response head | 70 s for all attempts together | kube-apiserver's `--request-timeout`: 60 s, in which it also calls webhooks of 10 to 30 s each |
    /// | time of the response body | unlimited: watches, logs | |
    /// | bytes of a request body kept | 2 MiB a call, 64 MiB in all; a larger body is sent once | etcd's `--max-request-bytes`: 1.5 MiB an object, which is longer as JSON |
    /// | all others | as [`standard`](Self::standard) | |
    ///
    /// A PUT or DELETE whose answer was lost is not repeated ([`repeat_only_reads`]): a controller
    /// may have changed or made the object anew in between. A write that is safe, such as a
    /// server-side apply, can be marked by the caller. client-go repeats a write after any 5xx with
    /// `Retry-After`; this does not, because a 5xx does not say that nothing was done.
    ///
    /// A watch that ends later ends for the caller, who continues it from its last resource
    /// version.
    ///
    /// [`repeat_only_reads`]: Self::repeat_only_reads
    ///
    /// ```
    /// use reattempt_http::HttpClientLayer;
    /// use tower::ServiceBuilder;
    ///
    /// let stack = ServiceBuilder::new().layer(HttpClientLayer::kubernetes());
    /// # let _ = stack;
    /// ```
    #[must_use]
    pub fn kubernetes() -> Self {
        let retryable = StatusSet::of(&[429, 500, 502, 503, 504]);
        Self::standard()
            .strategy(at_most(11, full_jitter(SECOND, MOST)))
            .classifier(HttpClassifier::new().retryable(retryable))
            .timeout(Duration::from_secs(70))
            .body_limit(2 * MIB, BufferBudget::new(64 * MIB))
            .repeat_only_reads()
    }
}

const MOST: Duration = Duration::from_secs(30);
