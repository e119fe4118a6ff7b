//! HTTP/2 with prior knowledge: refused and reset streams, GOAWAY, closed connections.

use std::io::Result;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use super::super::{answers, document, each, ms, with};
use super::raw::{Peer, Raw};
use super::{both, only_the_get_goes_out_again, three, three_attempts};

const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const END: u8 = 1;
const END_HEADERS: u8 = 4;

const REFUSED: &str = "HTTP_STREAM_REFUSED";
const POST: &str = "aGVsbG8=";

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

fn go_away(last: u32, code: u32) -> Vec<u8> {
    let payload = [last.to_be_bytes(), code.to_be_bytes()].concat();
    frame(GOAWAY, 0, 0, &payload)
}

fn reset(stream: u32, code: u32) -> Vec<u8> {
    frame(RST_STREAM, 0, stream, &code.to_be_bytes())
}

/// `:status` as a literal, which needs no dynamic table.
fn head(stream: u32, status: &str, end: bool) -> Vec<u8> {
    let block = [&[0x08, 3], status.as_bytes()].concat();
    frame(HEADERS, END_HEADERS | u8::from(end), stream, &block)
}

impl Peer {
    async fn settings(&mut self) -> Result<()> {
        self.say(frame(SETTINGS, 0, 0, &[])).await?;
        self.until(|read| (read.len() >= 24).then_some(24)).await?;
        Ok(())
    }

    /// Reads one request to its end, and returns its stream id.
    async fn stream(&mut self) -> Result<u32> {
        loop {
            let whole = |read: &[u8]| {
                let length = read.first_chunk::<3>()?;
                let end = 9 + usize::from(length[1]) * 256 + usize::from(length[2]);
                (read.len() >= end).then_some(end)
            };
            let read = self.until(whole).await?;
            let stream = u32::from_be_bytes(read[5..9].try_into().unwrap());
            match (read[3], read[4] & END) {
                (SETTINGS, 0) => self.say(frame(SETTINGS, END, 0, &[])).await?,
                (0 | HEADERS, END) => return Ok(stream),
                _ => {}
            }
        }
    }

    async fn works(&mut self) -> Result<()> {
        loop {
            let stream = self.stream().await?;
            self.say(head(stream, "200", true)).await?;
        }
    }
}

/// Sends REFUSED_STREAM `times` times, then answers.
async fn refuses(times: usize) -> Raw {
    Raw::start(move |mut peer| async move {
        peer.settings().await?;
        for _ in 0..times {
            let stream = peer.stream().await?;
            peer.say(reset(stream, 7)).await?;
        }
        peer.works().await
    })
    .await
}

#[tokio::test]
async fn a_refused_stream_is_retried_at_once_then_by_the_policy() {
    let post = json!([{"method": "POST", "body": POST}]);
    let once = three(&refuses(1).await.target, 2, post.clone()).await;
    assert_eq!(once[0]["status"], 200, "{}", once[0]);
    assert_eq!(each(&once[0], "kind"), ["initial", "transparent"]);
    assert_eq!(each(&once[0], "delay_ms")[0], 0);
    let server = refuses(2).await;
    let twice = three(&server.target, 2, post.clone()).await;
    assert_eq!(twice[0]["status"], 200, "{}", twice[0]);
    assert_eq!(each(&twice[0], "kind"), ["initial", "transparent", "retry"]);
    assert_eq!(server.connections(), 1);
    let always = three(&refuses(99).await.target, 2, post).await;
    assert_eq!(each(&always[0], "reason"), [REFUSED; 4], "{}", always[0]);
    assert_eq!(always[0]["stopped"], "attempts");
}

/// haproxy sends it for requests that it has forwarded to a server.
#[tokio::test]
async fn an_ambiguous_refusal_may_have_been_processed() {
    let server = refuses(99).await;
    let mut policy = three_attempts();
    policy["default"]["refused"] = json!("ambiguous");
    let document = with(
        document("http", &server.target, both()),
        "version",
        json!(2),
    );
    let answers = answers(with(document, "policy", policy)).await;
    only_the_get_goes_out_again(&answers, &["HTTP_STREAM_RESET"], "in_flight");
}

