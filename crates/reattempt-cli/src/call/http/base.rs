//! The server's part of each URL.

use http::header::HOST;
use http::uri::Authority;
use http::{HeaderMap, Uri};

use crate::call::document::Fault;

/// The server's part of each URL.
#[derive(Clone, Debug)]
pub(super) struct Base {
    pub(super) authority: String,
    prefix: String,
}

impl Base {
    pub(super) fn of(target: &str) -> Result<Self, Fault> {
        let fault = |what: &str| Fault::new("$.target", format!("{what}, got {target:?}"));
        let rest = match target.split_once("://") {
            Some(("http", rest)) => rest,
            Some(_) => return Err(fault("must be an http:// URL (without TLS)")),
            None => target,
        };
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
        Ok(Self { authority, prefix })
    }

    pub(super) fn uri(&self, path: &str) -> Result<Uri, http::uri::InvalidUri> {
        let slash = if path.starts_with('/') { "" } else { "/" };
        format!("http://{}{}{slash}{path}", self.authority, self.prefix).parse()
    }
}

/// The same under the host that the request names itself: what its server hears is what routes match, and what HTTP/2 has no
/// header for. Dialled is the target all the same.
pub(super) fn at_host(uri: Uri, headers: &HeaderMap) -> Uri {
    let host = headers.get(HOST);
    let named = host.and_then(|host| Authority::try_from(host.as_bytes()).ok());
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
    fn a_target_is_a_url_or_an_address() {
        let uri = |target: &str, path| Base::of(target).unwrap().uri(path).unwrap().to_string();
        assert_eq!(uri("127.0.0.1:81", "/a?b"), "http://127.0.0.1:81/a?b");
        assert_eq!(uri("http://h/x/", "a"), "http://h:80/x/a");
        for wrong in ["https://h", "ftp://h", "", "a b:1"] {
            assert!(Base::of(wrong).is_err(), "{wrong}");
        }
    }
}
