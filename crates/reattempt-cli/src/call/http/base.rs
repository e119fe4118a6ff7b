//! The scheme, authority and path of each request URL, taken from the target.

use http::header::{HOST, HeaderValue};
use http::uri::Authority;
use http::{HeaderMap, Uri};

use crate::call::document::to_base64;
use crate::call::user_info::{self, UserInfo};

/// The scheme and authority of each request URL, and the target's own path.
#[derive(Clone, Debug, Default)]
pub(super) struct Base {
    pub(super) is_tls: bool,
    pub(super) authority: String,
    /// As it was written; may be empty.
    path: String,
    /// With its question mark; may be empty.
    query: String,
    /// Basic authentication with the target's user and password, for every request: all go to the
    /// target, whatever host they name.
    pub(super) authorization: Option<HeaderValue>,
}

/// RFC 7617.
fn basic(info: &UserInfo) -> Result<HeaderValue, &'static str> {
    if info.user.contains(':') {
        return Err("Basic authentication knows no user with a colon in its name");
    }
    let pair = format!("{}:{}", info.user, info.password);
    let value = format!("Basic {}", to_base64(pair.as_bytes()));
    let mut value = HeaderValue::try_from(value).map_err(|_| "no header can have it")?;
    value.set_sensitive(true);
    Ok(value)
}

impl Base {
    /// Replaces a target with a fault, so that the paths of the calls are read.
    pub(super) fn unknown() -> Self {
        Self {
            authority: "target".to_owned(),
            ..Self::default()
        }
    }

    pub(super) fn of(target: &str) -> Result<Self, String> {
        let fault = |what: &str| format!("{what}, got {}", user_info::shown(target));
        let (is_tls, rest) = match target.split_once("://") {
            Some(("http", rest)) => (false, rest),
            Some(("https", rest)) => (true, rest),
            Some(_) => return Err(fault("must be an http:// or https:// URL")),
            None => (false, target),
        };
        let (info, rest) = user_info::split(rest).map_err(fault)?;
        let authorization = info.as_ref().map(basic).transpose().map_err(fault)?;
        let rest = rest.split('#').next().unwrap_or_default();
        let at = rest.find(['/', '?']).unwrap_or(rest.len());
        let (host, path) = rest.split_at(at);
        let (path, query) = path.split_at(path.find('?').unwrap_or(path.len()));
        let port = host.rsplit_once(':').map(|(_, port)| port.parse::<u16>());
        let authority = if matches!(port, Some(Ok(_))) {
            host.to_owned()
        } else {
            format!("{host}:{}", default_port(is_tls))
        };
        let is_usable = |authority: Authority| !authority.host().is_empty();
        if !authority.parse().is_ok_and(is_usable) {
            return Err(fault("must be a URL or host:port"));
        }
        let base = Self {
            is_tls,
            authority,
            path: path.to_owned(),
            query: query.to_owned(),
            authorization,
        };
        // Else the fault would be that of the path of each call.
        base.uri(None).map_err(|error| fault(&error))?;
        Ok(base)
    }

    /// The URL of a path below the target's own, or the target's own.
    pub(super) fn uri(&self, path: Option<&str>) -> Result<Uri, String> {
        let path = match path {
            None if self.path.is_empty() => format!("/{}", self.query),
            None => format!("{}{}", self.path, self.query),
            Some(_) if !self.query.is_empty() => {
                return Err("cannot follow a target that has a query".to_owned());
            }
            Some(path) => {
                let slash = if path.starts_with('/') { "" } else { "/" };
                format!("{}{slash}{path}", self.path.trim_end_matches('/'))
            }
        };
        let scheme = if self.is_tls { "https" } else { "http" };
        let port = format!(":{}", default_port(self.is_tls));
        let authority = self.authority.strip_suffix(&port);
        let authority = authority.unwrap_or(&self.authority);
        let uri = format!("{scheme}://{authority}{path}").parse();
        uri.map_err(|error: http::uri::InvalidUri| error.to_string())
    }
}

const fn default_port(is_tls: bool) -> u16 {
    if is_tls { 443 } else { 80 }
}

/// The URL with the host that the request names: routes match this host, and HTTP/2 has no header
/// for it. The connection still goes to the target.
pub(super) fn at_host(uri: Uri, headers: &HeaderMap) -> Uri {
    let host = headers.get(HOST);
    let named = host.and_then(|host| Authority::try_from(host.as_bytes()).ok());
    let named = named.filter(|named| !named.as_str().contains('@'));
    let Some(named) = named else { return uri };
    let mut parts = uri.clone().into_parts();
    parts.authority = Some(named);
    Uri::from_parts(parts).unwrap_or(uri)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_that_the_request_names_stands_in_the_url() {
        let at = |host: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, host.parse().unwrap());
            let uri = Base::of("127.0.0.1:81").unwrap().uri(Some("/a?b")).unwrap();
            at_host(uri, &headers).to_string()
        };
        assert_eq!(at("example.com:1"), "http://example.com:1/a?b");
        assert_eq!(at("not a host"), "http://127.0.0.1:81/a?b");
    }

    #[test]
    fn user_and_password_are_basic_authentication() {
        let base = Base::of("http://us%65r:p%40ss@h.example/x").unwrap();
        assert_eq!(base.authority, "h.example:80");
        let pair = to_base64(b"user:p@ss");
        assert!(!format!("{base:?}").contains(&pair));
        assert_eq!(base.authorization.unwrap(), format!("Basic {pair}"));
        for wrong in [
            "http://a%3Ab:hunter2@h",
            "ftp://u:hunter2@h",
            "u:hunter2@h h",
        ] {
            let fault = Base::of(wrong).unwrap_err();
            assert!(!fault.contains("hunter2"), "{fault}");
        }
    }

    #[test]
    fn a_target_is_a_url_or_an_address() {
        let below = |target: &str, path: &str| {
            let uri = Base::of(target).unwrap().uri(Some(path)).unwrap();
            uri.to_string()
        };
        assert_eq!(below("127.0.0.1:81", "/a?b"), "http://127.0.0.1:81/a?b");
        assert_eq!(below("http://h/x/", "a"), "http://h/x/a");
        assert_eq!(below("https://h/x", "/a"), "https://h/x/a");
        for wrong in [
            "ftp://h",
            "",
            "a b:1",
            "http://",
            "http://:80/a",
            "u:p@:81",
            ":81",
            "http://h/a b",
        ] {
            assert!(Base::of(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_target_s_own_path_and_query_are_asked_for() {
        for (target, expected) in [
            ("http://h:1/a/b?c=/d#e", "/a/b?c=/d"),
            ("http://h:1/a/", "/a/"),
            ("http://h:1?c", "/?c"),
            ("http://h:1", "/"),
            ("h:1/a", "/a"),
        ] {
            let uri = Base::of(target).unwrap().uri(None).unwrap();
            assert_eq!(uri.path_and_query().unwrap(), expected, "{target}");
        }
        let refused = Base::of("http://h:1/a?b").unwrap().uri(Some("/c"));
        assert_eq!(
            refused.unwrap_err(),
            "cannot follow a target that has a query"
        );
    }
}
