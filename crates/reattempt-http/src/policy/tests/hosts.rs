//! `match.host`, with and without a port.

use super::*;

/// Whether a route with this host matches a request for this URI, with this `Host` header.
fn matches(host: &str, uri: &str, header: Option<&[u8]>) -> bool {
    let text = format!(r#"{{"routes": [{{"match": {{"host": "{host}"}}}}]}}"#);
    let mut request = Request::builder().uri(uri);
    if let Some(header) = header {
        request = request.header("host", header);
    }
    table(&text).route(&request.body(()).unwrap()).is_some()
}

/// A route's host, a request's URI and `Host`, and whether they match.
fn check(cases: &[(&str, &str, Option<&str>, bool)]) {
    for &(host, uri, header, expected) in cases {
        let header = header.map(str::as_bytes);
        assert_eq!(
            matches(host, uri, header),
            expected,
            "{host} {uri} {header:?}"
        );
    }
}

#[test]
fn hosts_match_with_any_port_and_in_any_case() {
    check(&[
        ("Example.com", "http://example.COM:8080/", None, true),
        ("Example.com", "http://user:secret@example.com/", None, true),
        ("Example.com", "/", Some("EXAMPLE.com:443"), true),
        ("Example.com", "/", None, false),
        ("Example.com", "/", Some("example.com.evil"), false),
        ("example.com", "http://example.com.:80/", None, false),
        ("[::1]", "http://[::1]:80/", None, true),
        ("[::1]", "http://[::1]/", None, true),
        ("[::1]", "http://[::2]/", None, false),
        ("[fe80::A]", "/", Some("[FE80::a]:1"), true),
    ]);
    assert!(!matches("example.com", "/", Some(b"\xff")));
    let header = Some(b"example.com".as_slice());
    assert!(
        !matches("example.com", "http://other/", header),
        "the URI's host takes precedence"
    );
}

#[test]
fn a_host_with_a_port_matches_that_port_only() {
    check(&[
        (
            "api.example.com:8443",
            "https://API.example.com:8443/",
            None,
            true,
        ),
        (
            "api.example.com:8443",
            "https://api.example.com/",
            None,
            false,
        ),
        (
            "api.example.com:8443",
            "https://api.example.com:443/",
            None,
            false,
        ),
        (
            "api.example.com:8443",
            "https://u:8443@api.example.com/",
            None,
            false,
        ),
        ("api.example.com:8443", "https://other:8443/", None, false),
        (
            "api.example.com:8443",
            "/",
            Some("api.example.com:8443"),
            true,
        ),
        ("api.example.com:8443", "/", Some("api.example.com"), false),
        (
            "api.example.com:8443",
            "/",
            Some("api.example.com:8444"),
            false,
        ),
        ("api.example.com:8443", "/", None, false),
        // The URI's port, not the header's.
        ("a:1", "http://a:2/", Some("a:1"), false),
        ("[::1]:8080", "http://[::1]:8080/", None, true),
        ("[::1]:8080", "http://[::1]:80/", None, false),
        ("[::1]:8080", "/", Some("[::1]:8080"), true),
        // Another port written with more digits than a port has.
        ("a:80", "/", Some("a:65616"), false),
        ("a:80", "/", Some("a:080"), true),
    ]);
}

#[test]
fn a_default_port_matches_a_request_that_names_none() {
    check(&[
        ("a:443", "https://a/", None, true),
        ("a:443", "https://a:/", None, true),
        ("a:443", "https://a:443/", None, true),
        ("a:443", "wss://a/", None, true),
        ("a:443", "http://a/", None, false),
        ("a:80", "http://a/", None, true),
        ("a:80", "ws://a/", None, true),
        ("a:80", "https://a/", None, false),
        ("a:80", "other://a/", None, false),
        // Without a scheme either may be meant.
        ("a:80", "/", Some("a"), true),
        ("a:443", "/", Some("a"), true),
        ("a:443", "/", Some("a:80"), false),
        ("[::1]:443", "https://[::1]/", None, true),
    ]);
}

#[test]
fn what_is_no_host_or_no_port_is_a_fault() {
    let of = |host: &str| {
        faults(&format!(
            r#"{{"routes": [{{"match": {{"host": {host}}}}}]}}"#
        ))
    };
    let path = "$.routes[0].match.host";
    for host in [
        "",
        "*",
        "*.example.com",
        "a b",
        "u@a",
        "::1",
        "a/b",
        ":80",
        "[::1",
    ] {
        let must =
            "must be a host such as \"example.com\", perhaps with a port as \"example.com:8443\"";
        assert_eq!(
            of(&format!("\"{host}\"")),
            [format!("{path}: {must}, got \"{host}\"")]
        );
    }
    assert_eq!(of("80").len(), 1);
    for host in [
        "a:0", "a:", "a:65536", "a:8o", "a:-1", "a:+80", "a:80:80", "[::1]:0", "a:80/",
    ] {
        let must = "must be a host with a port from 1 to 65535";
        assert_eq!(
            of(&format!("\"{host}\"")),
            [format!("{path}: {must}, got \"{host}\"")]
        );
    }
}
