//! gRPC's status codes.

use std::fmt;
use std::str::FromStr;

use reattempt::RetryReason;

use crate::reasons::*;

/// A gRPC status code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Code {
    /// 0: not an error.
    Ok = 0,
    /// 1: the caller cancelled.
    Cancelled = 1,
    /// 2: any error without a code of its own.
    Unknown = 2,
    /// 3: the request is invalid in any state of the server.
    InvalidArgument = 3,
    /// 4: the deadline passed.
    DeadlineExceeded = 4,
    /// 5: not found.
    NotFound = 5,
    /// 6: already exists.
    AlreadyExists = 6,
    /// 7: not allowed.
    PermissionDenied = 7,
    /// 8: out of quota, memory or the like.
    ResourceExhausted = 8,
    /// 9: the server's state does not allow it.
    FailedPrecondition = 9,
    /// 10: aborted, for instance by a conflict.
    Aborted = 10,
    /// 11: outside the valid range.
    OutOfRange = 11,
    /// 12: no such method.
    Unimplemented = 12,
    /// 13: internal error.
    Internal = 13,
    /// 14: currently unavailable.
    Unavailable = 14,
    /// 15: unrecoverable data loss.
    DataLoss = 15,
    /// 16: not authenticated.
    Unauthenticated = 16,
}

/// Neither a number from 0 to 16 nor a name of gRPC's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a gRPC status code: use a number from 0 to 16 or a name such as UNAVAILABLE")]
pub struct UnknownCode;

impl Code {
    /// All codes, in order.
    pub const ALL: [Self; 17] = [
        Self::Ok,
        Self::Cancelled,
        Self::Unknown,
        Self::InvalidArgument,
        Self::DeadlineExceeded,
        Self::NotFound,
        Self::AlreadyExists,
        Self::PermissionDenied,
        Self::ResourceExhausted,
        Self::FailedPrecondition,
        Self::Aborted,
        Self::OutOfRange,
        Self::Unimplemented,
        Self::Internal,
        Self::Unavailable,
        Self::DataLoss,
        Self::Unauthenticated,
    ];

    /// The code with this number.
    #[must_use]
    pub fn from_number(number: i64) -> Option<Self> {
        Self::ALL.get(usize::try_from(number).ok()?).copied()
    }

    /// The code's number.
    #[must_use]
    pub const fn number(self) -> i32 {
        self as i32
    }

    /// The code's name, as gRPC spells it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::Cancelled => "CANCELLED",
            Self::Unknown => "UNKNOWN",
            Self::InvalidArgument => "INVALID_ARGUMENT",
            Self::DeadlineExceeded => "DEADLINE_EXCEEDED",
            Self::NotFound => "NOT_FOUND",
            Self::AlreadyExists => "ALREADY_EXISTS",
            Self::PermissionDenied => "PERMISSION_DENIED",
            Self::ResourceExhausted => "RESOURCE_EXHAUSTED",
            Self::FailedPrecondition => "FAILED_PRECONDITION",
            Self::Aborted => "ABORTED",
            Self::OutOfRange => "OUT_OF_RANGE",
            Self::Unimplemented => "UNIMPLEMENTED",
            Self::Internal => "INTERNAL",
            Self::Unavailable => "UNAVAILABLE",
            Self::DataLoss => "DATA_LOSS",
            Self::Unauthenticated => "UNAUTHENTICATED",
        }
    }

    /// The reason of a failure with this code; `None` for OK.
    #[must_use]
    pub const fn reason(self) -> Option<RetryReason> {
        Some(match self {
            Self::Ok => return None,
            Self::Cancelled => GRPC_CANCELLED,
            Self::Unknown => GRPC_UNKNOWN,
            Self::InvalidArgument => GRPC_INVALID_ARGUMENT,
            Self::DeadlineExceeded => GRPC_DEADLINE_EXCEEDED,
            Self::NotFound => GRPC_NOT_FOUND,
            Self::AlreadyExists => GRPC_ALREADY_EXISTS,
            Self::PermissionDenied => GRPC_PERMISSION_DENIED,
            Self::ResourceExhausted => GRPC_RESOURCE_EXHAUSTED,
            Self::FailedPrecondition => GRPC_FAILED_PRECONDITION,
            Self::Aborted => GRPC_ABORTED,
            Self::OutOfRange => GRPC_OUT_OF_RANGE,
            Self::Unimplemented => GRPC_UNIMPLEMENTED,
            Self::Internal => GRPC_INTERNAL,
            Self::Unavailable => GRPC_UNAVAILABLE,
            Self::DataLoss => GRPC_DATA_LOSS,
            Self::Unauthenticated => GRPC_UNAUTHENTICATED,
        })
    }

    /// Parses a `grpc-status` header or trailer: digits only. Any other value is UNKNOWN.
    #[must_use]
    pub fn from_header(value: &http::HeaderValue) -> Self {
        let digits = value.as_bytes();
        let number = digits.iter().try_fold(0_i64, |number, digit| {
            let digit = digit.is_ascii_digit().then_some(i64::from(digit & 0xf))?;
            Some(number.saturating_mul(10).saturating_add(digit))
        });
        let number = number.filter(|_| !digits.is_empty());
        number.and_then(Self::from_number).unwrap_or(Self::Unknown)
    }

    /// The code for an HTTP status that came without `grpc-status` ("HTTP to gRPC Status Code
    /// Mapping").
    #[must_use]
    pub const fn from_http_status(status: u16) -> Self {
        match status {
            400 => Self::Internal,
            401 => Self::Unauthenticated,
            403 => Self::PermissionDenied,
            404 => Self::Unimplemented,
            429 | 502..=504 => Self::Unavailable,
            _ => Self::Unknown,
        }
    }

    /// The code for an HTTP/2 error code ("Errors" in gRPC over HTTP/2).
    #[must_use]
    pub const fn from_http2_error(code: u32) -> Self {
        match code {
            7 => Self::Unavailable,
            8 => Self::Cancelled,
            11 => Self::ResourceExhausted,
            12 => Self::PermissionDenied,
            _ => Self::Internal,
        }
    }
}

impl From<i32> for Code {
    /// The code with this number; UNKNOWN for any other number.
    fn from(number: i32) -> Self {
        Self::from_number(number.into()).unwrap_or(Self::Unknown)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Code {
    type Err = UnknownCode;

    /// Parses a name, in any case (A6, Validation of retryPolicy).
    fn from_str(name: &str) -> Result<Self, UnknownCode> {
        let same = |code: &&Self| code.name().eq_ignore_ascii_case(name);
        Self::ALL.iter().find(same).copied().ok_or(UnknownCode)
    }
}
