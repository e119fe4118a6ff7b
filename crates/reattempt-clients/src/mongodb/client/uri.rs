//! Connection strings: `mongodb://user:password@host:port,host:port/database?option=value`.

mod options;
mod parse;
#[cfg(test)]
mod tests;

use std::time::Duration;

use super::ClientOptions;
use crate::percent;

/// Why a connection string is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UriError {
    /// Another scheme than `mongodb://`.
    #[error("must begin with mongodb://{}", if *.srv { "; mongodb+srv:// is not known here" } else { "" })]
    Scheme {
        /// Whether it was `mongodb+srv://`.
        srv: bool,
    },
    /// A missing or invalid host.
    #[error("host {host:?}: {what}")]
    Host {
        /// The part before the port, which may be a password whose `@` is missing.
        host: String,
        /// What is wrong with it.
        what: &'static str,
    },
    /// A user or password with a character that must be percent-encoded.
    #[error("user name and password: {0:?} must be percent-encoded")]
    Reserved(char),
    /// A `%` without two hexadecimal digits, or bytes that are not UTF-8.
    #[error("{part}: broken percent-encoding at byte {at} of it")]
    Percent {
        /// Which part of the string.
        part: String,
        /// The byte within that part.
        at: usize,
    },
    /// An option without `=`, or without a name: its number, from 1. Its text may be a part of a
    /// password.
    #[error("option {0} of the query: must be name=value")]
    Form(usize),
    /// An option that is given twice.
    #[error("option {0}: given twice")]
    Twice(String),
    /// A value that is invalid for the option.
    #[error("option {name}: wants {wants}, got {value:?}")]
    Value {
        /// The option.
        name: String,
        /// As written.
        value: String,
        /// The valid values.
        wants: &'static str,
    },
    /// An option that needs an unsupported feature.
    #[error("option {name}={value}: not supported here")]
    Unsupported {
        /// The option.
        name: String,
        /// As written.
        value: String,
    },
    /// An option of TLS, which no client here speaks.
    #[error("option {0}: TLS is not supported here")]
    Tls(String),
    /// Parts that exclude each other.
    #[error("{0}")]
    Conflict(&'static str),
}

/// A parsed connection string.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ConnectionString {
    /// The client options.
    pub options: ClientOptions,
    /// The database in the path.
    pub database: Option<String>,
    /// `retryReads`; default true (M9).
    pub retry_reads: bool,
    /// `retryWrites`; default true.
    pub retry_writes: bool,
    /// `maxAdaptiveRetries`.
    pub max_adaptive_retries: Option<u32>,
    /// `enableOverloadRetargeting`; default false.
    pub enable_overload_retargeting: bool,
    /// `timeoutMS`; absent or 0: none.
    pub timeout: Option<Duration>,
    /// Options that are unknown and have no effect.
    pub warnings: Vec<String>,
}

fn decode(part: &str, text: &str) -> Result<String, UriError> {
    percent::decode(text).map_err(|at| UriError::Percent {
        part: part.to_owned(),
        at,
    })
}
