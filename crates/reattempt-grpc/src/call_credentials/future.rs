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
        /// Waiting for the credentials.
        Asking {
            #[pin]
            metadata: M,
            call: Option<(S, Request<B>)>,
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
                Now::Asking { metadata, call } => {
                    let Poll::Ready(metadata) = metadata.poll(cx) else {
                        // A ready service holds a place in a channel's buffer, a clone none.
                        if let Some((service, _)) = call {
                            *service = service.clone();
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
                    let call = Some((service, request));
                    state.set(State::Readying { call });
                }
                Now::Readying { call } => {
                    let (service, _) = call.as_mut().expect("polled after completion");
                    let readied = ready!(service.poll_ready(cx));
                    let (mut service, mut request) = call.take().expect("polled after completion");
                    readied?;
                    // The request was delayed since its time left was written.
                    crate::renew_timeout(&mut request);
                    if let Some(context) = request.context() {
                        context.reporter().sent_again();
                    }
                    let flight = service.call(request);
                    state.set(State::Sent { flight });
                }
            }
        }
    }
}
