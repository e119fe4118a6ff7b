//! Reads single errors of a chain.

use std::error::Error;
use std::io;

use reattempt::Elapsed;
use reattempt::policy::admission::Refused;

use super::{AnyTransportError, TransportFault};
use crate::ReplayBodyError;

/// What one error says by itself.
pub(super) enum Read {
    /// What failed.
    Fault(TransportFault),
    /// Nothing, but its type is known: what it wraps may say more.
    Nothing,
    /// Its type is not known.
    UnknownType,
}

impl From<Option<TransportFault>> for Read {
    fn from(fault: Option<TransportFault>) -> Self {
        fault.map_or(Self::Nothing, Self::Fault)
    }
}

impl Read {
    pub(super) fn of(error: &(dyn Error + 'static)) -> Self {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            return of_io(error.kind()).into();
        }
        if error.is::<Elapsed>() {
            return Self::Fault(TransportFault::Timeout);
        }
        if error.is::<Refused>() {
            return Self::Fault(TransportFault::Shed);
        }
        // The breaker itself reports what its refusal is.
        #[cfg(feature = "tokio")]
        if error.is::<reattempt::circuit_breaker::CircuitOpen>() {
            return Self::Fault(TransportFault::Shed);
        }
        if error.is::<AnyTransportError>() || error.is::<ReplayBodyError>() {
            return Self::Nothing;
        }
        #[cfg(feature = "tokio")]
        if error.is::<tokio::time::error::Elapsed>() {
            return Self::Fault(TransportFault::Timeout);
        }
        #[cfg(feature = "tower")]
        if error.is::<tower::timeout::error::Elapsed>() {
            return Self::Fault(TransportFault::Timeout);
        }
        #[cfg(feature = "tower")]
        if error.is::<tower::load_shed::error::Overloaded>() {
            return Self::Fault(TransportFault::Shed);
        }
        #[cfg(feature = "reqwest")]
        if let Some(error) = error.downcast_ref::<reqwest::Error>() {
            return of_reqwest(error).into();
        }
        // The connector's error, around an error that could also occur on an existing connection.
        #[cfg(feature = "tonic")]
        if error.is::<tonic::ConnectError>() {
            return Self::Fault(TransportFault::ConnectFailed);
        }
        #[cfg(feature = "tonic")]
        if error.is::<tonic::TimeoutExpired>() {
            return Self::Fault(TransportFault::Timeout);
        }
        #[cfg(feature = "tonic")]
        if error.is::<tonic::transport::Error>() {
            return Self::Nothing;
        }
        #[cfg(feature = "hyper-util")]
        if let Some(error) = error.downcast_ref::<hyper_util::client::legacy::Error>() {
            return of_hyper_util(error).into();
        }
        #[cfg(feature = "hyper")]
        if let Some(error) = error.downcast_ref::<hyper::Error>() {
            return of_hyper(error).into();
        }
        #[cfg(feature = "h2")]
        if let Some(error) = error.downcast_ref::<h2::Error>() {
            return of_h2(error).into();
        }
        Self::UnknownType
    }
}

/// The error and its sources. Bounded, because error types of other crates define the chain.
pub(super) fn chain<'a>(
    error: &'a (dyn Error + 'static),
) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error| source(*error)).take(32)
}

/// True for errors that only an established connection can have.
pub(super) fn is_of_connection(error: &(dyn Error + 'static)) -> bool {
    #[cfg(feature = "hyper")]
    if error.is::<hyper::Error>() {
        return true;
    }
    #[cfg(feature = "h2")]
    if error.is::<h2::Error>() {
        return true;
    }
    let _ = error;
    false
}

/// The next error of the chain. `io::Error` returns the source of the error that it wraps, and so
/// hides the wrapped error.
fn source<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    if let Some(inner) = error
        .downcast_ref::<io::Error>()
        .and_then(io::Error::get_ref)
    {
        return Some(inner);
    }
    #[cfg(feature = "h2")]
    if let Some(inner) = error
        .downcast_ref::<h2::Error>()
        .and_then(h2::Error::get_io)
    {
        return Some(inner);
    }
    error.source()
}

fn of_io(kind: io::ErrorKind) -> Option<TransportFault> {
    use io::ErrorKind;
    Some(match kind {
        // The kind of connecting, unless it is the error of an established connection. An
        // unreachable host or network may also end an existing connection, so these count as in
        // flight unless they are inside a connect error.
        ErrorKind::ConnectionRefused => TransportFault::ConnectFailed,
        ErrorKind::ConnectionReset
        | ErrorKind::ConnectionAborted
        | ErrorKind::BrokenPipe
        | ErrorKind::NotConnected
        | ErrorKind::HostUnreachable
        | ErrorKind::NetworkUnreachable
        | ErrorKind::NetworkDown => TransportFault::ConnectionReset,
        ErrorKind::UnexpectedEof => TransportFault::ConnectionClosed,
        ErrorKind::TimedOut => TransportFault::Timeout,
        ErrorKind::InvalidData => TransportFault::Protocol,
        _ => return None,
    })
}

