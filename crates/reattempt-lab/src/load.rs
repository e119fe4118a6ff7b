//! What is called and what servers answer, in the words of a document.

use reattempt::Verdict;

/// A kind of call.
#[derive(Clone, Debug)]
pub(crate) struct CallKind {
    pub(crate) weight: f64,
    pub(crate) method: String,
    pub(crate) path: String,
    /// The name of its route in the policies, which then decides instead of method and path.
    pub(crate) route: Option<String>,
    pub(crate) idempotent: Option<bool>,
    /// In nanoseconds.
    pub(crate) timeout: Option<u64>,
}

impl CallKind {
    /// Calls of the route with this name.
    pub(crate) fn of_route(name: &str) -> Self {
        Self {
            route: Some(name.to_owned()),
            ..Self::get()
        }
    }

    pub(crate) fn get() -> Self {
        Self {
            weight: 1.0,
            method: "GET".to_owned(),
            path: "/".to_owned(),
            route: None,
            idempotent: None,
            timeout: None,
        }
    }
}

/// A failure that a server answers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Answer {
    /// Absent: the overload code of the policy's protocol.
    pub(crate) code: Option<AnswerCode>,
    pub(crate) pushback_ms: Option<u32>,
    /// Where it was written.
    pub(crate) paths: Vec<String>,
}

/// A code as it was written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum AnswerCode {
    Number(i64),
    Name(String),
    /// An attempt of a recording, which has more than a code.
    Recorded(RecordedFailure),
}

/// How an attempt of a recording failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RecordedFailure {
    /// Of the recorded policy and its layers.
    pub(crate) verdict: Verdict,
    /// Its server, or a layer on its behalf, wanted no further one.
    pub(crate) stop: bool,
    /// The most that the recorded policy added to the server's delay, in milliseconds.
    pub(crate) spread_ms: u32,
    /// Verdict and pushback are kept: the policy under test is the recorded one, and they are not
    /// what its text says, but what its layers do beside it.
    pub(crate) is_kept: bool,
}
