//! The status code of an answer, for every kind of server response.

use reattempt_testbed::grpc::{ErrorCode, Script, Server, Step, frame_message};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;
use crate::{answer, each};

fn gone(code: i32) -> Step {
    Step::trailers_only(code, "")
}

/// R10 R13: every code is returned to the caller with its message.
#[tokio::test]
async fn every_code_and_its_message_come_through() {
    let server = Server::start(Script::new()).await.unwrap();
    let text = "50% of \u{fc}\n done";
    for code in 1..=16 {
        for step in [
            Step::trailers_only(code, text),
            Step::headers_then_status(code).status(code, text),
        ] {
            server.set_script(step);
            let answer = answer(one(&server, json!({}))).await;
            assert_eq!(answer["code"], code);
            assert_eq!(answer["message"], text);
            assert_eq!(answer["timeout"], json!(null));
        }
    }
}

/// A Trailers-Only answer with this status.
fn says(status: &str) -> Step {
    Step::http_status(200)
        .initial("content-type", "application/grpc")
        .initial("grpc-status", status)
}

#[tokio::test]
async fn what_is_no_status_is_unknown() {
    let server = Server::start(Script::new()).await.unwrap();
    for (status, code) in [
        ("05", 5),
        ("abc", 2),
        ("", 2),
        ("-1", 2),
        ("+0", 2),
        ("+5", 2),
        (" 5", 2),
        ("17", 2),
        ("99", 2),
        ("5.0", 2),
        ("99999999999999999999", 2),
    ] {
        server.set_script(says(status));
        let answer = answer(one(&server, json!({"kind": "server_stream"}))).await;
        assert_eq!(answer["code"], code, "{status:?}: {answer}");
    }
}

/// gRPC's mapping of HTTP statuses, for answers without `grpc-status`.
#[tokio::test]
async fn an_answer_that_is_not_grpc_goes_by_its_http_status() {
    let server = Server::start(Script::new()).await.unwrap();
    for (status, code) in [
        (400, 13),
        (401, 16),
        (403, 7),
        (404, 12),
        (429, 14),
        (502, 14),
        (503, 14),
        (504, 14),
        (500, 2),
        (418, 2),
        (302, 2),
        (200, 2),
    ] {
        let page = Step::http_status(status)
            .initial("content-type", "text/html")
            .data("<html>not what you asked for</html>");
        for step in [Step::http_status(status), page] {
            server.set_script(step);
            let answer = answer(one(&server, json!({}))).await;
            assert_eq!(answer["code"], code, "{status}: {answer}");
            assert_eq!(answer["stopped"], "fatal");
            assert_eq!(answer["responses"], json!([]));
        }
    }
    server.set_script(Step::http_status(503).initial("grpc-status", "5"));
    let answer = answer(one(&server, json!({}))).await;
    assert_eq!(answer["code"], 5, "grpc-status takes precedence");
}

/// R10: such an answer has no gRPC response headers, so it may be retried.
#[tokio::test]
async fn an_answer_that_is_not_grpc_is_retried_by_its_code() {
    let unknown = || policy(2, "0.02s", json!(["UNKNOWN"]));
    let page = || Step::http_status(503).data("busy");
    let html = Step::http_status(200).initial("content-type", "text/html");
    let nothing = Step::http_status(200).initial("content-type", "application/grpc");
    for (step, config) in [
        (Step::http_status(503), retrying(2)),
        (page(), retrying(2)),
        (html.data("<html>"), unknown()),
        (nothing, unknown()),
    ] {
        let script = Script::new().then(step).otherwise(Step::ok("world"));
        let server = Server::start(script).await.unwrap();
        let answer = answer(configured(&server, config, json!({}))).await;
        assert_eq!(answer["code"], 0, "{answer}");
        assert_eq!(each(&answer, "verdict"), ["retry", "success"]);
    }
}

#[tokio::test]
async fn a_stream_without_trailers_is_internal_without_status_unknown() {
    let server = Server::start(Script::new()).await.unwrap();
    let cut = Step::http_status(200)
        .initial("content-type", "application/grpc")
        .data(frame_message(b"world"));
    for (step, code, reason) in [
        (cut, 13, "GRPC_INTERNAL"),
        (Step::ok("world").end_without_status(), 2, "GRPC_UNKNOWN"),
        (Step::ok("world").end_reset(0_u32), 13, "GRPC_INTERNAL"),
    ] {
        server.set_script(step);
        let answer = answer(configured(&server, retrying(2), json!({}))).await;
        assert_eq!(answer["code"], code, "{answer}");
        assert_eq!(answer["stopped"], "committed");
        assert_eq!(answer["responses"], json!([WORLD]));
        assert_eq!(each(&answer, "reason"), [reason]);
    }
}

