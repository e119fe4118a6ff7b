//! What a transport error says about the request: how far it came, and which side failed.

mod any_error;
mod known;
mod read;
#[cfg(test)]
mod tests;
mod unknown;

use std::any::Any;
use std::error::Error;
use std::io;

use reattempt::{Failure, Stage, Transparent, Verdict};

use crate::ReplayBodyError;
use crate::reasons::*;
pub use any_error::AnyTransportError;
use read::{Read, chain, is_of_connection};

/// HTTP/2's error code (RFC 9113, section 7).
const REFUSED_STREAM: u32 = 7;

/// What went wrong below HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TransportFault {
    /// No connection could be made, or a new one ended before the request was handed to it. Never
    /// sent.
    ConnectFailed,
    /// A layer of this client refused the request (tower's `LoadShed`). Never sent.
    Shed,
    /// The connection closed before the request was written to it. Never sent.
    NeverSent,
    /// HTTP/2 reset the stream with REFUSED_STREAM: not processed (RFC 9113, section 8.7). A proxy
    /// may send it wrongly for a request that it had forwarded: see [`RefusedStream`].
    StreamRefused,
    /// The stream is after the last one of the server's GOAWAY: not processed (RFC 9113, section
    /// 6.8).
    PastGoaway,
    /// HTTP/2 reset the stream with this error code (RFC 9113, section 7).
    StreamReset(u32),
    /// hyper dropped the request together with its connection: it waited for a free HTTP/2 stream,
    /// or it was in flight. Never sent if the body had data and was never polled; a body that is
    /// empty from the start is sent with the head, and then nothing is known. hyper may have
    /// written the head in the instant before it would have polled the body: a server that acts on
    /// a head without its body may process that twice.
    DispatchGone,
    /// The connection ended while the request was in flight.
    ConnectionClosed,
    /// The connection failed while the request was in flight; also by HTTP/2's keep-alive, or by a
    /// timeout of the connection itself.
    ConnectionReset,
    /// No response within the attempt's timeout.
    Timeout,
    /// The response violates the protocol.
    Protocol,
    /// The request cannot be sent: it is invalid, or its own body failed.
    RequestFailed,
    /// Another attempt had already read more of a body that exceeded its buffer. On HTTP/2 also a
    /// request whose own body failed with an error that has HTTP/2's CANCEL among its sources.
    Abandoned,
    /// An unknown error.
    Unknown,
}

impl TransportFault {
    /// Classifies an error by itself and its sources.
    ///
    /// The outermost known error decides, because it is the most specific: an I/O error inside
    /// hyper-util's connect error happened before anything was sent. Errors of hyper, hyper-util,
    /// h2, reqwest, tonic, tokio and tower are known with the features of the same names; those of
    /// `std::io` and this crate always.
    ///
    /// tower's `Overloaded` is [`TransportFault::Shed`]: `LoadShed` returns it instead of calling
    /// its service. tower's `Elapsed` is [`TransportFault::Timeout`]: `Timeout` has called its
    /// service by then, so the request may have been carried out, and only an idempotent one is
    /// sent again.
    ///
    /// ```
    /// use reattempt_http::TransportFault;
    /// use std::io;
    ///
    /// let error = io::Error::from(io::ErrorKind::ConnectionRefused);
    /// assert_eq!(TransportFault::of(&error), TransportFault::ConnectFailed);
    /// ```
    #[must_use]
    pub fn of(error: &(dyn Error + 'static)) -> Self {
        let mut fault = None;
        let mut of_connection = false;
        let mut broken = None;
        for error in chain(error) {
            // The error of our own body is inside hyper's "user error" and takes precedence.
            if let Some(body) = error.downcast_ref::<ReplayBodyError>() {
                return match body {
                    ReplayBodyError::Abandoned => Self::Abandoned,
                    ReplayBodyError::Body(_) => Self::RequestFailed,
                };
            }
            if let (None, Read::Fault(found)) = (fault, Read::of(error)) {
                fault = Some(match found {
                    // Of an established connection: a firewall that rejects its packets is reported
                    // as the refusal of a connection, and a peer that is gone as a timeout, after
                    // retransmissions.
                    Self::ConnectFailed | Self::Timeout if of_connection => Self::ConnectionReset,
                    found => found,
                });
            }
            if of_connection && error.is::<io::Error>() {
                // The connection is gone, whatever the error's kind: a truncated frame is an error
                // without a kind.
                broken = Some(Self::ConnectionReset);
            }
            of_connection |= is_of_connection(error);
        }
        fault.or(broken).unwrap_or(Self::Unknown)
    }

    /// Classifies an error of any type, also of one that does not implement [`TransportError`] (a
    /// `tonic::Status` of a body, by its cause). An unknown error is [`TransportFault::Unknown`].
    #[must_use]
    pub fn of_any<E: 'static>(error: &E) -> Self {
        let error: &dyn Any = error;
        if let Some(error) = error.downcast_ref::<Box<dyn Error + Send + Sync>>() {
            return Self::of(&**error);
        }
        if let Some(error) = error.downcast_ref::<Box<dyn Error>>() {
            return Self::of(&**error);
        }
        if let Some(error) = error.downcast_ref::<io::Error>() {
            return Self::of(error);
        }
        if let Some(error) = error.downcast_ref::<ReplayBodyError>() {
            return Self::of(error);
        }
        if let Some(error) = error.downcast_ref::<AnyTransportError>() {
            return Self::of(error);
        }
        #[cfg(feature = "reqwest")]
        if let Some(error) = error.downcast_ref::<reqwest::Error>() {
            return Self::of(error);
        }
        #[cfg(feature = "hyper-util")]
        if let Some(error) = error.downcast_ref::<hyper_util::client::legacy::Error>() {
            return Self::of(error);
        }
        #[cfg(feature = "hyper")]
        if let Some(error) = error.downcast_ref::<hyper::Error>() {
            return Self::of(error);
        }
        #[cfg(feature = "h2")]
        if let Some(error) = error.downcast_ref::<h2::Error>() {
            return Self::of(error);
        }
        #[cfg(feature = "tonic")]
        if let Some(error) = error.downcast_ref::<tonic::Status>() {
            return Self::of(error);
        }
        #[cfg(feature = "tonic")]
        if let Some(error) = error.downcast_ref::<tonic::transport::Error>() {
            return Self::of(error);
        }
        Self::Unknown
    }

