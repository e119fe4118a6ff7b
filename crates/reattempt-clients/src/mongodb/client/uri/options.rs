//! The options of a connection string.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{ConnectionString, UriError, decode};
use crate::mongodb::client::ReadPreference;

/// The authentication options.
#[derive(Debug, Default)]
pub(super) struct Auth {
    pub(super) source: Option<String>,
    pub(super) mechanism: bool,
}

/// Parses `name=value&name=value` into `read`. Names are case-insensitive.
pub(super) fn read(read: &mut ConnectionString, query: &str) -> Result<Auth, UriError> {
    let mut auth = Auth::default();
    let mut given = BTreeSet::new();
    let parts = query.split('&').filter(|part| !part.is_empty());
    for (at, part) in parts.enumerate() {
        let (name, value) = part
            .split_once('=')
            .filter(|(name, _)| !name.is_empty())
            .ok_or_else(|| UriError::Form(at + 1))?;
        let name = decode("option", name)?;
        let value = decode(&name, value)?;
        let name_of = name.to_lowercase();
        // A list of them is one option each.
        if name_of != "readpreferencetags" && !given.insert(name_of) {
            return Err(UriError::Twice(name));
        }
        set(
            read,
            &mut auth,
            &Given {
                name: &name,
                value: &value,
            },
        )?;
    }
    Ok(auth)
}

fn set(read: &mut ConnectionString, auth: &mut Auth, given: &Given<'_>) -> Result<(), UriError> {
    let options = &mut read.options;
    match given.name.to_lowercase().as_str() {
        "retryreads" => read.retry_reads = given.boolean()?,
        "retrywrites" => read.retry_writes = given.boolean()?,
        "replicaset" => options.replica_set = Some(given.text()?),
        "directconnection" => options.direct_connection = given.boolean()?,
        "appname" => options.app_name = Some(given.app_name()?),
        "serverselectiontimeoutms" => options.server_selection_timeout = given.positive()?,
        "heartbeatfrequencyms" => options.heartbeat_frequency = given.positive()?,
        "connecttimeoutms" => options.connect_timeout = given.positive()?,
        "maxpoolsize" => options.max_pool_size = given.whole()? as usize,
        "maxconnecting" => options.max_connecting = given.one_or_more()?,
        "waitqueuetimeoutms" => options.wait_queue_timeout = given.or_none()?,
        "sockettimeoutms" => options.socket_timeout = given.or_none()?,
        "readpreference" => {
            options.read_preference = ReadPreference::from_name(given.value).ok_or_else(|| {
                given.wants("primary, primaryPreferred, secondary, secondaryPreferred or nearest")
            })?;
        }
        "authsource" => auth.source = Some(given.text()?),
        "authmechanism" => {
            if given.value != "SCRAM-SHA-256" {
                return Err(given.unsupported());
            }
            auth.mechanism = true;
        }
        "maxadaptiveretries" => read.max_adaptive_retries = Some(given.whole()?),
        "enableoverloadretargeting" => read.enable_overload_retargeting = given.boolean()?,
        "timeoutms" => read.timeout = given.or_none()?,
        // Refused, because data that should be encrypted would be sent in plain text.
        "loadbalanced" | "tls" | "ssl" => {
            if given.boolean()? {
                return Err(given.unsupported());
            }
        }
        // Without its value, which may be a secret.
        name if name.starts_with("tls") || name.starts_with("ssl") => {
            return Err(UriError::Tls(given.name.to_owned()));
        }
        _ => read
            .warnings
            .push(format!("option {}: not known, does nothing", given.name)),
    }
    Ok(())
}

struct Given<'a> {
    name: &'a str,
    value: &'a str,
}

impl Given<'_> {
    fn wants(&self, wants: &'static str) -> UriError {
        UriError::Value {
            name: self.name.to_owned(),
            value: self.value.to_owned(),
            wants,
        }
    }

    fn unsupported(&self) -> UriError {
        UriError::Unsupported {
            name: self.name.to_owned(),
            value: self.value.to_owned(),
        }
    }

    fn text(&self) -> Result<String, UriError> {
        if self.value.is_empty() {
            return Err(self.wants("a text that is not empty"));
        }
        Ok(self.value.to_owned())
    }

    fn app_name(&self) -> Result<String, UriError> {
        if self.value.len() > 128 {
            return Err(self.wants("at most 128 bytes"));
        }
        self.text()
    }

    fn boolean(&self) -> Result<bool, UriError> {
        self.value.parse().map_err(|_| self.wants("true or false"))
    }

    fn whole(&self) -> Result<u32, UriError> {
        let digits = self.value.bytes().all(|byte| byte.is_ascii_digit());
        let parsed = self.value.parse::<u32>().ok().filter(|_| digits);
        parsed.ok_or_else(|| self.wants("a whole number of at least 0"))
    }

    fn one_or_more(&self) -> Result<usize, UriError> {
        match self.whole() {
            Ok(count) if count > 0 => Ok(count as usize),
            _ => Err(self.wants("a whole number of at least 1")),
        }
    }

    fn positive(&self) -> Result<Duration, UriError> {
        match self.whole() {
            Ok(ms) if ms > 0 => Ok(Duration::from_millis(ms.into())),
            _ => Err(self.wants("a whole number of milliseconds above 0")),
        }
    }

    /// Milliseconds; 0 means no limit.
    fn or_none(&self) -> Result<Option<Duration>, UriError> {
        let ms = self.whole()?;
        Ok((ms > 0).then(|| Duration::from_millis(ms.into())))
    }
}
