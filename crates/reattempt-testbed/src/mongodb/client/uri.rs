//! Connection strings: `mongodb://user:password@host:port,host:port/database?option=value`.

mod options;
#[cfg(test)]
mod tests;

use std::str::FromStr;
use std::time::Duration;

use super::{ClientOptions, Credential};
use crate::percent;

const SCHEME: &str = "mongodb://";
const DEFAULT_PORT: u16 = 27017;

/// Why a connection string is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
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
        /// As written.
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
    /// An option without `=`, or without a name.
    #[error("option {0:?}: must be name=value")]
    Form(String),
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
    /// Parts that exclude each other.
    #[error("{0}")]
    Conflict(&'static str),
}

/// A parsed connection string.
#[derive(Debug, Clone, PartialEq)]
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

impl FromStr for ConnectionString {
    type Err = UriError;

    fn from_str(text: &str) -> Result<Self, UriError> {
        let rest = text.strip_prefix(SCHEME).ok_or(UriError::Scheme {
            srv: text.starts_with("mongodb+srv://"),
        })?;
        // `/` and `?` must be percent-encoded in the part before them.
        let (authority, tail) = match rest.find(['/', '?']) {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        let path = tail.strip_prefix('/').unwrap_or(tail);
        let (database, query) = path.split_once('?').unwrap_or((path, ""));
        let (user, hosts) = match authority.rsplit_once('@') {
            Some((user, hosts)) => (Some(user), hosts),
            None => (None, authority),
        };
        if user.is_none() && tail.contains('@') {
            return Self::read(hosts, database, query, None).map_err(|_| {
                // The apparent host, database or option may be a name and a password with an
                // unencoded `/` or `?`, so it is not printed.
                UriError::Reserved(tail.chars().next().unwrap_or('/'))
            });
        }
        Self::read(hosts, database, query, user)
    }
}

impl ConnectionString {
    fn read(
        hosts: &str,
        database: &str,
        query: &str,
        user: Option<&str>,
    ) -> Result<Self, UriError> {
        let seeds = hosts.split(',').map(host).collect::<Result<Vec<_>, _>>()?;
        if database.contains('@') {
            // Most likely the end of a password: a database name would be encoded.
            return Err(UriError::Reserved('@'));
        }
        let database = match database {
            "" => None,
            name => Some(decode("database", name)?),
        };
        let mut read = Self {
            options: ClientOptions::new(seeds),
            database,
            retry_reads: true,
            retry_writes: true,
            max_adaptive_retries: None,
            enable_overload_retargeting: false,
            timeout: None,
            warnings: Vec::new(),
        };
        let auth = options::read(&mut read, query)?;
        if let Some(user) = user {
            let (name, password) = credentials(user)?;
            let source = auth.source.or_else(|| read.database.clone());
            let source = source.unwrap_or_else(|| "admin".to_owned());
            read.options.credential = Some(Credential::new(&name, &password, &source));
        } else if auth.mechanism {
            return Err(UriError::Conflict(
                "authMechanism: needs a user name and a password",
            ));
        }
        if read.options.direct_connection && read.options.seeds.len() > 1 {
            return Err(UriError::Conflict(
                "directConnection=true: excludes several hosts",
            ));
        }
        Ok(read)
    }
}

fn credentials(text: &str) -> Result<(String, String), UriError> {
    let (name, password) = text.split_once(':').ok_or(UriError::Conflict(
        "user name and password: both are needed, name:password",
    ))?;
    if let Some(reserved) = [name, password]
        .iter()
        .find_map(|part| part.find(['@', ':', '/']))
    {
        let part = if name.contains(['@', '/']) {
            name
        } else {
            password
        };
        return Err(UriError::Reserved(
            part[reserved..].chars().next().unwrap_or('@'),
        ));
    }
    if name.is_empty() {
        return Err(UriError::Conflict("user name: must not be empty"));
    }
    Ok((decode("user name", name)?, decode("password", password)?))
}

/// Parses one host, and adds the default port.
fn host(text: &str) -> Result<String, UriError> {
    let wrong = |what| UriError::Host {
        host: text.to_owned(),
        what,
    };
    let decoded = decode("host", text)?;
    if decoded.is_empty() {
        return Err(wrong("must not be empty"));
    }
    if decoded.ends_with(".sock") {
        return Err(wrong("unix sockets are not supported here"));
    }
    let (name, port) = match decoded.strip_prefix('[') {
        Some(rest) => {
            let (name, after) = rest.split_once(']').ok_or_else(|| wrong("lacks a ]"))?;
            let port = match after {
                "" => None,
                after => Some(
                    after
                        .strip_prefix(':')
                        .ok_or_else(|| wrong("wants :port after ]"))?,
                ),
            };
            (format!("[{name}]"), port)
        }
        None => match decoded.split_once(':') {
            Some((_, port)) if port.contains(':') => {
                return Err(wrong("an IPv6 address must be in brackets"));
            }
            Some((name, port)) => (name.to_owned(), Some(port)),
            None => (decoded.clone(), None),
        },
    };
    if name.is_empty() || name == "[]" {
        return Err(wrong("must not be empty"));
    }
    let port = match port {
        None => DEFAULT_PORT,
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => digits
            .parse::<u16>()
            .ok()
            .filter(|port| *port > 0)
            .ok_or_else(|| wrong("port must be 1 to 65535"))?,
        Some(_) => return Err(wrong("port must be 1 to 65535")),
    };
    Ok(format!("{}:{port}", name.to_lowercase()))
}

fn decode(part: &str, text: &str) -> Result<String, UriError> {
    percent::decode(text).map_err(|at| UriError::Percent {
        part: part.to_owned(),
        at,
    })
}
