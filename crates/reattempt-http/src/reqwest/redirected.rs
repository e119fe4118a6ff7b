//! What a redirect inside of an attempt makes unknown.
//!
//! reqwest does not say with an error whether it had followed a redirect. A POST that the server
//! carried out and answered with 303 may so end as "no connection could be made", of the GET that
//! followed; and a 429 of that GET says nothing of the POST. Such a call is not repeated.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::{Request, Response};
use http_body::Body;
use reattempt::{AttemptReporter, HasCallContext, Idempotency};

use crate::TransportFault;

/// A request that must not take effect twice.
pub(super) struct Unrepeatable {
    reporter: AttemptReporter,
    url: Option<reqwest::Url>,
    /// False only for a body that is a stream and was not polled.
    begun: Arc<AtomicBool>,
}

impl Unrepeatable {
    /// `None` for an idempotent request, and without a call to report to.
    pub(super) fn of<B>(request: &Request<B>, begun: &Arc<AtomicBool>) -> Option<Self> {
        let context = request.context()?;
        let idempotency = match context.idempotency() {
            Idempotency::Unknown => request.natural_idempotency(),
            said => said,
        };
        (!idempotency.is_idempotent()).then(|| Self {
            reporter: context.reporter(),
            url: reqwest::Url::parse(&request.uri().to_string()).ok(),
            begun: Arc::clone(begun),
        })
    }

    /// What an error calls "never sent" may be a later hop. A request whose connection was lost
    /// while it waited for a stream counts as in flight already, unless its body was not read.
    pub(super) fn failed(&self, error: &reqwest::Error) {
        let unsent = matches!(
            TransportFault::of(error),
            TransportFault::ConnectFailed
                | TransportFault::NeverSent
                | TransportFault::StreamRefused
                | TransportFault::PastGoaway
        );
        if unsent && self.begun.load(Ordering::Relaxed) {
            self.reporter.forbid();
        }
    }

    /// The response of another URL is not the request's own.
    pub(super) fn answered<B>(&self, response: &Response<B>, url: &reqwest::Url) {
        let same = |own: &reqwest::Url| {
            let (mut own, mut url) = (own.clone(), url.clone());
            own.set_fragment(None);
            url.set_fragment(None);
            own == url
        };
        let failed = !response.status().is_success();
        if failed && !self.url.as_ref().is_some_and(same) {
            self.reporter.forbid();
        }
    }
}

/// A stream that tells whether it was polled.
pub(super) struct Watched<B> {
    pub(super) inner: B,
    pub(super) begun: Arc<AtomicBool>,
}

impl<B: Body + Unpin> Body for Watched<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<http_body::Frame<B::Data>, B::Error>>> {
        self.begun.store(true, Ordering::Relaxed);
        std::pin::Pin::new(&mut self.inner).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.inner.size_hint()
    }
}
