//! HTTP/2 with prior knowledge: one connection for all calls.

use bytes::Bytes;
use http::header::HOST;
use http::{Request, Response, Version};
use http_body::Body;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::TokioExecutor;
use reattempt::{AttemptReporter, CallContext, HasCallContext, Idempotency, Stage};
use reattempt_http::TransportFault;
use tokio::sync::Mutex;

use super::answer_body::AnswerBody;
use super::connection::{Address, Running, sending};
use super::error::TransportError;
use super::inbound::{Foreign, Inbound};
use super::request_body::{Length, RequestBody};

/// How often one attempt looks for another connection, after connections that accepted nothing of
/// it.
const MOST_TRIED: u32 = 4;

pub(super) struct Connection<B>(Mutex<Option<Open<B>>>);

struct Open<B> {
    sender: SendRequest<RequestBody<B>>,
    running: Running,
    inbound: Inbound,
}

impl<B> Clone for Open<B> {
    fn clone(&self) -> Self {
        Self {
            sender: self.sender.clone(),
            running: self.running.clone(),
            inbound: self.inbound.clone(),
        }
    }
}

impl<B> Default for Connection<B> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<B> Connection<B>
where
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<TransportError>,
{
    /// The connection, dialled if there is none, and whether it is new: then it was not used before
    /// and cannot have received GOAWAY. Calls that come meanwhile wait for the same one.
    async fn ready(
        &self,
        address: &Address,
        length: Length,
    ) -> Result<(Open<B>, bool), TransportError> {
        let mut slot = self.0.lock().await;
        // After a GOAWAY the connection is closed, although its open streams continue.
        if let Some(open) = slot.take().filter(|open| !open.sender.is_closed()) {
            return Ok((slot.insert(open).clone(), false));
        }
        let (socket, inbound) = address.dial().await?;
        let mut builder = Builder::new(TokioExecutor::new());
        if length == Length::Unsaid {
            // As gRPC's clients do: a connection is ready once the server's SETTINGS have come, and
            // no stream is opened beyond what they allow.
            builder.initial_max_send_streams(0);
        }
        let (sender, connection) = builder.handshake(socket).await?;
        let running = Running::start(connection);
        let open = Open {
            sender,
            running,
            inbound,
        };
        Ok((slot.insert(open).clone(), true))
    }

    /// The next call dials anew, unless another has done so already.
    async fn forget(&self, which: &Inbound) {
        let mut slot = self.0.lock().await;
        slot.take_if(|open| open.inbound.is_of(which));
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
            let (open, fresh) = self.ready(address, length).await?;
            let Open {
                mut sender,
                running,
                inbound,
            } = open;
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
            let sent = sender.try_send_request(Request::from_parts(head, body));
            drop(sender);
            let released = running.then(|| self.forget(&inbound));
            let (error, unsent) = match sending(reporter, sent, released).await {
                Ok(answer) => return Ok(answer.map(|body| AnswerBody::of_http2(body, end, length))),
                Err(failed) => failed,
            };
            if unsent.is_some() || is_goodbye(&*error) {
                self.forget(&inbound).await;
            }
            if let Some(foreign) = inbound.foreign() {
                return Err(match length {
                    // No stream was opened.
                    Length::Unsaid => address.unconnected(not_http2(foreign, None)),
                    Length::Said => not_http2(foreign, Some(error)),
                });
            }
            tried += 1;
            match unsent {
                // The connection received GOAWAY while it was idle: nothing was sent, so this is
                // still the same attempt.
                Some(unsent) if !fresh && tried < MOST_TRIED => {
                    request = unsent.map(RequestBody::into_inner);
                }
                // No stream is opened before the server has sent its SETTINGS.
                _ if length == Length::Unsaid && !inbound.anything() => {
                    return Err(address.unconnected(silent(address, length, None)));
                }
                _ if !inbound.anything() && is_end_of_connection(&*error) => {
                    return Err(silent(address, length, Some(error)));
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

/// The server speaks another protocol.
#[derive(Debug, thiserror::Error)]
#[error("the server speaks {speaks}")]
struct NotHttp2 {
    speaks: &'static str,
    source: Option<TransportError>,
}

fn not_http2(foreign: Foreign, source: Option<TransportError>) -> TransportError {
    let speaks = match foreign {
        Foreign::Http1 => "HTTP/1, not HTTP/2",
        Foreign::Text => "a text protocol, not HTTP/2",
        Foreign::Tls => "TLS: the target needs https:// or grpcs://",
    };
    Box::new(NotHttp2 { speaks, source })
}

/// The server closed the connection before its first byte, as one that expects TLS does if it
/// sends no alert.
#[derive(Debug, thiserror::Error)]
#[error("the server closed the connection before it spoke HTTP/2{hint}")]
struct Silent {
    hint: &'static str,
    source: Option<TransportError>,
}

fn silent(address: &Address, length: Length, source: Option<TransportError>) -> TransportError {
    let hint = match (&address.tls, length) {
        (Some(_), _) => "",
        (None, Length::Unsaid) => "; it may expect TLS (grpcs://)",
        (None, Length::Said) => "; it may expect TLS (https://)",
    };
    Box::new(Silent { hint, source })
}

/// True of errors that come with the end of a connection, and are not the request's own.
fn is_end_of_connection(error: &(dyn std::error::Error + 'static)) -> bool {
    matches!(
        TransportFault::of(error),
        TransportFault::NeverSent
            | TransportFault::DispatchGone
            | TransportFault::ConnectionClosed
            | TransportFault::ConnectionReset
    )
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
