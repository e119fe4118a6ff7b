//! What inner layers and transports reported of one attempt.

use crate::{ServerPushback, Stage};

/// What one attempt reported, as the recovery layer reads it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AttemptReport {
    /// The server-provided pushback.
    pub pushback: Option<ServerPushback>,
    /// The server's pushback could not be parsed and counts as none.
    pub pushback_unreadable: bool,
    /// How far the attempt came, if a layer knows better than the error says. The classifier's
    /// [`Stage::Response`] is final: this stage overrides it only for an [own
    /// answer](Self::own_answer).
    pub stage: Option<Stage>,
    /// A local layer produced the response (an attempt's deadline, load shedding).
    pub own_answer: bool,
    /// When this attempt was sent, there was a backend that the call had not tried.
    pub untried_backend: bool,
    /// A layer forbids further attempts (nested recovery, a hop that gave up).
    pub forbidden: bool,
    /// The server may have carried out the request, whatever the failure says.
    pub in_doubt: bool,
    /// A circuit breaker refused the attempt: it was never sent.
    pub circuit_open: bool,
    /// A newer configuration was requested; a waiter may have been stored.
    pub config_coming: bool,
    /// A layer [follows](crate::AttemptReporter::follow) the response, and will report how a
    /// committed one ends.
    pub followed: bool,
}