#[tokio::test]
async fn any_other_reset_may_have_been_processed() {
    for code in [0, 1, 2, 8, 11] {
        let server = Raw::start(move |mut peer| async move {
            peer.settings().await?;
            loop {
                let stream = peer.stream().await?;
                peer.say(reset(stream, code)).await?;
            }
        })
        .await;
        let answers = three(&server.target, 2, both()).await;
        only_the_get_goes_out_again(&answers, &["HTTP_STREAM_RESET"], "in_flight");
    }
}

/// The first connection reads the request, sends these frames with a GOAWAY, and closes; later
/// connections answer.
async fn says_good_bye(
    frames: impl Fn(u32) -> Vec<Vec<u8>> + Clone + Send + Sync + 'static,
) -> Raw {
    Raw::start(move |mut peer| {
        let frames = frames.clone();
        async move {
            peer.settings().await?;
            if peer.number > 0 {
                return peer.works().await;
            }
            let stream = peer.stream().await?;
            for frame in frames(stream) {
                peer.say(frame).await?;
            }
            Ok(())
        }
    })
    .await
}

#[tokio::test]
async fn a_goaway_that_leaves_the_stream_out_refused_it() {
    for before in [None, Some(go_away(0x7fff_ffff, 0))] {
        let server = says_good_bye(move |_| {
            let last = Some(go_away(0, 0));
            before.clone().into_iter().chain(last).collect()
        })
        .await;
        let answers = three(&server.target, 2, json!([{"method": "POST", "body": POST}])).await;
        assert_eq!(answers[0]["status"], 200, "{}", answers[0]);
        assert_eq!(each(&answers[0], "kind"), ["initial", "transparent"]);
        assert_eq!(answers[0]["reasons"], json!([REFUSED]));
        assert_eq!(server.connections(), 2);
    }
}

/// The server may have processed it, whatever the error code of its GOAWAY.
#[tokio::test]
async fn a_stream_within_a_goaway_that_gets_no_answer_was_in_flight() {
    for code in [0, 2, 11] {
        for last in [1, 0x7fff_ffff] {
            let server = says_good_bye(move |_| vec![go_away(last, code)]).await;
            let answers = three(&server.target, 2, both()).await;
            // The GET is answered on its second connection.
            assert_eq!(answers[0]["status"], 200, "{}", answers[0]);
            assert_eq!(each(&answers[0], "kind"), ["initial", "retry"]);
            let server = says_good_bye(move |_| vec![go_away(last, code)]).await;
            let post = json!([{"method": "POST", "body": POST}]);
            let answers = three(&server.target, 2, post).await;
            assert_eq!(answers[0]["stopped"], "not_idempotent", "{}", answers[0]);
            assert_eq!(each(&answers[0], "stage"), ["in_flight"]);
            assert_eq!(server.connections(), 1);
        }
    }
}

/// One stream at a time; the second request has it when the first connection sends GOAWAY, and is
/// still answered.
async fn leaves_while_others_wait() -> Raw {
    Raw::start(|mut peer| async move {
        if peer.number > 0 {
            peer.settings().await?;
            return peer.works().await;
        }
        // SETTINGS_MAX_CONCURRENT_STREAMS.
        peer.say(frame(SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 1])).await?;
        peer.until(|read| (read.len() >= 24).then_some(24)).await?;
        let first = peer.stream().await?;
        peer.say(head(first, "200", true)).await?;
        let held = peer.stream().await?;
        // The other requests wait meanwhile; nothing of them is sent.
        tokio::time::sleep(Duration::from_millis(900)).await;
        let bye = [go_away(held, 0), head(held, "200", true)].concat();
        peer.say(bye).await?;
        peer.gone().await
    })
    .await
}

