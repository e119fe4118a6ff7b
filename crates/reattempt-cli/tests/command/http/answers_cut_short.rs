//! Answers whose body breaks off, has a wrong length or never ends.

use serde_json::{Value, json};

use super::super::each;
use super::raw::{OK, Raw};
use super::{both, three};

const BROKEN: [&str; 5] = [
    "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc",
    "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n",
    "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhe",
    "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\nhello\r\n",
    "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFF\r\nhello\r\n",
];

#[tokio::test]
async fn a_good_head_with_a_broken_body_is_committed_and_no_success() {
    for broken in BROKEN {
        let server = Raw::start(move |mut peer| async move {
            peer.request().await?;
            peer.say(broken).await
        })
        .await;
        for answer in three(&server.target, 1, both()).await {
            assert_eq!(answer["status"], 200, "{answer}");
            assert_eq!(answer["stopped"], "committed", "{answer}");
            assert_eq!(each(&answer, "verdict"), ["fatal"], "{answer}");
            assert_eq!(each(&answer, "reason"), ["HTTP_BODY_FAILED"]);
            assert_eq!(each(&answer, "stage"), ["response"]);
            assert!(answer["error"].is_string(), "{answer}");
        }
        assert_eq!(server.heads().len(), 2, "each call was sent once");
    }
}

/// The status already shows the failure: the rest of the body is not awaited.
#[tokio::test]
async fn a_failed_answer_is_retried_without_its_body() {
    for begun in [
        "HTTP/1.1 503 Busy\r\ncontent-length: 10\r\n\r\nabc",
        "HTTP/1.1 503 Busy\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhe",
    ] {
        let server = Raw::start(move |mut peer| async move {
            if peer.number > 0 {
                return peer.always(OK).await;
            }
            peer.request().await?;
            peer.say(begun).await?;
            peer.gone().await
        })
        .await;
        let answers = three(&server.target, 1, json!([{}])).await;
        assert_eq!(answers[0]["status"], 200, "{}", answers[0]);
        assert_eq!(each(&answers[0], "verdict"), ["retry", "success"]);
        assert_eq!(server.connections(), 2, "the first is not reused");
    }
}

#[tokio::test]
async fn the_last_failed_answer_reaches_the_caller_as_far_as_it_came() {
    let server = Raw::start(|mut peer| async move {
        peer.request().await?;
        peer.say("HTTP/1.1 503 Busy\r\nx-a: b\r\ncontent-length: 10\r\n\r\nabc")
            .await
    })
    .await;
    let answers = three(&server.target, 1, json!([{}])).await;
    let answer = &answers[0];
    assert_eq!(answer["status"], 503, "{answer}");
    assert_eq!(answer["headers"]["x-a"], json!(["b"]));
    assert_eq!(answer["body"], "YWJj");
    assert_eq!(answer["stopped"], "attempts", "{answer}");
    let error = answer["error"].as_str().unwrap();
    assert!(error.starts_with("the answer's body broke off"), "{error}");
}

/// Bytes beyond the announced length belong neither to this answer nor to a later one.
#[tokio::test]
async fn more_than_was_announced_is_no_answer_to_the_next_request() {
    let server = Raw::start(|mut peer| async move {
        loop {
            peer.request().await?;
            peer.say(format!("{OK}HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n"))
                .await?;
        }
    })
    .await;
    let answers = three(&server.target, 1, json!([{}, {}, {}])).await;
    let statuses: Vec<_> = answers.iter().map(|answer| &answer["status"]).collect();
    assert_eq!(statuses, [200, 200, 200], "{answers:?}");
    assert_eq!(server.connections(), 3);
}

#[tokio::test]
async fn a_body_without_an_announced_end_ends_with_the_connection() {
    let server = Raw::start(|mut peer| async move {
        peer.request().await?;
        peer.say("HTTP/1.0 200 OK\r\n\r\nhello").await
    })
    .await;
    let answers = three(&server.target, 1, json!([{}])).await;
    assert_eq!(answers[0]["body"], "aGVsbG8=");
    assert_eq!(answers[0]["stopped"], "success");
    assert_eq!(answers[0]["error"], Value::Null);
}
