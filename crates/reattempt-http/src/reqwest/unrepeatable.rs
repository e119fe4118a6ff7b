//! Requests that must not take effect twice, and the redirects that hide whether they did.
//!
//! reqwest does not say with an error whether it had followed a redirect. A POST that the server
//! carried out and answered with 303 may so end as "no connection could be made", of the GET that
//! followed; and a 429 of that GET says nothing of the POST.
//!
//! So the body of such a request is a stream: if it was never read, the first hop sent nothing, and
//! there was no second; see [`Watched`] for one without content. reqwest cannot repeat a stream for
//! a redirect that keeps the method (307, 308), and returns the response. That response states that
//! the request was not carried out, so the request is sent once more, now with its body in one
//! piece, and reqwest follows.

use std::sync::Arc;

use bytes::Bytes;
use http::header::LOCATION;
use http::{HeaderMap, Request, StatusCode};
use http_body::Body;
use reattempt::{AttemptReporter, CallContext, HasCallContext, Idempotency};

use super::watched::{Reading, Watched};
use crate::TransportFault;

/// A request that must not take effect twice.
pub(super) struct Unrepeatable {
    reporter: AttemptReporter,
    url: Option<reqwest::Url>,
    reading: Arc<Reading>,
    /// A redirect was followed, as far as the client's policy tells.
    followed: bool,
    /// The request without its body, if it may be sent once more for a redirect.
    again: Option<reqwest::Request>,
}

impl Unrepeatable {
    /// `None` for an idempotent request, and without a call to report to.
    pub(super) fn of<B>(request: &Request<B>) -> Option<Self> {
        let context = request.context()?;
        let idempotency = match context.idempotency() {
            Idempotency::Unknown => request.natural_idempotency(),
            said => said,
        };
        (!idempotency.is_idempotent()).then(|| Self {
            reporter: context.reporter(),
            url: None,
            reading: Arc::default(),
            followed: false,
            again: None,
        })
    }

    /// The request for reqwest, with its body as a stream; `follows` if a redirect that keeps the
    /// method is to be followed.
    pub(super) fn begin<B>(
        &mut self,
        request: Request<B>,
        follows: bool,
    ) -> Result<reqwest::Request, reqwest::Error>
    where
        B: Body<Data: Into<Bytes>> + Send + Sync + Unpin + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (mut head, body) = request.into_parts();
        // A clone of the context below would look like a call of its own.
        head.extensions.remove::<CallContext>();
        let repeatable = follows && body.size_hint().exact().is_some_and(|length| length > 0);
        let mut sent = reqwest::Request::try_from(Request::from_parts(head, ""))?;
        *sent.body_mut() = None;
        self.url = Some(sent.url().clone());
        self.again = if repeatable { sent.try_clone() } else { None };
        let body = Watched::new(body, &self.reading, repeatable);
        *sent.body_mut() = Some(reqwest::Body::wrap(body));
        Ok(sent)
    }

    /// The client has the request; it sends nothing before it is polled.
    pub(super) fn handed_over(&self) {
        self.reading.handed_over();
    }

    /// The request once more, if the server has redirected it without carrying it out. Within its
    /// origin only.
    pub(super) fn redirected(&mut self, response: &reqwest::Response) -> Option<reqwest::Request> {
        let mut again = self.again.take()?;
        // Only these say that the request was not carried out.
        let refused = matches!(
            response.status(),
            StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT
        );
        let own = refused && !self.followed && self.is_own(response.url());
        if !own || !is_within_origin(response.url(), response.headers()) {
            return None;
        }
        *again.body_mut() = Some(self.reading.take_whole()?.into());
        Some(again)
    }

    pub(super) const fn followed(&mut self) {
        self.followed = true;
    }

    /// What an error calls "never sent" may be a later hop.
    pub(super) fn failed(&self, error: &reqwest::Error) {
        let unsent = matches!(
            TransportFault::of(error),
            TransportFault::ConnectFailed
                | TransportFault::NeverSent
                | TransportFault::StreamRefused
                | TransportFault::PastGoaway
        );
        if unsent && self.reading.has_begun() {
            self.reporter.in_doubt();
        }
    }

    /// The response to a later hop is not the request's own. It may be of the same URL.
    pub(super) fn answered(&self, response: &reqwest::Response) {
        let own = !self.followed && self.is_own(response.url());
        if !response.status().is_success() && !own {
            self.reporter.in_doubt();
        }
    }

    fn is_own(&self, url: &reqwest::Url) -> bool {
        self.url.as_ref().is_some_and(|own| {
            let (mut own, mut url) = (own.clone(), url.clone());
            own.set_fragment(None);
            url.set_fragment(None);
            own == url
        })
    }
}

/// Whether the response redirects within the origin that it came from.
fn is_within_origin(from: &reqwest::Url, headers: &HeaderMap) -> bool {
    let to = headers.get(LOCATION).and_then(|to| to.to_str().ok());
    let to = to.and_then(|to| from.join(to).ok());
    to.is_some_and(|to| to.origin() == from.origin())
}