/// A call that waits for a free stream was never sent, unless all of it may have been sent with its
/// head.
#[tokio::test]
async fn a_call_that_waits_for_a_stream_survives_a_goaway() {
    for (waits, kind, stage) in [
        (
            json!({"method": "POST", "body": POST}),
            "transparent",
            "dispatch",
        ),
        (json!({"method": "POST"}), "retry", "dispatch"),
        (json!({"method": "GET"}), "retry", "in_flight"),
    ] {
        let server = leaves_while_others_wait().await;
        let at = |mut call: Value, delay: u32| {
            call["start_delay_ms"] = json!(delay);
            call["call"] = json!(delay.to_string());
            call["timeout_ms"] = json!(30_000);
            call
        };
        let post = json!({"method": "POST", "body": POST});
        let calls = json!([
            at(post.clone(), 0),
            at(post.clone(), 300),
            at(waits, 450),
            at(post, 600)
        ]);
        let document = with(document("http", &server.target, calls), "version", json!(2));
        let document = with(document, "concurrency", json!("parallel"));
        let answers = answers(with(document, "policy", three_attempts())).await;
        for answer in &answers {
            assert_eq!(answer["status"], 200, "{answer}");
            let kinds = each(answer, "kind");
            if answer["call"] == "450" {
                assert_eq!(kinds, ["initial", kind], "{answer}");
                assert_eq!(each(answer, "stage")[0], stage, "{answer}");
                assert_eq!(answer["reasons"], json!(["HTTP_CONNECTION_CLOSED"]));
            } else {
                assert_eq!(kinds, ["initial"], "{answer}");
            }
        }
        assert_eq!(server.connections(), 2);
    }
}

#[tokio::test]
async fn a_graceful_goaway_costs_no_attempt() {
    let server = Raw::start(|mut peer| async move {
        peer.settings().await?;
        let stream = peer.stream().await?;
        let bye = [go_away(0x7fff_ffff, 0), go_away(stream, 0)].concat();
        peer.say(bye).await?;
        peer.say(head(stream, "200", true)).await?;
        peer.gone().await
    })
    .await;
    let post = json!({"method": "POST", "body": POST});
    let answers = three(&server.target, 2, json!([post, post, post])).await;
    for answer in &answers {
        assert_eq!(answer["status"], 200, "{answer}");
        assert_eq!(each(answer, "n").len(), 1, "{answer}");
    }
    assert_eq!(server.connections(), 3);
}

#[tokio::test]
async fn a_connection_that_ends_with_the_request_in_flight() {
    let closed = Raw::start(|mut peer| async move {
        peer.settings().await?;
        peer.stream().await.map(drop)
    })
    .await;
    let broken = Raw::start(|mut peer| async move {
        peer.settings().await?;
        peer.stream().await?;
        peer.reset()
    })
    .await;
    for server in [closed, broken] {
        let answers = three(&server.target, 2, both()).await;
        only_the_get_goes_out_again(&answers, &["HTTP_CONNECTION_RESET"], "in_flight");
    }
}

#[tokio::test]
async fn a_body_that_is_reset_after_its_head_is_committed() {
    // Even if the error code is REFUSED_STREAM, because the caller has the head, or NO_ERROR before
    // the end.
    for code in [0, 2, 7, 8] {
        let server = Raw::start(move |mut peer| async move {
            peer.settings().await?;
            let stream = peer.stream().await?;
            let begun = [head(stream, "200", false), frame(0, 0, stream, b"abc")].concat();
            peer.say(begun).await?;
            peer.say(reset(stream, code)).await?;
            peer.gone().await
        })
        .await;
        let answers = three(&server.target, 2, json!([{}])).await;
        assert_eq!(answers[0]["status"], 200, "{}", answers[0]);
        assert_eq!(answers[0]["stopped"], "committed", "{}", answers[0]);
        assert_eq!(each(&answers[0], "reason"), ["HTTP_BODY_FAILED"]);
    }
}

#[tokio::test]
async fn a_reset_after_the_end_of_an_answer_takes_nothing_back() {
    let server = Raw::start(|mut peer| async move {
        peer.settings().await?;
        let stream = peer.stream().await?;
        let whole = [head(stream, "200", false), frame(0, END, stream, b"abc")].concat();
        peer.say([whole, reset(stream, 0)].concat()).await?;
        peer.gone().await
    })
    .await;
    let answers = three(&server.target, 2, json!([{}])).await;
    assert_eq!(answers[0]["stopped"], "success", "{}", answers[0]);
    assert_eq!(answers[0]["body"], "YWJj");
}

