//! The errors of a request body that ends early.

use std::fmt;
use std::sync::Arc;

/// Why a [`ReplayBody`](crate::body::ReplayBody) failed. [`TransportFault`](crate::TransportFault)
/// knows it among a transport's errors.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ReplayBodyError {
    /// The wrapped body failed. Every attempt gets the same error.
    Body(Arc<dyn std::error::Error + Send + Sync>),
    /// The body exceeded its buffer (or was committed), and another attempt that had read more
    /// continues alone.
    Abandoned,
}

impl fmt::Display for ReplayBodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Body(_) => "the request's own body failed",
            Self::Abandoned => {
                "the request's body exceeded its buffer and another attempt continues alone: \
                 raise the limit of ReplayBodyLayer to keep more"
            }
        })
    }
}

impl std::error::Error for ReplayBodyError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Body(error) => Some(&**error),
            Self::Abandoned => cancel(),
        }
    }
}

/// The call ended before its request was sent: its caller gave it up, or a layer ended it. The
/// error of a request body that the transport still reads then.
#[derive(Clone, Copy, Debug)]
pub struct CallOver;

impl fmt::Display for CallOver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the call ended before its request was sent")
    }
}

impl std::error::Error for CallOver {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        cancel()
    }
}

/// hyper resets a stream whose body fails with the HTTP/2 code that it finds among the error's
/// sources. CANCEL tells the server that the client stopped, not that it is broken.
fn cancel() -> Option<&'static (dyn std::error::Error + 'static)> {
    #[cfg(feature = "h2")]
    {
        static CANCEL: std::sync::OnceLock<h2::Error> = std::sync::OnceLock::new();
        Some(CANCEL.get_or_init(|| h2::Reason::CANCEL.into()))
    }
    #[cfg(not(feature = "h2"))]
    None
}

#[cfg(all(test, feature = "h2"))]
mod tests {
    use std::error::Error;

    use super::*;

    #[test]
    fn a_request_that_this_side_ends_is_reset_as_cancelled() {
        let errors: [Box<dyn Error>; 2] = [CallOver.into(), ReplayBodyError::Abandoned.into()];
        for error in errors {
            let source = error.source().and_then(|source| source.downcast_ref());
            let reason = source.and_then(h2::Error::reason);
            assert_eq!(reason, Some(h2::Reason::CANCEL), "{error}");
        }
    }
}
