//! Follows a call, or one of its attempts, until its status is known: from the head, the trailers,
//! or an error.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Buf;
use http::Response;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use reattempt::{CallDeadline, RetryReason};
use tracing::Span;
use tracing::span::Entered;

use crate::head::{STATUS, status_in_head};
use crate::metadata::first;
use crate::{BodyErrorCode, Code, ErrorCodes};

#[cfg(test)]
pub(crate) mod tests;

/// Receives the events of a followed call or attempt. Exactly one of `closed` and `ended` is
/// called; neither is if the caller drops the future or the body first, which drops this value.
pub trait Follow: Sized {
    /// The span that the followed future runs in.
    fn span(&self) -> Option<&Span> {
        None
    }

    /// The head has no status: the trailers will.
    fn opened(&mut self) {}

    /// Data of the response arrived.
    fn received(&mut self, data: &impl Buf) {
        let _ = data;
    }

    /// There is no stream to follow: the head has the status, or the call returned an error.
    fn closed(self, code: Code);

    /// The stream ended with a status, or failed.
    fn ended(self, code: Code);

    /// The stream failed because the request did, for this reason.
    fn request_failed(self, code: Code, _: RetryReason) {
        self.ended(code);
    }
}

/// The code, if the head or the absence of a body determines it. A response that ends with a head
/// without a status is UNKNOWN, which is stored for the classifier above.
fn judged<B: Body>(response: &mut Response<B>) -> Option<Code> {
    let code = status_in_head(response);
    if code.is_none() && response.body().is_end_stream() {
        response.extensions_mut().insert(Code::Unknown);
        return Some(Code::Unknown);
    }
    code
}

/// The status of a call dropped before its status was known: by its deadline, or by its caller.
pub(crate) fn code_of_dropped(limit: Option<CallDeadline>) -> Code {
    let now = || tokio::time::Instant::now().into_std();
    match limit {
        Some(limit) if limit.enforced && limit.passed(now()) => Code::DeadlineExceeded,
        _ => Code::Cancelled,
    }
}

pin_project! {
    /// The future of a layer that follows calls or attempts. It resolves to the head of the
    /// response.
    pub struct FollowedFuture<F, T, C, R>
    where
        T: Follow,
    {
        #[pin]
        inner: Option<F>,
        following: Option<Following<T, R>>,
        call_error: C,
    }

    impl<F, T, C, R> PinnedDrop for FollowedFuture<F, T, C, R>
    where
        T: Follow,
    {
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            // What happens at the drop belongs to the span.
            let _inside = enter(this.following);
            this.inner.set(None);
        }
    }
}

/// The follower, and how errors of the stream are mapped.
struct Following<T, R> {
    follower: T,
    body_error: R,
}

fn enter<T: Follow, R>(following: &Option<Following<T, R>>) -> Option<Entered<'_>> {
    let span = following.as_ref().and_then(|f| f.follower.span());
    span.map(Span::enter)
}

impl<F, T: Follow, C, R> FollowedFuture<F, T, C, R> {
    pub(crate) fn new(inner: F, follower: Option<T>, errors: ErrorCodes<C, R>) -> Self {
        Self {
            inner: Some(inner),
            following: follower.map(|follower| Following {
                follower,
                body_error: errors.body,
            }),
            call_error: errors.call,
        }
    }
}

impl<F, T: Follow, C, R> fmt::Debug for FollowedFuture<F, T, C, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FollowedFuture").finish_non_exhaustive()
    }
}

impl<F, T, C, R, B, E> Future for FollowedFuture<F, T, C, R>
where
    F: Future<Output = Result<Response<B>, E>>,
    T: Follow,
    C: BodyErrorCode<E>,
    B: Body,
{
    type Output = Result<Response<FollowedBody<B, T, R>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let mut outcome = {
            let _inside = enter(this.following);
            let inner = this.inner.as_pin_mut().expect("there until it is dropped");
            ready!(inner.poll(cx))
        };
        let mut following = this.following.take();
        let code = match &mut outcome {
            Ok(response) => judged(response),
            Err(error) => Some(this.call_error.code(error)),
        };
        match code {
            Some(code) => {
                if let Some(following) = following.take() {
                    following.follower.closed(code);
                }
            }
            None => {
                if let Some(following) = &mut following {
                    following.follower.opened();
                }
            }
        }
        Poll::Ready(outcome.map(|response| {
            response.map(|inner| FollowedBody {
                // A body that has ended is followed no further.
                at_end: false,
                inner: Some(inner),
                following,
            })
        }))
    }
}

pin_project! {
    /// A response stream that is followed to its status.
    ///
    /// A stream that ends without a status violates the gRPC protocol and counts as INTERNAL.
    pub struct FollowedBody<B, T, R>
    where
        T: Follow,
    {
        #[pin]
        inner: Option<B>,
        following: Option<Following<T, R>>,
        at_end: bool,
    }

    impl<B, T, R> PinnedDrop for FollowedBody<B, T, R>
    where
        T: Follow,
    {
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            {
                // What happens at the drop belongs to the span.
                let _inside = enter(this.following);
                this.inner.set(None);
            }
            // A reader that knows from `is_end_stream` that the body ended need not poll for the
            // end.
            if *this.at_end {
                if let Some(following) = this.following.take() {
                    following.follower.ended(Code::Internal);
                }
            }
        }
    }
}

impl<B: Default, T: Follow, R> Default for FollowedBody<B, T, R> {
    fn default() -> Self {
        Self {
            inner: Some(B::default()),
            following: None,
            at_end: false,
        }
    }
}

impl<B, T: Follow, R> fmt::Debug for FollowedBody<B, T, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FollowedBody")
            .field("open", &self.following.is_some())
            .finish_non_exhaustive()
    }
}

impl<B, T, R> Body for FollowedBody<B, T, R>
where
    B: Body,
    T: Follow,
    R: BodyErrorCode<B::Error>,
{
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let mut this = self.project();
        let Some(mut inner) = this.inner.as_mut().as_pin_mut() else {
            return Poll::Ready(None);
        };
        let polled = {
            let _inside = enter(this.following);
            ready!(inner.as_mut().poll_frame(cx))
        };
        let Some(following) = this.following.as_mut() else {
            return Poll::Ready(polled);
        };
        let code = match &polled {
            Some(Ok(frame)) => {
                if let Some(data) = frame.data_ref() {
                    following.follower.received(data);
                }
                frame.trailers_ref().map(|trailers| {
                    first(trailers, &STATUS).map_or(Code::Unknown, Code::from_header)
                })
            }
            Some(Err(error)) => {
                let code = following.body_error.code(error);
                if let Some(reason) = following.body_error.request_failed(error) {
                    if let Some(following) = this.following.take() {
                        following.follower.request_failed(code, reason);
                    }
                    return Poll::Ready(polled);
                }
                Some(code)
            }
            None => Some(Code::Internal),
        };
        match code {
            Some(code) => {
                if let Some(following) = this.following.take() {
                    following.follower.ended(code);
                }
            }
            None => *this.at_end = inner.is_end_stream(),
        }
        Poll::Ready(polled)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let none = || SizeHint::with_exact(0);
        self.inner.as_ref().map_or_else(none, Body::size_hint)
    }
}