#[cfg(feature = "reqwest")]
fn of_reqwest(error: &reqwest::Error) -> Option<TransportFault> {
    if error.is_connect() {
        Some(TransportFault::ConnectFailed)
    } else if error.is_builder() || error.is_redirect() {
        Some(TransportFault::RequestFailed)
    } else if error.is_timeout() && !chain(error).any(<dyn Error>::is::<hyper::Error>) {
        // Its own limit. Of a connection without a peer hyper's error says more.
        Some(TransportFault::Timeout)
    } else {
        None
    }
}

#[cfg(feature = "hyper-util")]
fn of_hyper_util(error: &hyper_util::client::legacy::Error) -> Option<TransportFault> {
    if error.is_connect() || is_before_hand_over(error) {
        Some(TransportFault::ConnectFailed)
    } else if error.source().is_none() && REFUSED.contains(&&*error.to_string()) {
        Some(TransportFault::RequestFailed)
    } else {
        None
    }
}

/// A new connection ended while the client waited for it to become ready for its first request. The
/// error of a request that was handed to a connection has that connection's info.
#[cfg(feature = "hyper-util")]
fn is_before_hand_over(error: &hyper_util::client::legacy::Error) -> bool {
    error.connect_info().is_none() && error.source().is_some_and(<dyn Error>::is::<hyper::Error>)
}

/// The client does not send such a request. Only the text says so; `tests/pooled_errors.rs` pins
/// it.
#[cfg(feature = "hyper-util")]
const REFUSED: [&str; 3] = [
    "client error (UserUnsupportedVersion)",
    "client error (UserUnsupportedRequestMethod)",
    "client error (UserAbsoluteUriRequired)",
];

#[cfg(feature = "hyper")]
fn of_hyper(error: &hyper::Error) -> Option<TransportFault> {
    if error.is_canceled() || error.is_closed() {
        // hyper's message for a request that was still queued when its connection closed.
        Some(TransportFault::NeverSent)
    } else if error.is_incomplete_message() {
        Some(TransportFault::ConnectionClosed)
    } else if error.is_timeout() {
        // Only of HTTP/2's keep-alive: its ping had no answer, and the connection is closed.
        Some(TransportFault::ConnectionReset)
    } else if error.is_parse() {
        Some(TransportFault::Protocol)
    } else if is_dispatch_gone(error) {
        Some(TransportFault::DispatchGone)
    } else if error.to_string() == UNASKED {
        Some(TransportFault::ConnectFailed)
    } else if error.is_user() {
        Some(TransportFault::RequestFailed)
    } else {
        None
    }
}

/// HTTP/1: the server wrote before it got a request, and the connection was given up. hyper looks
/// for this only while no request is written.
#[cfg(feature = "hyper")]
const UNASKED: &str = "received unexpected message from connection";

/// True if hyper dropped a request with its connection. hyper reports it as a user error, like a
/// body that panicked, and only the text differs; `tests/hyper_errors.rs` pins the texts.
#[cfg(feature = "hyper")]
fn is_dispatch_gone(error: &hyper::Error) -> bool {
    error.is_user()
        && error.to_string() == "dispatch task is gone"
        && error
            .source()
            .is_some_and(|cause| cause.to_string() == "runtime dropped the dispatch task")
}

#[cfg(feature = "h2")]
fn of_h2(error: &h2::Error) -> Option<TransportFault> {
    // h2 returns a peer's GOAWAY only for streams after its last stream id and for new ones;
    // streams that the peer still answers end normally.
    if error.is_go_away() {
        return Some(if error.is_remote() {
            TransportFault::PastGoaway
        } else {
            TransportFault::Protocol
        });
    }
    // hyper resets a stream if the request's own body fails, and reports nothing but the code that
    // it found among the body's errors: CANCEL is that of a body which was cut off.
    if error.is_reset() && !error.is_remote() && !error.is_library() {
        return Some(match error.reason() {
            Some(h2::Reason::CANCEL) => TransportFault::Abandoned,
            _ => TransportFault::RequestFailed,
        });
    }
    // Only a peer's: before 0.4.6 h2 itself reset a stream so whose response head was too large.
    match error.reason() {
        Some(h2::Reason::REFUSED_STREAM) => Some(TransportFault::StreamRefused),
        Some(reason) => Some(TransportFault::StreamReset(reason.into())),
        None => None,
    }
}
