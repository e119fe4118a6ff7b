//! Failures of `reattempt call` name their cause.

use reattempt_testbed::http;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket};

use super::{has, http_server, run};

#[tokio::test]
async fn an_http_1_server_behind_a_grpc_call_is_named() {
    let options = http::Options::new().protocol(http::Protocol::Http1);
    let server = http::Server::start_with(options, http::Step::status(200));
    let server = server.await.unwrap();
    let target = server.addr();
    for flags in ["--method /a.B/C", "--protocol http --http-version 2"] {
        let said = run(format!("call {target} {flags}")).await.says(1);
        has(&said, ["the server speaks HTTP/1, not HTTP/2"]);
    }
}

/// Python's `http.server` takes HTTP/2's first line for HTTP/0.9, and answers with a page alone.
#[tokio::test]
async fn a_server_of_another_protocol_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = listener.local_addr().unwrap();
    let server = tokio::spawn(async move {
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            let _ = socket.read(&mut [0; 64]).await;
            let _ = socket.write_all(b"<!DOCTYPE HTML><html lang=en>").await;
        }
    });
    let said = run(format!("call {target} --method /a.B/C")).await.says(1);
    server.abort();
    has(&said, ["the server speaks a text protocol, not HTTP/2"]);
}

/// As a server does that expects TLS and sends no alert: with a close, or with a reset, for bytes
/// that it did not read.
#[tokio::test]
async fn a_server_that_closes_unasked_may_expect_tls() {
    for reads in [true, false] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let target = listener.local_addr().unwrap();
        let server = tokio::spawn(async move {
            loop {
                let (mut socket, _) = listener.accept().await.unwrap();
                if reads {
                    let _ = socket.read(&mut [0; 1024]).await;
                }
            }
        });
        for (flags, scheme) in [
            ("--method /a.B/C", "grpcs://"),
            ("--protocol http --http-version 2", "https://"),
        ] {
            let said = run(format!("call {target} {flags}")).await.says(1);
            let closed = "the server closed the connection before it spoke HTTP/2";
            let said = format!("reads: {reads}: {said}");
            has(&said, [&format!("{closed}; it may expect TLS ({scheme})")]);
            assert!(!said.contains("runtime dropped"), "{said}");
        }
        server.abort();
    }
}

#[tokio::test]
async fn a_retry_after_of_years_is_shown_as_a_bound() {
    let years = http::Step::status(503).header("retry-after", "99999999");
    let server = http_server(years).await;
    let call = format!("call {} --timeout 20s --give-up", server.uri());
    let said = run(call).await.says(1);
    has(&said, [", pushback 25 days or more"]);
    let why = "  stopped: deadline, no further attempt fits before the deadline\n";
    assert!(said.ends_with(why), "{said}");
}

/// It accepts the connection, and answers no step of the bootstrap.
#[tokio::test]
async fn a_bootstrap_that_hangs_names_its_node() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let node = silent.local_addr().unwrap();
    let call = format!("call couchbase://{node} --key k --timeout 300ms");
    let said = run(call).await.says(1);
    has(&said, [&*format!("  cancelled (dispatch) @ {node}\n")]);
    let why = "  stopped: deadline, the deadline ended the last attempt\n";
    assert!(said.ends_with(why), "{said}");
}

#[tokio::test]
async fn a_short_timeout_of_mongodb_names_the_cause() {
    // Bound, but it does not listen.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let target = format!("mongodb://{}/", socket.local_addr().unwrap());
    let said = run(format!("call {target} --timeout 300ms")).await.says(1);
    let waited = "it waited for a server: ";
    has(
        &said,
        [
            "the call exceeded its deadline",
            waited,
            "Connection refused",
        ],
    );
}

#[tokio::test]
async fn a_body_beyond_the_bound_is_cut_and_no_attempt_failed() {
    let body = "a".repeat((64 << 20) + 1);
    let server = http_server(http::Step::status(200).body(body)).await;
    let said = run(format!("call {}", server.uri())).await.says(1);
    assert!(said.len() < 8 << 10, "{}", said.len());
    assert!(!said.contains("HTTP_BODY_FAILED"), "{said}");
    let bound = "the answer's body has more than 67108864 bytes, the most read";
    has(&said, [" bytes more\n", bound]);
}
