//! The body that the caller receives: the part already read, then the rest.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::StatusCode;
use http_body::{Body, Frame, SizeHint};
use reattempt::AttemptReporter;

use super::held::Held;
use crate::service::HttpService;
use crate::service::reader::Reader;
use crate::service_answer::BodyEnd;

/// An unchanged response body whose beginning was read in advance. Created by
/// [`ServiceErrorLayer`](super::ServiceErrorLayer).
pub struct ServiceBody<B: Body> {
    held: Held<B::Error>,
    /// `None` when it has ended.
    rest: Option<B>,
    open: Option<OpenAnswer>,
}

/// A response that was successful as far as it was read.
pub(super) struct OpenAnswer {
    pub(super) service: HttpService,
    pub(super) status: StatusCode,
    pub(super) reader: Reader,
    pub(super) reporter: AttemptReporter,
}

impl OpenAnswer {
    /// Reports the final result.
    fn finish(self, end: BodyEnd) {
        let answer = self.reader.answer(end);
        let verdict = self.service.verdict(self.status, &answer);
        self.reporter.finish(&verdict);
    }
}

impl<B: Body> ServiceBody<B> {
    pub(super) fn new(held: Held<B::Error>, rest: B, open: Option<OpenAnswer>) -> Self {
        let rest = if held.is_broken() { None } else { Some(rest) };
        Self { held, rest, open }
    }
}

// The stored error is never pinned.
impl<B: Body + Unpin> Unpin for ServiceBody<B> {}

impl<B: Body> fmt::Debug for ServiceBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceBody")
            .field("held", &self.held.len())
            .field("finished", &self.open.is_none())
            .finish_non_exhaustive()
    }
}

impl<B> Body for ServiceBody<B>
where
    B: Body<Data = Bytes> + Unpin,
{
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = self.get_mut();
        if let Some(frame) = this.held.next() {
            return Poll::Ready(Some(frame));
        }
        let Some(rest) = &mut this.rest else {
            return Poll::Ready(None);
        };
        let polled = ready!(Pin::new(&mut *rest).poll_frame(cx));
        if let Some(open) = &mut this.open {
            let end = match &polled {
                Some(Ok(frame)) => {
                    if let Some(data) = frame.data_ref() {
                        open.reader.push(data);
                    }
                    // A reader may stop at the last frame, without polling for the end.
                    let over =
                        open.reader.is_decided(open.status.is_success()) || rest.is_end_stream();
                    over.then_some(BodyEnd::Whole)
                }
                Some(Err(_)) => Some(BodyEnd::Broken),
                None => Some(BodyEnd::Whole),
            };
            if let Some((open, end)) = end.and_then(|end| Some((this.open.take()?, end))) {
                open.finish(end);
            }
        }
        if !matches!(polled, Some(Ok(_))) {
            this.rest = None;
        }
        Poll::Ready(polled)
    }

    fn is_end_stream(&self) -> bool {
        self.held.is_empty() && self.rest.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let held = u64::try_from(self.held.len()).unwrap_or(u64::MAX);
        let rest = self
            .rest
            .as_ref()
            .map_or_else(|| SizeHint::with_exact(0), Body::size_hint);
        let mut hint = SizeHint::new();
        hint.set_lower(rest.lower().saturating_add(held));
        if let Some(upper) = rest.upper() {
            hint.set_upper(upper.saturating_add(held));
        }
        hint
    }
}
