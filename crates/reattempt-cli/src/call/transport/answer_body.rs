//! The body of a response from the connection.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::Reason;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use super::error::TransportError;
use super::request_body::{EndOfRequest, Length};

/// hyper treats this reset as the end of a body, but it is only valid after the body's end (RFC
/// 9113, section 8.1).
#[derive(Debug, thiserror::Error)]
#[error("the server reset the stream (NO_ERROR) before the end of its answer")]
struct CutOff;

/// A body from the connection; empty for a response that was created on this side.
#[derive(Debug, Default)]
pub(crate) struct AnswerBody {
    incoming: Option<Incoming>,
    /// The part of the request that may still be in flight.
    request: Option<EndOfRequest>,
    /// Until it is dropped the connection is not idle.
    reading: Option<Arc<()>>,
    /// Whether its last frame marks the end.
    says_its_end: bool,
}

impl AnswerBody {
    pub(super) const fn of_http1(incoming: Incoming, reading: Arc<()>) -> Self {
        Self {
            incoming: Some(incoming),
            request: None,
            reading: Some(reading),
            says_its_end: false,
        }
    }

    /// gRPC answers end with their status, so one without a status is detected by that.
    pub(super) fn of_http2(incoming: Incoming, request: EndOfRequest, length: Length) -> Self {
        Self {
            incoming: Some(incoming),
            request: Some(request),
            reading: None,
            says_its_end: length == Length::Said,
        }
    }
}

impl Drop for AnswerBody {
    fn drop(&mut self) {
        if let Some(request) = self.request.take() {
            let reason = if self.is_end_stream() {
                Reason::NO_ERROR
            } else {
                Reason::CANCEL
            };
            request.with(reason);
        }
        // The connection reads the rest of the answer, or closes. It must first be known that this
        // side no longer reads.
        self.incoming = None;
        self.reading = None;
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = TransportError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, TransportError>>> {
        let says_its_end = self.says_its_end;
        let Some(incoming) = &mut self.incoming else {
            return Poll::Ready(None);
        };
        let frame = ready!(Pin::new(&mut *incoming).poll_frame(cx));
        if frame.is_none() && says_its_end && !incoming.is_end_stream() {
            // Reported once.
            self.says_its_end = false;
            return Poll::Ready(Some(Err(CutOff.into())));
        }
        Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming
            .as_ref()
            .map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}
