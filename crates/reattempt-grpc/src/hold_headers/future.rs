use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Buf;
use http::{HeaderMap, Response};
use http_body::{Body, Frame};
use pin_project_lite::pin_project;
use reattempt::timer::Timer;

use super::body::{First, HeldBody};
use crate::head::status_in_head;
use crate::metadata::append;
use crate::{Code, GRPC_STATUS, RETRY_PUSHBACK_MS};

/// How long headers are held.
#[derive(Clone, Copy, Debug)]
pub(super) struct Until {
    pub(super) at_most: Duration,
    pub(super) deadline: Option<Instant>,
}

impl Until {
    /// `None` if there is no time to wait.
    fn timer(self) -> Option<Timer> {
        let now = tokio::time::Instant::now();
        let left = self.deadline.map_or(Duration::MAX, |deadline| {
            deadline.saturating_duration_since(now.into_std())
        });
        let time = self.at_most.min(left);
        (!time.is_zero()).then(|| Timer::after(time))
    }
}

/// Headers that are held, and the body that follows them.
struct Held<B> {
    response: Response<B>,
    until: Until,
    timer: Option<Timer>,
}

/// The number of empty frames skipped before the task yields.
const MOST_EMPTY: u32 = 32;

/// What to do with the headers.
enum Look<B: Body> {
    /// Only trailers with a status followed.
    Status(HeaderMap),
    /// The headers are released, with this frame in front of the body.
    Goes(First<B>),
}

impl<B: Body + Unpin> Held<B> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Look<B>> {
        for _ in 0..MOST_EMPTY {
            let Poll::Ready(frame) = Pin::new(self.response.body_mut()).poll_frame(cx) else {
                return self.poll_time(cx);
            };
            let frame = match frame {
                Some(Ok(frame)) => frame,
                ended => return Poll::Ready(Look::Goes(Some(ended))),
            };
            // Data without content neither is nor begins a message.
            if frame.data_ref().is_some_and(|data| !data.has_remaining()) {
                continue;
            }
            return Poll::Ready(match frame.into_trailers() {
                Ok(trailers) if is_failure(&trailers) => Look::Status(trailers),
                Ok(trailers) => Look::Goes(Some(Some(Ok(Frame::trailers(trailers))))),
                Err(frame) => Look::Goes(Some(Some(Ok(frame)))),
            });
        }
        cx.waker().wake_by_ref();
        self.poll_time(cx)
    }

    fn poll_time(&mut self, cx: &mut Context<'_>) -> Poll<Look<B>> {
        if self.timer.is_none() {
            self.timer = self.until.timer();
        }
        if let Some(timer) = &mut self.timer {
            ready!(timer.poll(cx));
        }
        Poll::Ready(Look::Goes(None))
    }
}

fn is_failure(trailers: &HeaderMap) -> bool {
    let status = trailers.get(GRPC_STATUS);
    status.is_some_and(|status| Code::from_header(status) != Code::Ok)
}

/// Merges headers and trailers into one block, as in a Trailers-Only response. For gRPC's own
/// fields (status, message) the trailers win. Pushback counts in trailers only (A6, Pushback).
fn merge(headers: &mut HeaderMap, trailers: HeaderMap) {
    headers.remove(RETRY_PUSHBACK_MS);
    let said: Vec<_> = trailers
        .keys()
        .filter(|name| name.as_str().starts_with("grpc-"))
        .cloned()
        .collect();
    for name in said {
        headers.remove(name);
    }
    append(headers, trailers);
}

pin_project! {
    /// The future of [`HoldHeaders`](super::HoldHeaders).
    pub struct HoldHeadersFuture<F, B> {
        #[pin]
        state: State<F, B>,
    }
}

pin_project! {
    #[project = StateProj]
    #[project_replace = StateOwned]
    enum State<F, B> {
        InFlight {
            #[pin]
            inner: F,
            // `None` for a call whose headers are not held.
            until: Option<Until>,
        },
        Holding { held: Held<B> },
        Done,
    }
}

impl<F, B> HoldHeadersFuture<F, B> {
    pub(super) const fn new(inner: F, until: Option<Until>) -> Self {
        Self {
            state: State::InFlight { inner, until },
        }
    }
}

impl<F, B> fmt::Debug for HoldHeadersFuture<F, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HoldHeadersFuture")
            .field("holds", &matches!(self.state, State::Holding { .. }))
            .finish_non_exhaustive()
    }
}

impl<F, B, E> Future for HoldHeadersFuture<F, B>
where
    F: Future<Output = Result<Response<B>, E>>,
    B: Body + Unpin,
{
    type Output = Result<Response<HeldBody<B>>, E>;

    /// # Panics
    ///
    /// When it is polled after it returned a response whose headers were held.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        if let StateProj::InFlight { inner, until } = state.as_mut().project() {
            let response = ready!(inner.poll(cx))?;
            let goes_on = status_in_head(&response).is_none() && !response.body().is_end_stream();
            let Some(until) = until.filter(|_| goes_on) else {
                return Poll::Ready(Ok(pass(response, None)));
            };
            let held = Held {
                response,
                until,
                timer: None,
            };
            state.set(State::Holding { held });
        }
        let StateProj::Holding { held } = state.as_mut().project() else {
            panic!("`HoldHeadersFuture` polled after completion")
        };
        let look = ready!(held.poll(cx));
        let StateOwned::Holding { held } = state.project_replace(State::Done) else {
            panic!("`HoldHeadersFuture` polled after completion")
        };
        let response = held.response;
        Poll::Ready(Ok(match look {
            Look::Goes(first) => pass(response, first),
            Look::Status(trailers) => {
                let mut response = response.map(|_| HeldBody::default());
                merge(response.headers_mut(), trailers);
                response
            }
        }))
    }
}

fn pass<B: Body>(response: Response<B>, first: First<B>) -> Response<HeldBody<B>> {
    // A body that has ended is not polled again.
    let goes_on = !matches!(first, Some(None | Some(Err(_))));
    response.map(|body| HeldBody::new(first, goes_on.then_some(body)))
}
