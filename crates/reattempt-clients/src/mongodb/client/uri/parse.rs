//! Parses a connection string: hosts, credentials and database.

use std::str::FromStr;

use super::{ConnectionString, UriError, decode, options};
use crate::mongodb::client::{ClientOptions, Credential};

const SCHEME: &str = "mongodb://";
const DEFAULT_PORT: u16 = 27017;

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
        if tail.contains('@') {
            // What begins before the last `@` may be a part of a password with an unencoded `/` or
            // `?`, so it is in no error and no warning.
            let doubtful = Self::read(hosts, database, up_to_last_at(query), user);
            if doubtful.map_or(true, |read| !read.warnings.is_empty()) {
                return Err(UriError::Reserved(tail.chars().next().unwrap_or('/')));
            }
        }
        Self::read(hosts, database, query, user)
    }
}

/// The options up to the one that has the last `@`.
fn up_to_last_at(query: &str) -> &str {
    let last = query.rfind('@').unwrap_or_default();
    let end = query[last..].find('&').map(|after| last + after);
    match query.contains('@') {
        true => &query[..end.unwrap_or(query.len())],
        false => "",
    }
}

impl ConnectionString {
    fn read(
        hosts: &str,
        database: &str,
        query: &str,
        user: Option<&str>,
    ) -> Result<Self, UriError> {
        let mut seeds = Vec::new();
        for host in hosts.split(',').map(host) {
            let host = host?;
            if !seeds.contains(&host) {
                seeds.push(host);
            }
        }
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

/// A host up to its port: without an `@`, or with one that is encoded, a password stands there.
fn without_port(host: &str) -> &str {
    let bracketed = host.find(']').filter(|_| host.starts_with('['));
    let end = bracketed.map(|last| last + 1).or_else(|| host.find(':'));
    &host[..end.unwrap_or(host.len())]
}

/// Parses one host, and adds the default port.
fn host(text: &str) -> Result<String, UriError> {
    let decoded = decode("host", text)?;
    let wrong = |what| UriError::Host {
        host: without_port(&decoded).to_owned(),
        what,
    };
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