    /// The fault under this setting: if refused streams are ambiguous,
    /// [`StreamRefused`](Self::StreamRefused) becomes a [`StreamReset`](Self::StreamReset) with the
    /// code of REFUSED_STREAM.
    #[must_use]
    pub const fn with_refused(self, refused: RefusedStream) -> Self {
        match (self, refused) {
            (Self::StreamRefused, RefusedStream::Ambiguous) => Self::StreamReset(REFUSED_STREAM),
            (fault, _) => fault,
        }
    }

    /// The verdict on the fault.
    ///
    /// After a refused connection nothing was sent, nor if a layer of the client shed the request:
    /// even one that is not idempotent may be retried, and the strategy decides how often. A
    /// request that was never sent on an existing connection, or is after a GOAWAY's last stream,
    /// is retried without counting, until the deadline; a refused stream once.
    #[must_use]
    pub const fn verdict(self) -> Verdict {
        let failure = match self {
            Self::ConnectFailed => Failure::new(HTTP_CONNECT_FAILED, Stage::Dispatch),
            Self::Shed => Failure::new(HTTP_SHED, Stage::Dispatch),
            Self::NeverSent => {
                Failure::new(HTTP_NEVER_SENT, Stage::Dispatch).transparent(Transparent::Unlimited)
            }
            Self::DispatchGone => Failure::new(HTTP_CONNECTION_CLOSED, Stage::InFlight)
                .transparent(Transparent::IfUnread),
            Self::StreamRefused => {
                Failure::new(HTTP_STREAM_REFUSED, Stage::InFlight).transparent(Transparent::Once)
            }
            Self::PastGoaway => Failure::new(HTTP_STREAM_REFUSED, Stage::InFlight)
                .transparent(Transparent::Unlimited),
            Self::StreamReset(_) => Failure::new(HTTP_STREAM_RESET, Stage::InFlight),
            Self::ConnectionClosed => Failure::new(HTTP_CONNECTION_CLOSED, Stage::InFlight),
            Self::ConnectionReset => Failure::new(HTTP_CONNECTION_RESET, Stage::InFlight),
            Self::Timeout => Failure::new(HTTP_TIMEOUT, Stage::InFlight),
            Self::Protocol => Failure::new(HTTP_PROTOCOL_ERROR, Stage::InFlight),
            // A further attempt with the same body would fail the same way.
            Self::RequestFailed => {
                return Verdict::Fatal(Failure::new(HTTP_REQUEST_FAILED, Stage::InFlight));
            }
            // The recovery layer knows of an attempt that was cut off for another one, and then no
            // verdict counts. Otherwise the request's own body was cancelled.
            Self::Abandoned => {
                return Verdict::Fatal(Failure::new(HTTP_REQUEST_ABANDONED, Stage::InFlight));
            }
            Self::Unknown => {
                return Verdict::Fatal(Failure::new(reattempt::reason::UNKNOWN, Stage::InFlight));
            }
        };
        Verdict::Retry(failure)
    }
}

/// The meaning of REFUSED_STREAM for a request.
///
/// RFC 9113 (section 8.7) guarantees that a refused request was not processed. A proxy may violate
/// this: haproxy with HTTP/2 in front and HTTP/1 behind sends REFUSED_STREAM also if its server
/// closed the connection after it had received the request. Behind such a proxy a POST may be
/// processed twice, which [`Ambiguous`](Self::Ambiguous) prevents. The last stream of a GOAWAY is
/// trusted in either case.
///
/// Set by [`HttpClassifier::refused`](crate::HttpClassifier::refused), by a route of
/// [policies](crate::policy) (`"refused": "ambiguous"`), and by gRPC's classifier and service
/// config.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RefusedStream {
    /// The request was not processed: any request is retried, once without counting. The default.
    #[default]
    Unprocessed,
    /// The request may have been processed: a failure in flight, handled by the policy and the
    /// request's idempotency. It is never retried transparently.
    Ambiguous,
}

impl RefusedStream {
    /// Both, by their names in the configuration.
    pub const ALL: &'static [(&'static str, Self)] = &[
        ("unprocessed", Self::Unprocessed),
        ("ambiguous", Self::Ambiguous),
    ];
}

/// An error of an HTTP transport. Implement it for your own type with [`TransportFault::of`], or
/// from what the type knows.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not known as the error of an HTTP transport",
    note = "enable reattempt-http's feature `hyper`, `hyper-util`, `h2`, `reqwest`, `tonic` or `tower`; put `.map_err(AnyTransportError::new)` below the recovery layer; or implement `TransportError`"
)]
pub trait TransportError {
    /// What failed.
    fn fault(&self) -> TransportFault;

    /// For the log, if the fault is [`TransportFault::Unknown`]: the types that could not be read,
    /// and what would read them; `None` if the types are known. Never contents, which may include
    /// credentials. By default the name of this type.
    fn unknown_type(&self) -> Option<String> {
        Some(unknown::own::<Self>())
    }
}
