//! HTTP/2 with prior knowledge: one connection for all calls.

use bytes::Bytes;
use http::header::HOST;
use http::{Request, Response, Version};
use http_body::Body;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use reattempt::{AttemptReporter, CallContext, HasCallContext, Idempotency, Stage};
use reattempt_http::TransportFault;
use tokio::sync::Mutex;

use super::heard::Heard;
use super::request_body::{Length, RequestBody};
use super::{Address, AnswerBody, TransportError, sending};

/// How often one attempt looks for another connection, after connections that accepted nothing of
/// it.
const MOST_TRIED: u32 = 4;

pub(super) struct Connection<B>(Mutex<Slot<B>>);

struct Slot<B> {
    open: Option<(SendRequest<RequestBody<B>>, Heard)>,
    /// Which of the connections, one after another, that is.
    number: u64,
}

impl<B> Default for Connection<B> {
    fn default() -> Self {
        Self(Mutex::new(Slot {
            open: None,
            number: 0,
        }))
    }
}

/// A connection that looks usable.
struct Ready<B> {
    connection: SendRequest<RequestBody<B>>,
    heard: Heard,
    number: u64,
    /// A new connection, which was not used before and cannot have received GOAWAY.
    fresh: bool,
}

impl<B> Connection<B>
where
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<TransportError>,
{
    /// The connection, dialled if there is none. Calls that come meanwhile wait for the same one.
    async fn ready(&self, address: &Address, length: Length) -> Result<Ready<B>, TransportError> {
        let mut slot = self.0.lock().await;
        if let Some((connection, heard)) = slot.open.as_mut() {
            // After a GOAWAY the connection is not ready, although its open streams continue.
            if !connection.is_closed() && connection.ready().await.is_ok() {
                return Ok(Ready {
                    connection: connection.clone(),
                    heard: heard.clone(),
                    number: slot.number,
                    fresh: false,
                });
            }
            slot.open = None;
        }
        let heard = Heard::default();
        let socket = TokioIo::new(heard.listen(address.dial().await?));
        let mut builder = Builder::new(TokioExecutor::new());
        if length == Length::Unsaid {
            // As gRPC's clients do: a connection is ready once the server's SETTINGS have come, and
            // no stream is opened beyond what they allow.
            builder.initial_max_send_streams(0);
        }
        let (connection, driver) = builder.handshake(socket).await?;
        tokio::spawn(async move {
            if let Err(error) = driver.await {
                tracing::debug!(%error, "connection ended");
            }
        });
        slot.number += 1;
        slot.open = Some((connection.clone(), heard.clone()));
        Ok(Ready {
            connection,
            heard,
            number: slot.number,
            fresh: true,
        })
    }

    /// The next call dials anew, unless another has done so already.
    async fn forget(&self, number: u64, reporter: &AttemptReporter) {
        let mut slot = self.0.lock().await;
        if slot.number == number {
            let attempt = reporter.attempt();
            tracing::debug!(attempt, "the connection takes no requests; dialling anew");
            slot.open = None;
        }
    }

    pub(super) async fn send(
        &self,
        address: &Address,
        length: Length,
        mut request: Request<B>,
        reporter: &AttemptReporter,
    ) -> Result<Response<AnswerBody>, TransportError> {
        *request.version_mut() = Version::HTTP_2;
        if length == Length::Said {
            // Its URI says it, in `:authority` (RFC 9113, section 8.3.1).
            request.headers_mut().remove(HOST);
        }
        let mut tried = 0;
        loop {
            let mut ready = self.ready(address, length).await?;
            if length == Length::Unsaid {
                // Dialling, or waiting for another call that does, may have taken of the time left.
                reattempt_grpc::renew_timeout(&mut request);
            }
            let idempotent = is_idempotent(&request);
            let (head, body) = request.into_parts();
            let is_empty = body.is_end_stream();
            let (mut body, end) = RequestBody::new(body, length, reporter);
            if idempotent {
                body.may_end_with_its_head();
            }
            if body.is_end_stream() {
                // The body is never polled, so it does not report the stage itself.
                reporter.stage(Stage::InFlight);
            }
            let sent = ready
                .connection
                .try_send_request(Request::from_parts(head, body));
            let (error, unsent) = match sending(reporter, sent).await {
                Ok(answer) => return Ok(answer.map(|body| AnswerBody::of_http2(body, end, length))),
                Err(failed) => failed,
            };
            if unsent.is_some() || is_goodbye(&*error) {
                self.forget(ready.number, reporter).await;
            }
            tried += 1;
            match unsent {
                // The connection received GOAWAY while it was idle: nothing was sent, so this is
                // still the same attempt.
                Some(unsent) if !ready.fresh && tried < MOST_TRIED => {
                    request = unsent.map(RequestBody::into_inner);
                }
                // No stream is opened before the server has sent its SETTINGS.
                _ if length == Length::Unsaid && !ready.heard.anything() => {
                    return Err(address.unconnected(error));
                }
                _ => {
                    let fault = TransportFault::of(&*error);
                    if length == Length::Unsaid && is_empty && fault == TransportFault::DispatchGone
                    {
                        // As for any client: one that has no message may have gone out with its
                        // head, so it is not said to be unsent although it waited for a stream.
                        reporter.stage(Stage::InFlight);
                    }
                    return Err(error);
                }
            }
        }
    }
}

/// By its method, unless the call says otherwise.
fn is_idempotent<B>(request: &Request<B>) -> bool {
    let said = request.context().map(CallContext::idempotency);
    let said = said.filter(|said| *said != Idempotency::Unknown);
    said.unwrap_or_else(|| request.natural_idempotency())
        .is_idempotent()
}

/// True of a GOAWAY: the connection takes no further streams.
fn is_goodbye(error: &(dyn std::error::Error + 'static)) -> bool {
    std::iter::successors(Some(error), |error| error.source())
        .filter_map(|error| error.downcast_ref::<h2::Error>())
        .any(h2::Error::is_go_away)
}
