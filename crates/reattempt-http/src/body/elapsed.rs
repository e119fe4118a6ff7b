//! Whether a body of any error type was ended by its deadline.

use std::any::Any;
use std::convert::Infallible;
use std::error::Error;
use std::io;

use reattempt::Elapsed;

use super::DeadlineBodyError;
use crate::AnyTransportError;

/// The most errors of a chain that are looked at: a chain may be endless.
const DEEPEST: usize = 32;

/// True for a [`DeadlineBodyError::Elapsed`] around the errors of the transports that this crate
/// knows, and for a boxed error with [`Elapsed`] among its sources.
pub(super) fn is_elapsed<E: 'static>(error: &E) -> bool {
    let error: &dyn Any = error;
    if let Some(error) = error.downcast_ref::<Box<dyn Error + Send + Sync>>() {
        return has_elapsed(&**error);
    }
    if let Some(error) = error.downcast_ref::<Box<dyn Error>>() {
        return has_elapsed(&**error);
    }
    if let Some(error) = error.downcast_ref::<AnyTransportError>() {
        return has_elapsed(error);
    }
    let known = ends::<Box<dyn Error + Send + Sync>>(error)
        || ends::<Box<dyn Error>>(error)
        || ends::<AnyTransportError>(error)
        || ends::<io::Error>(error)
        || ends::<Infallible>(error);
    #[cfg(feature = "hyper")]
    let known = known || ends::<hyper::Error>(error);
    #[cfg(feature = "reqwest")]
    let known = known || ends::<reqwest::Error>(error);
    #[cfg(feature = "h2")]
    let known = known || ends::<h2::Error>(error);
    known
}

fn ends<E: 'static>(error: &dyn Any) -> bool {
    let error = error.downcast_ref();
    matches!(error, Some(DeadlineBodyError::<E>::Elapsed(_)))
}

fn has_elapsed(error: &(dyn Error + 'static)) -> bool {
    let mut error = Some(error);
    for _ in 0..DEEPEST {
        match error {
            Some(found) if found.is::<Elapsed>() => return true,
            Some(other) => error = other.source(),
            None => return false,
        }
    }
    false
}
