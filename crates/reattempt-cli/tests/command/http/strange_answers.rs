//! Unusual but valid answers, and answers that violate the protocol.

use serde_json::{Value, json};

use super::super::each;
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
