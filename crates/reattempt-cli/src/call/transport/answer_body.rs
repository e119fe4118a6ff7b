//! The body of an answer from the wire.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use h2::Reason;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use super::http1::Answered;
use super::request_body::EndOfRequest;

/// A body that comes from the connection, or, for an answer that was made on this side, none.
#[derive(Debug, Default)]
pub(crate) struct AnswerBody {
    incoming: Option<Incoming>,
    /// What of the request may still be on its way.
    request: Option<EndOfRequest>,
    /// Whom to tell that nobody reads it any more.
    answered: Option<Answered>,
}

impl AnswerBody {
    pub(super) const fn of_http1(incoming: Incoming, answered: Answered) -> Self {
        Self {
            incoming: Some(incoming),
            request: None,
            answered: Some(answered),
        }
    }

    pub(super) const fn of_http2(incoming: Incoming, request: EndOfRequest) -> Self {
        Self {
            incoming: Some(incoming),
            request: Some(request),
            answered: None,
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
        // The connection reads what is left of it, or closes: it has to hear first that nobody else does.
        self.incoming = None;
        if let Some(answered) = self.answered.take() {
            answered.set();
        }
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match &mut self.incoming {
            Some(incoming) => Pin::new(incoming).poll_frame(cx),
            None => Poll::Ready(None),
        }
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
