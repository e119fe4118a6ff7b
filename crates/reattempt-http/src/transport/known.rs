//! `TransportError` for the error types of others, and for boxed errors.

use std::convert::Infallible;
use std::error::Error;
use std::io;

use reattempt::Elapsed;

use super::{AnyTransportError, TransportError, TransportFault, unknown};
use crate::ReplayBodyError;

macro_rules! transport_errors {
    ($($(#[$meta:meta])* $t:ty),* $(,)?) => {$(
        $(#[$meta])*
        impl TransportError for $t {
            fn fault(&self) -> TransportFault {
                TransportFault::of(self)
            }

            fn unknown_type(&self) -> Option<String> {
                unknown::types(self)
            }
        }
    )*};
}
transport_errors!(
    io::Error,
    Elapsed,
    ReplayBodyError,
    #[cfg(feature = "hyper")]
    hyper::Error,
    #[cfg(feature = "hyper-util")]
    hyper_util::client::legacy::Error,
    #[cfg(feature = "h2")]
    h2::Error,
    #[cfg(feature = "reqwest")]
    reqwest::Error,
    #[cfg(feature = "tonic")]
    tonic::transport::Error,
);

impl TransportError for AnyTransportError {
    fn fault(&self) -> TransportFault {
        TransportFault::of(&*self.0)
    }

    fn unknown_type(&self) -> Option<String> {
        unknown::types(&*self.0)
    }
}

impl TransportError for Box<dyn Error + Send + Sync> {
    fn fault(&self) -> TransportFault {
        TransportFault::of(&**self)
    }

    fn unknown_type(&self) -> Option<String> {
        unknown::types(&**self)
    }
}

impl TransportError for Box<dyn Error> {
    fn fault(&self) -> TransportFault {
        TransportFault::of(&**self)
    }

    fn unknown_type(&self) -> Option<String> {
        unknown::types(&**self)
    }
}

impl TransportError for Infallible {
    fn fault(&self) -> TransportFault {
        match *self {}
    }
}
