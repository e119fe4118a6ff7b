//! A node's address.

use std::fmt;
use std::net::{Ipv6Addr, SocketAddr};
use std::str::FromStr;

/// A host and a port. The host has no brackets; an IPv6 address is printed with them, and has one
/// text, so that equal addresses are equal.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address {
    host: Box<str>,
    port: u16,
}

/// Why a text is not an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddressError {
    /// The host is missing.
    #[error("the host is missing")]
    NoHost,
    /// The host contains characters that are not valid in a host.
    #[error("the host must be a name, an IPv4 address or an IPv6 address")]
    Host,
    /// The port is missing or not within 1 to 65535.
    #[error("the port must be a number from 1 to 65535")]
    Port,
}

impl Address {
    /// An address. Removes the brackets around an IPv6 host, and shortens it.
    #[must_use]
    pub fn new(host: &str, port: u16) -> Self {
        Self {
            host: canonical(host),
            port,
        }
    }

    /// The host, without brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    pub(super) fn with_host(mut self, host: &str) -> Self {
        self.host = canonical(host);
        self
    }
}

/// A host as it is kept and compared: without brackets, and an IPv6 address as RFC 5952 writes it.
/// A zone stays as it is.
pub(super) fn canonical(host: &str) -> Box<str> {
    let host = bare(host);
    if host.contains(':') {
        let (address, zone) = host.split_at(host.find('%').unwrap_or(host.len()));
        if let Ok(address) = address.parse::<Ipv6Addr>() {
            return format!("{address}{zone}").into();
        }
    }
    host.into()
}

/// A host without the brackets of IPv6.
pub(super) fn bare(host: &str) -> &str {
    host.strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
        .unwrap_or(host)
}

/// Whether a host can be part of an address: not empty, no blanks, no brackets, no other URL
/// syntax; with colons it must be an IPv6 address (a `host:port` would be printed as one). `$HOST`
/// is accepted.
pub(super) fn is_host(host: &str) -> bool {
    const LONGEST_NAME: usize = 253;
    if host.is_empty() || host.len() > LONGEST_NAME {
        return false;
    }
    if !host.contains(':') {
        let may_be_in_it = |byte: u8| byte.is_ascii_alphanumeric() || b"-._$".contains(&byte);
        return host.bytes().all(may_be_in_it);
    }
    let (address, zone) = host.split_once('%').unwrap_or((host, "0"));
    let is_zone = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    address.parse::<Ipv6Addr>().is_ok() && !zone.is_empty() && zone.bytes().all(is_zone)
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        Self::new(&address.ip().to_string(), address.port())
    }
}

impl FromStr for Address {
    type Err = AddressError;

    /// Parses `host:port` and `[host]:port`.
    fn from_str(text: &str) -> Result<Self, AddressError> {
        let (host, port) = text.rsplit_once(':').ok_or(AddressError::Port)?;
        let port = if port.bytes().all(|byte| byte.is_ascii_digit()) {
            port.parse().unwrap_or(0)
        } else {
            0
        };
        if port == 0 {
            return Err(AddressError::Port);
        }
        let unbracketed = bare(host);
        if unbracketed.is_empty() {
            return Err(AddressError::NoHost);
        }
        // Without brackets, a colon in the host means an IPv6 address without a port.
        let colon = unbracketed.len() == host.len() && host.contains(':');
        if colon || !is_host(unbracketed) {
            return Err(AddressError::Host);
        }
        Ok(Self::new(unbracketed, port))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}
