//! How far an attempt came before it failed (RFC 0049, Introduction).

/// The stage in which an attempt failed (RFC 0049's three stages).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Stage {
    /// Never sent: it had no effect on the server.
    Dispatch,
    /// Sent without a response: its effect is unknown.
    InFlight,
    /// A response was received.
    Response,
}

impl Stage {
    /// The name in logs and in the program's output: `dispatch`, `in_flight`, `response`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Dispatch => "dispatch",
            Self::InFlight => "in_flight",
            Self::Response => "response",
        }
    }
}
