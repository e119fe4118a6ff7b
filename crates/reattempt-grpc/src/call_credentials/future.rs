use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::{HeaderMap, Request, Response};
use pin_project_lite::pin_project;
use reattempt::HasCallContext;
use tower_service::Service;

use crate::metadata::append;
use crate::timeout::GRPC_TIMEOUT;
use crate::{ControlPlaneFailure, PREVIOUS_ATTEMPTS};

pin_project! {
    /// The future of [`WithCallCredentials`](super::WithCallCredentials).
    pub struct CallCredentialsFuture<M, S, B>
    where
        S: Service<Request<B>>,
    {
        #[pin]
        state: State<M, S, B>,
    }
}

pin_project! {
    #[project = Now]
    enum State<M, S, B>
    where
        S: Service<Request<B>>,
    {
        /// Waiting for the credentials. The service is ready until the first wait: from then on it
        /// is a clone, so that no place in a channel's buffer is held meanwhile.
        Asking {
            #[pin]
            metadata: M,
            call: Option<(S, Request<B>)>,
            ready: bool,
        },
        /// Waiting for the service.
        Readying {
            call: Option<(S, Request<B>)>,
        },
        Sent {
            #[pin]
            flight: S::Future,
        },
    }
}

impl<M, S, B> CallCredentialsFuture<M, S, B>
where
    S: Service<Request<B>>,
{
    pub(super) const fn new(metadata: M, service: S, request: Request<B>) -> Self {
        Self {
            state: State::Asking {
                metadata,
                call: Some((service, request)),
                ready: true,
            },
        }
    }
}

impl<M, S, B> fmt::Debug for CallCredentialsFuture<M, S, B>
where
    S: Service<Request<B>>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sent = matches!(self.state, State::Sent { .. });
        f.debug_struct("CallCredentialsFuture")
            .field("sent", &sent)
            .finish_non_exhaustive()
    }
}

impl<M, S, B, R> Future for CallCredentialsFuture<M, S, B>
where
    M: Future<Output = Result<HeaderMap, ControlPlaneFailure>>,
    S: Service<Request<B>, Response = Response<R>> + Clone,
    R: Default,
{
    type Output = Result<Response<R>, S::Error>;

    /// # Panics
    /// When it is polled after it returned the response.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        loop {
            match state.as_mut().project() {
                Now::Sent { flight } => return flight.poll(cx),
                Now::Asking {
                    metadata,
                    call,
                    ready,
                } => {
                    let Poll::Ready(metadata) = metadata.poll(cx) else {
                        if let Some((service, _)) = call.as_mut().filter(|_| *ready) {
                            *service = service.clone();
                            *ready = false;
                        }
                        return Poll::Pending;
                    };
                    let (service, mut request) = call.take().expect("polled after completion");
                    let mut metadata = match metadata {
                        Ok(metadata) => metadata,
                        Err(failure) => return Poll::Ready(Ok(failure.into_response())),
                    };
                    // As of the caller's own, no value of these passes (R70).
                    metadata.remove(PREVIOUS_ATTEMPTS);
                    metadata.remove(GRPC_TIMEOUT);
                    append(request.headers_mut(), metadata);
                    if *ready {
                        let flight = sent(service, request);
                        state.set(State::Sent { flight });
                    } else {
                        let call = Some((service, request));
                        state.set(State::Readying { call });
                    }
                }
                Now::Readying { call } => {
                    let (service, _) = call.as_mut().expect("polled after completion");
                    let readied = ready!(service.poll_ready(cx));
                    let (service, request) = call.take().expect("polled after completion");
                    readied?;
                    let flight = sent(service, request);
                    state.set(State::Sent { flight });
                }
            }
        }
    }
}

/// The service is ready, and the request was delayed since its time left was written.
fn sent<S, B>(mut service: S, mut request: Request<B>) -> S::Future
where
    S: Service<Request<B>>,
{
    crate::renew_timeout(&mut request);
    if let Some(context) = request.context() {
        context.reporter().sent_again();
    }
    service.call(request)
}
