//! How far an attempt came before it failed (RFC 0049, Introduction).

/// The stage in which an attempt failed (RFC 0049's three stages).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Stage {
    /// Never sent: nothing can have happened at the server.
    Dispatch,
    /// Sent, no answer: nobody knows what happened.
    InFlight,
    /// Answered.
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
