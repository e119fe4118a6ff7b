//! A body that ends at its deadline.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use reattempt::Elapsed;
use reattempt::timer::Timer;

use super::limit::Armed;

/// How a body ends at the deadline.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot end a body with the error `{E}` at its deadline"
)]
pub trait OnBodyElapsed<E> {
    /// The error of the wrapped body.
    type Error;
    /// The deadline has passed: trailers to end with, or an error.
    fn elapsed(&self, elapsed: Elapsed) -> Result<HeaderMap, Self::Error>;
    /// The body itself failed.
    fn failed(&self, error: E) -> Self::Error;

    /// True for an end (trailers, or an error) that is not the response's own, but may be caused by
    /// another timer for the same deadline: if the deadline has passed when it arrives, it is
    /// replaced by [`elapsed`](Self::elapsed). False by default.
    fn is_echo(&self, end: Result<&HeaderMap, &E>) -> bool {
        let _ = end;
        false
    }
}

/// Ends with [`DeadlineBodyError::Elapsed`].
#[derive(Clone, Copy, Debug, Default)]
pub struct AsBodyError;

impl<E> OnBodyElapsed<E> for AsBodyError {
    type Error = DeadlineBodyError<E>;

    fn elapsed(&self, elapsed: Elapsed) -> Result<HeaderMap, Self::Error> {
        Err(DeadlineBodyError::Elapsed(elapsed))
    }

    fn failed(&self, error: E) -> Self::Error {
        DeadlineBodyError::Body(error)
    }
}

/// Why a [`DeadlineBody`] failed. It is an [`Error`](std::error::Error) if the body's own error is
/// one, which a `Box<dyn Error>` is not.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeadlineBodyError<E> {
    /// The body itself failed.
    #[error("the response body failed")]
    Body(#[source] E),
    /// The deadline passed before the body's end. The server has received the request by then, so
    /// for a request that is not idempotent the timeout is always ambiguous.
    #[error("the response body did not end in time: {0}")]
    Elapsed(#[source] Elapsed),
}

pin_project! {
    /// A response body that ends at the call's deadline. The timer is armed only once the wrapped
    /// body is pending; at the deadline the wrapped body is dropped, which cancels its stream if
    /// the request has been sent to its end. Of the frames read after the deadline, only the last
    /// one is passed on.
    pub struct DeadlineBody<B, M = AsBodyError> {
        #[pin]
        inner: Option<B>,
        timer: Timer,
        armed: Option<Armed>,
        on_elapsed: M,
    }
}

impl<B, M> DeadlineBody<B, M> {
    pub(super) fn new(body: B, armed: Option<Armed>, on_elapsed: M) -> Self {
        Self {
            inner: Some(body),
            timer: Timer::default(),
            armed,
            on_elapsed,
        }
    }
}

impl<B: Default, M: Default> Default for DeadlineBody<B, M> {
    fn default() -> Self {
        Self {
            inner: Some(B::default()),
            timer: Timer::default(),
            armed: None,
            on_elapsed: M::default(),
        }
    }
}

impl<B, M> fmt::Debug for DeadlineBody<B, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeadlineBody")
            .field("armed", &self.armed)
            .finish_non_exhaustive()
    }
}

impl<B, M> Body for DeadlineBody<B, M>
where
    B: Body,
    M: OnBodyElapsed<B::Error>,
{
    type Data = B::Data;
    type Error = M::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, M::Error>>> {
        let mut this = self.project();
        let Some(mut inner) = this.inner.as_mut().as_pin_mut() else {
            return Poll::Ready(None);
        };
        // The frame first: at the exact instant of the deadline it wins.
        if let Poll::Ready(frame) = inner.as_mut().poll_frame(cx) {
            let late = |armed: &Armed, echo| {
                let now = tokio::time::Instant::now().into_std();
                now > armed.at || (echo && now == armed.at)
            };
            let ends = this.armed.as_ref().is_some_and(|armed| match &frame {
                Some(Ok(frame)) => match frame.trailers_ref() {
                    Some(trailers) => this.on_elapsed.is_echo(Ok(trailers)) && late(armed, true),
                    // A server that sends faster than we read never lets the body be pending, so
                    // the timer is never reached: check the clock for each frame but the last.
                    None => late(armed, false) && !inner.is_end_stream(),
                },
                Some(Err(error)) => this.on_elapsed.is_echo(Err(error)) && late(armed, true),
                None => false,
            });
            if !ends {
                return Poll::Ready(frame.map(|f| f.map_err(|e| this.on_elapsed.failed(e))));
            }
        } else {
            let Some(armed) = this.armed else {
                return Poll::Pending;
            };
            this.timer.set_to(armed.at);
            ready!(this.timer.poll(cx));
        }
        let Some(armed) = this.armed else {
            return Poll::Pending;
        };
        this.inner.set(None);
        Poll::Ready(Some(
            this.on_elapsed
                .elapsed(armed.elapsed())
                .map(Frame::trailers),
        ))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.inner
            .as_ref()
            .map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}
