//! How a request's body is handed to reqwest.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A body that is one piece in memory as such, so that reqwest can repeat it for a redirect; any
/// other as a stream.
pub(super) fn in_one_piece<B>(mut body: B) -> reqwest::Body
where
    B: Body<Data: Into<Bytes>> + Send + Sync + Unpin + 'static,
    B::Error: Into<BoxError>,
{
    if body.is_end_stream() {
        return reqwest::Body::default();
    }
    // A body without a length is a stream: it is not touched before the client sends it.
    let Some(length) = body.size_hint().exact() else {
        return reqwest::Body::wrap(body);
    };
    // Whatever is not ready yet wakes the client, which polls it next.
    let polled = Pin::new(&mut body).poll_frame(&mut Context::from_waker(Waker::noop()));
    let first = match polled {
        Poll::Pending => return reqwest::Body::wrap(body),
        Poll::Ready(None) if length == 0 => return reqwest::Body::default(),
        // Shorter than it said: as a stream it fails.
        Poll::Ready(None) => return reqwest::Body::wrap(body),
        Poll::Ready(Some(frame)) => frame.map(|frame| frame.map_data(Into::into)),
    };
    if body.is_end_stream() {
        let whole = first.as_ref().ok().and_then(Frame::data_ref);
        if let Some(whole) = whole.filter(|whole| whole.len() as u64 == length) {
            return reqwest::Body::from(Bytes::clone(whole));
        }
    }
    reqwest::Body::wrap(Begun {
        first: Some(first.map_err(Into::into)),
        rest: body,
    })
}

/// A body whose first frame was read already.
struct Begun<B> {
    first: Option<Result<Frame<Bytes>, BoxError>>,
    rest: B,
}

impl<B> Body for Begun<B>
where
    B: Body<Data: Into<Bytes>> + Unpin,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(first));
        }
        let rest = Pin::new(&mut self.rest).poll_frame(cx);
        rest.map(|frame| {
            Some(
                frame?
                    .map(|frame| frame.map_data(Into::into))
                    .map_err(Into::into),
            )
        })
    }

    fn is_end_stream(&self) -> bool {
        self.first.is_none() && self.rest.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let first = self.first.as_ref().and_then(|first| first.as_ref().ok());
        let first = first.and_then(Frame::data_ref).map_or(0, Bytes::len) as u64;
        let rest = self.rest.size_hint();
        let mut hint = SizeHint::new();
        hint.set_lower(rest.lower().saturating_add(first));
        if let Some(upper) = rest.upper() {
            hint.set_upper(upper.saturating_add(first));
        }
        hint
    }
}
