//! Failures of `reattempt call` name their cause.

use reattempt_testbed::http;

use super::{run, text};

/// The exit status and standard output of `reattempt call`.
pub(super) async fn call(arguments: &[&str]) -> (Option<i32>, String) {
    let output = run(&[&["call"], arguments].concat(), String::new()).await;
    assert_eq!(text(&output.stderr), "");
    (output.status.code(), text(&output.stdout))
}

pub(super) async fn http_server(script: impl Into<http::Script>) -> http::Server {
    http::Server::start(script.into()).await.unwrap()
}

#[tokio::test]
async fn an_http_1_server_behind_a_grpc_call_is_named() {
    let options = http::Options::new().protocol(http::Protocol::Http1);
    let server = http::Server::start_with(options, http::Step::status(200));
    let server = server.await.unwrap();
    let target = server.addr().to_string();
    for flags in [
        &["--method", "/a.B/C"][..],
        &["--protocol", "http", "--http-version", "2"],
    ] {
        let (status, said) = call(&[&[&*target], flags].concat()).await;
        assert_eq!(status, Some(1), "{said}");
        assert!(
            said.contains("the server speaks HTTP/1, not HTTP/2"),
            "{said}"
        );
    }
}

/// Python's `http.server` takes HTTP/2's first line for HTTP/0.9, and answers with a page alone.
#[tokio::test]
async fn a_server_of_another_protocol_is_named() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = listener.local_addr().unwrap().to_string();
    let server = tokio::spawn(async move {
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            let _ = socket.read(&mut [0; 64]).await;
            let _ = socket.write_all(b"<!DOCTYPE HTML><html lang=en>").await;
        }
    });
    let (status, said) = call(&[&target, "--method", "/a.B/C"]).await;
    server.abort();
    assert_eq!(status, Some(1), "{said}");
    let named = "the server speaks a text protocol, not HTTP/2";
    assert!(said.contains(named), "{said}");
}

/// As a server does that expects TLS and sends no alert: with a close, or with a reset, for bytes
/// that it did not read.
#[tokio::test]
async fn a_server_that_closes_unasked_may_expect_tls() {
    use tokio::io::AsyncReadExt;

    for reads in [true, false] {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let target = listener.local_addr().unwrap().to_string();
        let server = tokio::spawn(async move {
            loop {
                let (mut socket, _) = listener.accept().await.unwrap();
                if reads {
                    let _ = socket.read(&mut [0; 1024]).await;
                }
            }
        });
        for (flags, scheme) in [
            (&["--method", "/a.B/C"][..], "grpcs://"),
            (&["--protocol", "http", "--http-version", "2"], "https://"),
        ] {
            let (status, said) = call(&[&[&*target], flags].concat()).await;
            assert_eq!(status, Some(1), "{said}");
            let named = format!(
                "the server closed the connection before it spoke HTTP/2; it may expect TLS \
                 ({scheme})"
            );
            assert!(said.contains(&named), "reads: {reads}: {said}");
            assert!(!said.contains("runtime dropped"), "{said}");
        }
        server.abort();
    }
}

#[tokio::test]
async fn a_retry_after_of_years_is_shown_as_a_bound() {
    let years = http::Step::status(503).header("retry-after", "99999999");
    let server = http_server(years).await;
    let (status, said) = call(&[&server.uri(), "--timeout", "20s", "--give-up"]).await;
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains(", pushback 25 days or more"), "{said}");
    let why = "  stopped: deadline, no further attempt fits before the deadline\n";
    assert!(said.ends_with(why), "{said}");
}

/// It accepts the connection, and answers no step of the bootstrap.
#[tokio::test]
async fn a_bootstrap_that_hangs_names_its_node() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let node = silent.local_addr().unwrap().to_string();
    let target = format!("couchbase://{node}");
    let (status, said) = call(&[&target, "--key", "k", "--timeout", "300ms"]).await;
    assert_eq!(status, Some(1), "{said}");
    let row = format!("  cancelled (dispatch) @ {node}\n");
    assert!(said.contains(&row), "{said}");
    let why = "  stopped: deadline, the deadline ended the last attempt\n";
    assert!(said.ends_with(why), "{said}");
}

#[tokio::test]
async fn a_short_timeout_of_mongodb_names_the_cause() {
    // Bound, but it does not listen.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let target = format!("mongodb://{}/", socket.local_addr().unwrap());
    let (status, said) = call(&[&target, "--timeout", "300ms"]).await;
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("the call exceeded its deadline"), "{said}");
    assert!(said.contains("it waited for a server: "), "{said}");
    assert!(said.contains("Connection refused"), "{said}");
}

#[tokio::test]
async fn a_body_beyond_the_bound_is_cut_and_no_attempt_failed() {
    let body = "a".repeat((64 << 20) + 1);
    let server = http_server(http::Step::status(200).body(body)).await;
    let (status, said) = call(&[&server.uri()]).await;
    assert_eq!(status, Some(1));
    assert!(said.len() < 8 << 10, "{}", said.len());
    assert!(said.contains(" bytes more\n"), "{said}");
    assert!(!said.contains("HTTP_BODY_FAILED"), "{said}");
    let bound = "the answer's body has more than 67108864 bytes, the most read";
    assert!(said.contains(bound), "{said}");
}
