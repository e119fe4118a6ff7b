//! Unusual but valid answers, and answers that violate the protocol.

use std::time::Duration;

use serde_json::{Value, json};

use super::super::{each, ms};
use super::raw::{OK, Raw};
use super::{both, only_the_get_goes_out_again, three};

async fn says(answer: String) -> Raw {
    Raw::start(move |mut peer| {
        let answer = answer.clone();
        async move {
            peer.request().await?;
            peer.say(answer).await?;
            peer.gone().await
        }
    })
    .await
}

#[tokio::test]
async fn informational_answers_come_before_the_answer() {
    let hints = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n";
    let server = says(format!("{hints}{OK}")).await;
    let answers = three(&server.target, 1, json!([{}])).await;
    assert_eq!(answers[0]["status"], 200, "{}", answers[0]);
    assert_eq!(answers[0]["headers"]["link"], Value::Null);
    assert_eq!(each(&answers[0], "verdict"), ["success"]);
}

const HINT: &str = "HTTP/1.1 103 E\r\na: b\r\n\r\n";

/// This without an end, as the only answer.
async fn says_for_ever(hint: String, pause: Duration) -> Raw {
    Raw::start(move |mut peer| {
        let hint = hint.clone();
        async move {
            peer.request().await?;
            loop {
                peer.say(&hint).await?;
                tokio::time::sleep(pause).await;
            }
        }
    })
    .await
}

#[tokio::test]
async fn informational_answers_without_an_end_are_no_answer() {
    let hint = format!("HTTP/1.1 103 E\r\na: {}\r\n\r\n", "b".repeat(10_000));
    let server = says_for_ever(hint, Duration::ZERO).await;
    let answers = three(&server.target, 1, both()).await;
    only_the_get_goes_out_again(&answers, &["HTTP_PROTOCOL_ERROR"], "in_flight");
    for answer in &answers {
        let error = answer["error"].as_str().unwrap();
        assert!(error.contains("more than 1 MiB before the head"), "{error}");
    }
    assert_eq!(server.connections(), 4);
}

/// Too slow for the bound of their bytes.
#[tokio::test]
async fn informational_answers_do_not_put_off_the_deadline() {
    let server = says_for_ever(HINT.repeat(100), Duration::from_millis(20)).await;
    let answers = three(&server.target, 1, json!([{"timeout_ms": 300}])).await;
    assert_eq!(answers[0]["stopped"], "deadline", "{}", answers[0]);
    let elapsed = ms(&answers[0]["elapsed_ms"]);
    assert!((299.0..2_000.0).contains(&elapsed), "{elapsed}");
}

/// The bound is that of what comes before each head, on a kept connection too.
#[tokio::test]
async fn answers_are_as_long_as_they_like_after_their_head() {
    let length = 3 << 20;
    let server = Raw::start(move |mut peer| async move {
        loop {
            peer.request().await?;
            let hints = HINT.repeat(20_000);
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n");
            peer.say([hints, head, "x".repeat(length)].concat()).await?;
        }
    })
    .await;
    for answer in three(&server.target, 1, json!([{}, {}, {}])).await {
        assert_eq!(answer["stopped"], "success", "{}", answer["error"]);
        let body = answer["body"].as_str().unwrap();
        assert_eq!(body.len(), length / 3 * 4);
    }
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn answers_without_a_body_are_whole() {
    for head in [
        "HTTP/1.1 204 No Content\r\n\r\n",
        "HTTP/1.1 304 Not Modified\r\ncontent-length: 9\r\n\r\n",
    ] {
        let server = says(head.to_owned()).await;
        let answers = three(&server.target, 1, json!([{}])).await;
        assert_eq!(answers[0]["stopped"], "success", "{}", answers[0]);
    }
    let server = says("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n".to_owned()).await;
    let answers = three(&server.target, 1, json!([{"method": "HEAD"}])).await;
    assert_eq!(answers[0]["stopped"], "success", "{}", answers[0]);
    assert_eq!(answers[0]["headers"]["content-length"], json!(["9"]));
}

#[tokio::test]
async fn a_large_head_is_read() {
    let long = "a".repeat(100_000);
    let server = says(format!(
        "HTTP/1.1 200 OK\r\nx: {long}\r\ncontent-length: 0\r\n\r\n"
    ))
    .await;
    let answers = three(&server.target, 1, json!([{}])).await;
    assert_eq!(answers[0]["headers"]["x"], json!([long]));
    let many: String = (0..500).map(|n| format!("x-{n}: 1\r\n")).collect();
    let server = says(format!(
        "HTTP/1.1 200 OK\r\n{many}content-length: 0\r\n\r\n"
    ))
    .await;
    let answers = three(&server.target, 1, json!([{}])).await;
    assert_eq!(
        answers[0]["headers"]["x-499"],
        json!(["1"]),
        "{}",
        answers[0]
    );
}

#[tokio::test]
async fn an_answer_that_breaks_the_protocol_is_none() {
    for answer in [
        "220 smtp.example ready\r\n\r\n".to_owned(),
        "HTTP/1.1 200 OK\r\ncontent-length: -2\r\n\r\nok".to_owned(),
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\nok".to_owned(),
        "HTTP/1.1 200 OK\r\nno colon\r\n\r\n".to_owned(),
        "HTTP/1.1 99999 OK\r\n\r\n".to_owned(),
        format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "a".repeat(600_000)),
        "\0\u{1}\u{2}\u{3}\r\n\r\n".to_owned(),
    ] {
        let server = says(answer.clone()).await;
        let answers = three(&server.target, 1, both()).await;
        only_the_get_goes_out_again(&answers, &["HTTP_PROTOCOL_ERROR"], "in_flight");
    }
}