/// RST_STREAM, before and after the head (gRPC over HTTP/2, Errors).
#[tokio::test]
async fn a_reset_stream_has_the_code_of_its_reset() {
    let server = Server::start(Script::new()).await.unwrap();
    for (error, code) in [
        (ErrorCode::NO_ERROR, 13),
        (ErrorCode::PROTOCOL_ERROR, 13),
        (ErrorCode::INTERNAL_ERROR, 13),
        (ErrorCode::FLOW_CONTROL_ERROR, 13),
        (ErrorCode::SETTINGS_TIMEOUT, 13),
        (ErrorCode::STREAM_CLOSED, 13),
        (ErrorCode::FRAME_SIZE_ERROR, 13),
        (ErrorCode::CANCEL, 1),
        (ErrorCode::COMPRESSION_ERROR, 13),
        (ErrorCode::CONNECT_ERROR, 13),
        (ErrorCode::ENHANCE_YOUR_CALM, 8),
        (ErrorCode::INADEQUATE_SECURITY, 7),
        (ErrorCode::HTTP_1_1_REQUIRED, 13),
        (ErrorCode(99), 13),
    ] {
        server.set_script(Step::reset(error));
        let before = answer(one(&server, json!({}))).await;
        assert_eq!(before["code"], code, "{error}: {before}");
        assert_eq!(before["stopped"], "fatal");
        assert_eq!(each(&before, "stage"), ["in_flight"]);

        server.set_script(Step::ok("world").end_reset(error).end_after(millis(20)));
        let after = answer(configured(&server, retrying(4), json!({}))).await;
        assert_eq!(after["code"], code, "{error}: {after}");
        assert_eq!(after["stopped"], "committed");
        assert_eq!(after["responses"], json!([WORLD]));
    }
}

/// A connection that closes or breaks while the call is in flight.
#[tokio::test]
async fn a_lost_connection_is_unavailable() {
    let server = Server::start(Script::new()).await.unwrap();
    for (step, stage) in [
        (Step::close(), "in_flight"),
        (Step::half_frame(), "in_flight"),
        (Step::close().goodbye(), "in_flight"),
        (
            Step::ok("world").end_close().end_after(millis(20)),
            "response",
        ),
    ] {
        server.set_script(step);
        let answer = answer(one(&server, json!({}))).await;
        assert_eq!(answer["code"], 14, "{answer}");
        assert_eq!(
            each(&answer, "kind"),
            ["initial"],
            "not transparent, it may have been processed"
        );
        assert_eq!(each(&answer, "stage"), [stage]);
    }
    // With a policy it is retried on a new connection.
    let script = Script::new()
        .then(Step::close())
        .otherwise(Step::ok("world"));
    server.set_script(script);
    let answer = answer(configured(&server, retrying(2), json!({}))).await;
    assert_eq!(answer["code"], 0, "{answer}");
    assert_eq!(each(&answer, "kind"), ["initial", "retry"]);
}

/// The peer does not speak HTTP/2.
#[tokio::test]
async fn a_peer_that_breaks_the_protocol_is_unavailable() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = listener.local_addr().unwrap().to_string();
    let peer = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut read = [0; 1024];
        // SETTINGS, then half a frame, so that the call is in flight.
        socket.write_all(b"\0\0\0\x04\0\0\0\0\0").await.unwrap();
        let mut count = 0;
        while count < 120 {
            count += socket.read(&mut read).await.unwrap();
        }
        socket
            .write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            .await
            .unwrap();
        // Reads until the client has closed the connection.
        while socket.read(&mut read).await.is_ok_and(|count| count > 0) {}
    });
    let answer = answer(document("grpc", &target, json!([call(json!({}))]))).await;
    assert_eq!(answer["code"], 14, "{answer}");
    assert_eq!(each(&answer, "kind"), ["initial"]);
    peer.await.unwrap();
}

#[tokio::test]
async fn messages_that_cannot_be_read_are_internal() {
    let server = Server::start(Script::new()).await.unwrap();
    let data = |bytes: &'static [u8]| Step::messages([""; 0]).data(bytes);
    for step in [
        // Half a message, half a prefix.
        data(b"\0\0\0\0\x09world"),
        data(b"\0\0"),
        // Compressed without agreement; an invalid flag.
        data(b"\x01\0\0\0\x01x"),
        data(b"\x02\0\0\0\x01x"),
    ] {
        server.set_script(step);
        let answer = answer(one(&server, json!({"kind": "server_stream"}))).await;
        assert_eq!(answer["code"], 13, "{answer}");
        assert_eq!(answer["stopped"], "committed");
        assert_eq!(each(&answer, "reason"), ["GRPC_INTERNAL"]);
    }
    // A status of the server takes precedence.
    server.set_script(data(b"\0\0\0\0\x09world").status(5, ""));
    assert_eq!(answer(one(&server, json!({}))).await["code"], 5);
    server.set_script(gone(5));
    assert_eq!(answer(one(&server, json!({}))).await["code"], 5);
}

#[tokio::test]
async fn messages_longer_than_their_method_allows_fail_the_call() {
    let server = Server::start(Step::messages(["hi", "world"]).end_hang())
        .await
        .unwrap();
    for (field, responses, text) in [
        ("maxRequestMessageBytes", json!([]), "request"),
        ("maxResponseMessageBytes", json!(["aGk="]), "response"),
    ] {
        let config = json!({"methodConfig": [{"name": [{}], field: 4}]});
        let call = json!({"kind": "server_stream"});
        let answer = answer(configured(&server, config, call)).await;
        assert_eq!(answer["code"], 8, "{answer}");
        let message = format!("a {text} message has 5 bytes, and at most 4 are allowed");
        assert_eq!(answer["message"], message);
        assert_eq!(answer["responses"], responses);
        assert_eq!(each(&answer, "kind"), ["initial"]);
    }
}
