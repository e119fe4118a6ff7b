//! The answer of one call: a JSON line for programs.

use reattempt::Elapsed;
use serde::Serialize;
use serde_json::{Map, Value};

use super::attempts::Attempt;
use super::in_millis::InMillis;

/// If a deadline left it open whether the request took effect (RFC 0049).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Timeout {
    Ambiguous,
    Unambiguous,
}

impl From<&Elapsed> for Timeout {
    fn from(elapsed: &Elapsed) -> Self {
        if elapsed.ambiguous {
            Self::Ambiguous
        } else {
            Self::Unambiguous
        }
    }
}

/// One answer.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Answer {
    pub(crate) call: String,
    pub(crate) elapsed_ms: InMillis,
    pub(crate) attempts: Vec<Attempt>,
    pub(crate) reasons: Vec<&'static str>,
    pub(crate) stopped: Option<&'static str>,
    pub(crate) error: Option<String>,
    pub(crate) timeout: Option<Timeout>,
    /// What only this protocol has.
    #[serde(flatten)]
    pub(crate) own: Map<String, Value>,
    /// What a person wants to see of the answer itself, line by line.
    #[serde(skip)]
    pub(crate) for_people: Vec<String>,
}

impl Answer {
    /// An answer of a call of which nothing was sent.
    pub(crate) fn unsent(call: String) -> Self {
        Self {
            call,
            elapsed_ms: InMillis::default(),
            attempts: Vec::new(),
            reasons: Vec::new(),
            stopped: None,
            error: None,
            timeout: None,
            own: Map::new(),
            for_people: Vec::new(),
        }
    }

    pub(crate) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.own.insert(name.to_owned(), value.into());
        self
    }
}

/// Bytes as a person reads them: as text where they are text, as base64 where not.
pub(crate) fn readable(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.contains(|c: char| c.is_control() && !c.is_whitespace()) => {
            text.to_owned()
        }
        _ => format!("base64 {}", super::document::to_base64(bytes)),
    }
}
