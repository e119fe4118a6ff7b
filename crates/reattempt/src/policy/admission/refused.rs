//! A call that is not admitted.

use super::Criticality;
use crate::failure::reason::NOT_ADMITTED;
use crate::{Failure, Stage};

/// The call was refused before it was sent: the server accepts too few of the latest calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "this client did not send the request: the server accepted {accepted} of its latest {requests} \
     calls (criticality {})",
    criticality.number()
)]
#[non_exhaustive]
pub struct Refused {
    /// The calls of the window that ended or were refused.
    pub requests: u64,
    /// Those that the server accepted.
    pub accepted: u64,
    /// Of the refused call.
    pub criticality: Criticality,
}

impl Refused {
    /// The same as a failure: [`NOT_ADMITTED`], never sent, safe for any request.
    #[must_use]
    pub const fn failure(&self) -> Failure {
        Failure::new(NOT_ADMITTED, Stage::Dispatch)
    }
}
