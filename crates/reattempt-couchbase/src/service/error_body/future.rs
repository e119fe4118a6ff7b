//! Waits for a response, and reads as much of it as the verdict needs.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::CONTENT_ENCODING;
use http::response::Parts;
use http::{HeaderMap, Response};
use http_body::Body;
use pin_project_lite::pin_project;
use reattempt::timer::Timer;
use reattempt::{AttemptReporter, Stage};

use super::body::{OpenAnswer, ServiceBody};
use super::held::Held;
use super::{Bounds, FAILED, GOOD, ServiceErrorLayer};
use crate::service::reader::Reader;
use crate::service_answer::BodyEnd;

/// The maximum number of frames read in one poll; then other tasks run.
const FRAMES_AT_ONCE: usize = 128;

pin_project! {
    /// The future of [`ServiceErrorService`](super::ServiceErrorService).
    pub struct ServiceErrorFuture<F, B>
    where
        B: Body,
    {
        #[pin]
        state: State<F, B>,
        layer: ServiceErrorLayer,
        reporter: AttemptReporter,
    }
}

pin_project! {
    #[project = StateProj]
    #[project_replace = StateOwned]
    enum State<F, B>
    where
        B: Body,
    {
        InFlight { #[pin] inner: F },
        Reading { reading: Reading<B> },
        Done,
    }
}

impl<F, B: Body> ServiceErrorFuture<F, B> {
    pub(super) const fn new(inner: F, layer: ServiceErrorLayer, reporter: AttemptReporter) -> Self {
        Self {
            state: State::InFlight { inner },
            layer,
            reporter,
        }
    }
}

impl<F, B: Body> fmt::Debug for ServiceErrorFuture<F, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceErrorFuture")
            .field("layer", &self.layer)
            .field("reading", &matches!(self.state, State::Reading { .. }))
            .finish_non_exhaustive()
    }
}

impl<F, B, E> Future for ServiceErrorFuture<F, B>
where
    F: Future<Output = Result<Response<B>, E>>,
    B: Body<Data = Bytes> + Unpin,
{
    type Output = Result<Response<ServiceBody<B>>, E>;

    /// # Panics
    ///
    /// When it is polled after it returned a response.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        if let StateProj::InFlight { inner } = this.state.as_mut().project() {
            let (parts, body) = ready!(inner.poll(cx))?.into_parts();
            let reading = Reading::new(this.layer, parts, body);
            this.state.set(State::Reading { reading });
        }
        let StateProj::Reading { reading } = this.state.as_mut().project() else {
            panic!("`ServiceErrorFuture` polled after completion")
        };
        let end = ready!(reading.poll(cx));
        let StateOwned::Reading { reading } = this.state.project_replace(State::Done) else {
            panic!("`ServiceErrorFuture` polled after completion")
        };
        Poll::Ready(Ok(reading.respond(this.layer, this.reporter, end)))
    }
}

/// False for a compressed body.
fn is_plain(headers: &HeaderMap) -> bool {
    let mut codings = headers.get_all(CONTENT_ENCODING).into_iter();
    codings.all(|coding| coding.as_bytes().eq_ignore_ascii_case(b"identity"))
}

/// A response whose body is being read.
struct Reading<B: Body> {
    parts: Parts,
    body: B,
    reader: Reader,
    bounds: Bounds,
    held: Held<B::Error>,
    timer: Option<Timer>,
}

impl<B> Reading<B>
where
    B: Body<Data = Bytes> + Unpin,
{
    fn new(layer: &ServiceErrorLayer, parts: Parts, body: B) -> Self {
        let reader = if is_plain(&parts.headers) {
            Reader::new(layer.service, parts.status)
        } else {
            Reader::of_status()
        };
        let bounds = if parts.status.is_success() {
            GOOD
        } else {
            FAILED
        };
        Self {
            parts,
            body,
            reader,
            bounds,
            held: Held::new(),
            timer: None,
        }
    }

    /// Reads until the result of the response is known, or a limit is reached.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<BodyEnd> {
        for _ in 0..FRAMES_AT_ONCE {
            if self.body.is_end_stream() {
                return Poll::Ready(BodyEnd::Whole);
            }
            let is_success = self.parts.status.is_success();
            if self.reader.is_decided(is_success) || self.held.read() >= self.bounds.bytes {
                return Poll::Ready(BodyEnd::Unread);
            }
            let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) else {
                ready!(self.poll_time(cx));
                return Poll::Ready(BodyEnd::Unread);
            };
            match frame {
                None => return Poll::Ready(BodyEnd::Whole),
                Some(Err(error)) => {
                    self.held.broke(error);
                    return Poll::Ready(BodyEnd::Broken);
                }
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => {
                        self.reader.push(&data);
                        self.held.push(data);
                    }
                    Err(frame) => {
                        if let Ok(trailers) = frame.into_trailers() {
                            self.held.trailers(trailers);
                        }
                    }
                },
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Ready when the timeout for reading has elapsed. For a successful response it starts only
    /// when there is data that the caller could use: a query may run for long before it returns
    /// any.
    fn poll_time(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.parts.status.is_success() && !self.reader.has_begun() {
            return Poll::Pending;
        }
        let time = self.bounds.time;
        let timer = self.timer.get_or_insert_with(|| Timer::after(time));
        timer.poll(cx)
    }

    fn respond(
        self,
        layer: &ServiceErrorLayer,
        reporter: &AttemptReporter,
        end: BodyEnd,
    ) -> Response<ServiceBody<B>> {
        let Self {
            mut parts,
            body,
            reader,
            held,
            ..
        } = self;
        let open = parts.status.is_success() && end == BodyEnd::Unread;
        let end = if open { BodyEnd::Followed } else { end };
        if end == BodyEnd::Broken {
            // Whatever the transport reported at the head: the response is incomplete.
            reporter.stage(Stage::InFlight);
        }
        parts.extensions.insert(reader.answer(end));
        let open = open.then(|| OpenAnswer {
            service: layer.service,
            status: parts.status,
            reader,
            reporter: reporter.clone().follow(),
        });
        Response::from_parts(parts, ServiceBody::new(held, body, open))
    }
}