/// Nothing is sent while the server allows no stream, with or without a body.
#[tokio::test]
async fn a_request_that_waits_for_a_stream_was_never_in_flight() {
    let server = Raw::start(|mut peer| async move {
        // SETTINGS_MAX_CONCURRENT_STREAMS: 0
        peer.say(frame(SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 0])).await?;
        peer.gone().await
    })
    .await;
    // The first call ensures that the server's SETTINGS were received.
    let calls = json!([
        {"call": "GET", "timeout_ms": 300},
        {"call": "POST", "method": "POST", "timeout_ms": 300},
        {"call": "body", "method": "POST", "body": POST, "timeout_ms": 300},
    ]);
    let answers = three(&server.target, 2, calls).await;
    for answer in &answers[1..] {
        assert_eq!(each(answer, "stage"), ["dispatch"], "{answer}");
        assert_eq!(answer["timeout"], "unambiguous", "{answer}");
    }
}

#[tokio::test]
async fn a_failed_head_is_retried_beside_its_endless_body() {
    let server = Raw::start(|mut peer| async move {
        peer.settings().await?;
        let stream = peer.stream().await?;
        peer.say(head(stream, "503", false)).await?;
        peer.works().await
    })
    .await;
    let answers = three(&server.target, 2, json!([{}])).await;
    assert_eq!(each(&answers[0], "verdict"), ["retry", "success"]);
    assert_eq!(server.connections(), 1);
}

/// Frames that are no answer, without an end.
#[tokio::test]
async fn floods_of_frames_do_not_put_off_the_deadline() {
    let pings = frame(PING, 0, 0, b"12345678");
    for flood in [head(1, "103", false), pings, frame(SETTINGS, 0, 0, &[])] {
        let server = Raw::start(move |mut peer| {
            let frames = flood.repeat(100);
            async move {
                peer.settings().await?;
                peer.stream().await?;
                // A client that cannot send what it owes to the frames would read no more of them.
                let (mut read, mut write) = peer.socket.into_split();
                let flood = async {
                    loop {
                        write.write_all(&frames).await?;
                    }
                };
                let mut sink = tokio::io::sink();
                tokio::select! {
                    read = tokio::io::copy(&mut read, &mut sink) => read.map(drop),
                    broken = flood => broken,
                }
            }
        })
        .await;
        let calls = json!([{"method": "POST", "timeout_ms": 300}]);
        let answers = three(&server.target, 2, calls).await;
        assert_eq!(answers[0]["stopped"], "deadline", "{}", answers[0]);
        let elapsed = ms(&answers[0]["elapsed_ms"]);
        assert!((299.0..2_000.0).contains(&elapsed), "{elapsed}");
    }
}

#[tokio::test]
async fn what_is_no_http2_breaks_the_protocol() {
    for answer in [
        &b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n"[..],
        &[0xff; 64],
    ] {
        let server = Raw::start(move |mut peer| async move {
            peer.until(|read| (read.len() >= 24).then_some(0)).await?;
            peer.say(answer).await?;
            peer.gone().await
        })
        .await;
        for answer in three(&server.target, 2, both()).await {
            assert_eq!(answer["status"], serde_json::Value::Null);
            for attempt in answer["attempts"].as_array().unwrap() {
                let found = (&attempt["reason"], &attempt["stage"]);
                // The result depends on whether the connection was still open when the request was
                // handed over and when it was written.
                let broken = found == (&json!("HTTP_PROTOCOL_ERROR"), &json!("in_flight"));
                let before = found == (&json!("HTTP_PROTOCOL_ERROR"), &json!("dispatch"));
                let unsent = found == (&json!("HTTP_NEVER_SENT"), &json!("dispatch"));
                assert!(broken || before || unsent, "{answer}");
            }
        }
    }
}
