//! Server error codes of the node's answers, and their names.

use bson::{Document, doc};

/// An error that a command answers with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CommandError {
    pub(super) code: i32,
    pub(super) message: String,
}

impl CommandError {
    pub(super) fn new(code: i32, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }

    pub(super) fn bad_value(message: impl Into<String>) -> Self {
        Self::new(2, message)
    }

    pub(super) fn document(&self) -> Document {
        doc! {
            "ok": 0.0,
            "errmsg": &self.message,
            "code": self.code,
            "codeName": code_name(self.code),
        }
    }
}

/// The server's name of an error code; `Location<code>` for those without one.
#[must_use]
pub fn code_name(code: i32) -> String {
    let name = match code {
        1 => "InternalError",
        2 => "BadValue",
        6 => "HostUnreachable",
        7 => "HostNotFound",
        9 => "FailedToParse",
        13 => "Unauthorized",
        18 => "AuthenticationFailed",
        26 => "NamespaceNotFound",
        43 => "CursorNotFound",
        50 => "MaxTimeMSExpired",
        59 => "CommandNotFound",
        64 => "WriteConcernFailed",
        89 => "NetworkTimeout",
        91 => "ShutdownInProgress",
        134 => "ReadConcernMajorityNotAvailableYet",
        189 => "PrimarySteppedDown",
        262 => "ExceededTimeLimit",
        462 => "IngressRequestRateLimitExceeded",
        9001 => "SocketException",
        10107 => "NotWritablePrimary",
        11000 => "DuplicateKey",
        11600 => "InterruptedAtShutdown",
        11601 => "Interrupted",
        11602 => "InterruptedDueToReplStateChange",
        13435 => "NotPrimaryNoSecondaryOk",
        13436 => "NotPrimaryOrSecondary",
        other => return format!("Location{other}"),
    };
    name.to_owned()
}
