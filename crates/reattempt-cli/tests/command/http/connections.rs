//! Connections that are closed, broken or refused before an answer.

use std::time::Duration;

use serde_json::json;

use super::super::{each, with};
use super::raw::{OK, Raw};
use super::{both, only_the_get_goes_out_again, three};

const CLOSED: &str = "HTTP_CONNECTION_CLOSED";
const RESET: &str = "HTTP_CONNECTION_RESET";

#[tokio::test]
async fn closed_after_the_request_it_may_have_been_processed() {
    let server = Raw::start(|mut peer| async move { peer.request().await.map(drop) }).await;
    let answers = three(&server.target, 1, both()).await;
    only_the_get_goes_out_again(&answers, &[CLOSED], "in_flight");
    assert_eq!(server.heads().len(), 4);
    assert_eq!(each(&answers[0], "delay_ms")[..2], [json!(10), json!(20)]);
}

#[tokio::test]
async fn broken_after_the_request_it_may_have_been_processed() {
    let server = Raw::start(|mut peer| async move {
        peer.request().await?;
        peer.reset()
    })
    .await;
    let answers = three(&server.target, 1, both()).await;
    only_the_get_goes_out_again(&answers, &[RESET], "in_flight");
}

#[tokio::test]
async fn closed_in_the_middle_of_the_answers_head_there_is_no_answer() {
    for begun in [
        "HTTP/1.1 200 OK\r\ncontent-le",
        "HTTP/1.1 100 Continue\r\n\r\n",
        "H",
    ] {
        let server = Raw::start(move |mut peer| async move {
            peer.request().await?;
            peer.say(begun).await
        })
        .await;
        let answers = three(&server.target, 1, both()).await;
        only_the_get_goes_out_again(&answers, &[CLOSED], "in_flight");
    }
}

/// A server that accepts connections and drops them: an unwritten request may be sent again,
/// whatever its method.
#[tokio::test]
async fn closed_before_the_request_the_stage_tells_if_it_was_sent() {
    let server = Raw::start(|_| async { Ok(()) }).await;
    for answer in three(&server.target, 1, both()).await {
        for attempt in answer["attempts"].as_array().unwrap() {
            match attempt["reason"].as_str().unwrap() {
                "HTTP_NEVER_SENT" => assert_eq!(attempt["stage"], "dispatch"),
                CLOSED | RESET => assert_eq!(attempt["stage"], "in_flight"),
                other => panic!("{other}: {answer}"),
            }
        }
        if answer["call"] == "POST" {
            let in_flight = each(&answer, "stage");
            let in_flight = in_flight.iter().filter(|stage| *stage == "in_flight");
            assert!(in_flight.count() <= 1, "never again once sent: {answer}");
        }
    }
}

#[tokio::test]
async fn a_reused_connection_that_dies_after_the_request_is_in_flight() {
    for (method, attempts, stopped) in [("GET", 2, "success"), ("POST", 1, "not_idempotent")] {
        let server = Raw::start(|mut peer| async move {
            peer.request().await?;
            peer.say(OK).await?;
            if peer.number > 0 {
                return peer.always(OK).await;
            }
            // Reads the whole request and never answers.
            peer.request().await.map(drop)
        })
        .await;
        let calls = json!([{}, {"method": method}, {}]);
        let answers = three(&server.target, 1, calls).await;
        assert_eq!(each(&answers[1], "n").len(), attempts, "{}", answers[1]);
        assert_eq!(answers[1]["stopped"], stopped);
        assert_eq!(each(&answers[1], "reason")[0], CLOSED);
        assert_eq!(answers[2]["status"], 200);
        assert_eq!(
            server.connections(),
            2,
            "the third call reuses the second's"
        );
    }
}

#[tokio::test]
async fn a_kept_connection_that_ended_meanwhile_costs_no_attempt() {
    let server = Raw::start(|mut peer| async move {
        peer.request().await?;
        peer.say(OK).await
    })
    .await;
    let post = json!({"method": "POST", "start_delay_ms": 30});
    let answers = three(&server.target, 1, json!([post, post, post])).await;
    for answer in &answers {
        assert_eq!(answer["status"], 200, "{answer}");
        assert_eq!(each(answer, "n").len(), 1, "{answer}");
    }
    assert_eq!(server.connections(), 3);
}

#[tokio::test]
async fn an_answer_that_comes_before_all_of_the_request_counts() {
    let server = Raw::start(|mut peer| async move {
        if peer.number > 0 {
            return peer.always(OK).await;
        }
        peer.until(|read| (read.len() > 100).then_some(0)).await?;
        peer.say("HTTP/1.1 503 Busy\r\nconnection: close\r\ncontent-length: 4\r\n\r\nbusy")
            .await?;
        peer.gone().await
    })
    .await;
    let large = "eHh4".repeat(500_000);
    let answers = three(&server.target, 1, json!([{"method": "PUT", "body": large}])).await;
    assert_eq!(answers[0]["status"], 200, "{}", answers[0]["attempts"]);
    assert_eq!(answers[0]["reasons"], json!(["HTTP_SERVICE_UNAVAILABLE"]));
}

/// The rest arrives during the back-off. A large rest is not awaited.
#[tokio::test]
async fn a_failed_answer_with_a_small_body_keeps_its_connection() {
    for (rest, connections) in [(20_usize, 1), (200_000, 2)] {
        let server = Raw::start(move |mut peer| async move {
            peer.request().await?;
            if peer.number > 0 {
                peer.say(OK).await?;
                return peer.gone().await;
            }
            let head = format!("HTTP/1.1 503 Busy\r\ncontent-length: {rest}\r\n\r\n");
            peer.say(head).await?;
            tokio::time::sleep(Duration::from_millis(20)).await;
            peer.say("x".repeat(rest)).await?;
            peer.always(OK).await
        })
        .await;
        let document = super::super::document("http", &server.target, json!([{}]));
        let backoff = json!({"initial": "0.4s", "jitter": "none"});
        let policy = json!({"default": {"retry": {"backoff": backoff}}});
        let answer = super::super::answer(with(document, "policy", policy)).await;
        assert_eq!(each(&answer, "verdict"), ["retry", "success"], "{answer}");
        assert_eq!(server.connections(), connections);
    }
}
