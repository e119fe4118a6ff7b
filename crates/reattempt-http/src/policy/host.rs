//! The host, and perhaps the port, that a route is for.

use http::uri::Authority;
use http::{Request, header};
use reattempt::config::{self, Json, Place};

/// A host as it stands in `match`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Host {
    name: String,
    /// `None`: any port.
    port: Option<u16>,
}

impl Host {
    pub(super) fn read(place: &mut Place<'_>, json: Json<'_>) -> Option<Self> {
        let text = json.as_str().unwrap_or_default();
        let (name, port) = split(&text);
        let parsed: Option<Authority> = name.parse().ok();
        // All of it has to be the host: no user, no path.
        let is_host = parsed.is_some_and(|parsed| parsed.host() == name) && !name.contains('*');
        let port = match port {
            _ if !is_host => {
                let must =
                    "a host such as \"example.com\", perhaps with a port as \"example.com:8443\"";
                return config::wrong(place, must, json);
            }
            None => None,
            Some(port) => match number(port) {
                None | Some(0) => {
                    return config::wrong(place, "a host with a port from 1 to 65535", json);
                }
                port => port,
            },
        };
        Some(Self {
            name: name.to_owned(),
            port,
        })
    }

    /// Whether a request is for it.
    pub(super) fn is_of<B>(&self, request: &Request<B>) -> bool {
        with_authority(request, |authority, scheme| self.matches(authority, scheme)) == Some(true)
    }

    /// Whether a request for this name is for its port too.
    pub(super) fn has_port_of<B>(&self, request: &Request<B>) -> bool {
        self.port.is_none() || self.is_of(request)
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    fn matches(&self, authority: &str, scheme: Option<&str>) -> bool {
        // Mostly the name alone.
        let (name, port) = if authority.len() == self.name.len() {
            (authority, None)
        } else {
            split(without_user(authority))
        };
        let right_port = self.port.is_none_or(|wanted| match port {
            // An empty port is the scheme's (RFC 3986, section 3.2.3).
            None | Some("") => is_default(wanted, scheme),
            Some(port) => number(port) == Some(wanted),
        });
        right_port && (name == self.name || name.eq_ignore_ascii_case(&self.name))
    }
}

/// The authority that a request is for, and its scheme: by the URI, else by the `Host` header (RFC
/// 9112, section 3.2.2: the URI's takes precedence).
pub(super) fn with_authority<B, T>(
    request: &Request<B>,
    read: impl FnOnce(&str, Option<&str>) -> T,
) -> Option<T> {
    let uri = request.uri();
    if let Some(authority) = uri.authority() {
        return Some(read(authority.as_str(), uri.scheme_str()));
    }
    let header = request.headers().get(header::HOST)?;
    let authority = Authority::try_from(header.as_bytes()).ok()?;
    Some(read(authority.as_str(), None))
}

/// The host's name in an authority.
pub(super) fn name(authority: &str) -> &str {
    split(without_user(authority)).0
}

/// The host's name in an authority, and its port if it has one.
#[cfg(feature = "tokio")]
pub(crate) fn host_and_port(authority: &str) -> (&str, Option<u16>) {
    let (host, port) = split(without_user(authority));
    (host, port.and_then(number))
}

fn without_user(authority: &str) -> &str {
    let user_ends = authority.rfind('@').map_or(0, |at| at + 1);
    &authority[user_ends..]
}

/// Whether this is the port of a request that names none. Without a URI's scheme it may be either.
fn is_default(port: u16, scheme: Option<&str>) -> bool {
    match scheme {
        None => matches!(port, 80 | 443),
        Some("http" | "ws") => port == 80,
        Some("https" | "wss") => port == 443,
        Some(_) => false,
    }
}

/// Host and port: `[::1]:80` is `[::1]` and `80`.
fn split(authority: &str) -> (&str, Option<&str>) {
    let brackets_end = authority.rfind(']').map_or(0, |at| at + 1);
    match authority[brackets_end..].find(':') {
        Some(colon) => {
            let (host, port) = authority.split_at(brackets_end + colon);
            (host, Some(&port[1..]))
        }
        None => (authority, None),
    }
}

fn number(port: &str) -> Option<u16> {
    let digits = port.bytes().all(|byte| byte.is_ascii_digit());
    port.parse().ok().filter(|_| digits)
}
