//! The scheme and authority of each request URL, taken from the target.

use http::header::{HOST, HeaderValue};
use http::uri::Authority;
use http::{HeaderMap, Uri};

use crate::call::document::{Fault, to_base64};
use crate::call::user_info::{self, UserInfo};

/// The scheme and authority of each request URL.
#[derive(Clone, Debug)]
pub(super) struct Base {
    pub(super) authority: String,
    prefix: String,
    /// Basic authentication with the target's user and password.
    authorization: Option<HeaderValue>,
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
    pub(super) fn of(target: &str) -> Result<Self, Fault> {
        let got = || user_info::shown(target);
        let fault = |what: &str| Fault::new("$.target", format!("{what}, got {}", got()));
        let rest = match target.split_once("://") {
            Some(("http", rest)) => rest,
            Some(_) => return Err(fault("must be an http:// URL (without TLS)")),
            None => target,
        };
        let (info, rest) = user_info::split(rest).map_err(fault)?;
        let authorization = info.as_ref().map(basic).transpose().map_err(fault)?;
        let (host, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
        let authority = if host
            .rsplit_once(':')
            .is_some_and(|(_, port)| port.parse::<u16>().is_ok())
        {
            host.to_owned()
        } else {
            format!("{host}:80")
        };
        if host.is_empty() || authority.parse::<http::uri::Authority>().is_err() {
            return Err(fault("must be a URL or host:port"));
        }
        let prefix = path.trim_end_matches('/').to_owned();
        Ok(Self {
            authority,
            prefix,
            authorization,
        })
    }

    /// The authorization for a request to this URL; none for another origin than the target.
    pub(super) fn authorization(&self, uri: &Uri) -> Option<HeaderValue> {
        let own = self.authority.parse::<Authority>().ok()?;
        let named = uri.authority()?;
        let port = |authority: &Authority| authority.port_u16().unwrap_or(80);
        let is_own = own.host().eq_ignore_ascii_case(named.host()) && port(&own) == port(named);
        self.authorization.clone().filter(|_| is_own)
    }

    pub(super) fn uri(&self, path: &str) -> Result<Uri, http::uri::InvalidUri> {
        let slash = if path.starts_with('/') { "" } else { "/" };
        format!("http://{}{}{slash}{path}", self.authority, self.prefix).parse()
    }
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
            let uri = Base::of("127.0.0.1:81").unwrap().uri("/a?b").unwrap();
            at_host(uri, &headers).to_string()
        };
        assert_eq!(at("example.com:1"), "http://example.com:1/a?b");
        assert_eq!(at("not a host"), "http://127.0.0.1:81/a?b");
    }

    #[test]
    fn user_and_password_are_basic_for_the_target_alone() {
        let base = Base::of("http://us%65r:p%40ss@h.example/x").unwrap();
        assert_eq!(base.authority, "h.example:80");
        assert!(!format!("{base:?}").contains(&to_base64(b"user:p@ss")));
        let at = |uri: &str| base.authorization(&uri.parse().unwrap());
        let expected = HeaderValue::try_from(format!("Basic {}", to_base64(b"user:p@ss")));
        for own in ["http://h.example:80/", "http://H.example/x"] {
            assert_eq!(at(own).as_ref(), Some(expected.as_ref().unwrap()));
        }
        for other in ["http://h.example:81/", "http://other:80/", "/x"] {
            assert_eq!(at(other), None, "{other}");
        }
        for wrong in [
            "http://a%3Ab:hunter2@h",
            "ftp://u:hunter2@h",
            "u:hunter2@h h",
        ] {
            let fault = Base::of(wrong).unwrap_err().to_string();
            assert!(!fault.contains("hunter2"), "{fault}");
        }
    }

    #[test]
    fn a_target_is_a_url_or_an_address() {
        let uri = |target: &str, path| Base::of(target).unwrap().uri(path).unwrap().to_string();
        assert_eq!(uri("127.0.0.1:81", "/a?b"), "http://127.0.0.1:81/a?b");
        assert_eq!(uri("http://h/x/", "a"), "http://h:80/x/a");
        for wrong in ["https://h", "ftp://h", "", "a b:1"] {
            assert!(Base::of(wrong).is_err(), "{wrong}");
        }
    }
}
