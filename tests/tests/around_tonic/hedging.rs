//! Hedges of all kinds of calls, and the cancelled attempts as the server sees them.

use super::server::{Server, Step};
use super::stack::client;
use super::*;
use reattempt::AttemptOutcome;
use tonic::Code;

/// R40, R41, R50
#[tokio::test]
async fn the_first_answer_wins_and_the_server_sees_the_rest_cancelled() {
    let server = Server::start([Step::Hang, Step::Hang]).await;
    let mut client = client(&hedging(3, "0.01s"), &server);
    let (request, watch) = watched(item("pie"));
    let answer = within(client.add(request)).await.expect("an answer");
    assert_eq!(answer.get_ref().names, ["pie"]);
    let lost = |seen: &Vec<Seen>| seen.iter().filter(|call| call.cancelled).count() == 2;
    let seen = server.seen_when(lost).await;
    assert_eq!(previous(&seen), [None, Some("1"), Some("2")]);
    let info = watch.info();
    let outcomes = info.records().map(|record| record.outcome);
    assert!(outcomes.eq([
        AttemptOutcome::Cancelled,
        AttemptOutcome::Cancelled,
        AttemptOutcome::Committed
    ]));
}

/// R41: the head of a stream commits the call.
#[tokio::test]
async fn the_first_stream_to_begin_wins() {
    let server = Server::start([Step::Hang]).await;
    let mut client = client(&hedging(2, "0.01s"), &server);
    let answer = within(client.list(items("pie", 3))).await;
    let mut stream = answer.expect("a stream").into_inner();
    let mut count = 0;
    while within(stream.message()).await.expect("a message").is_some() {
        count += 1;
    }
    assert_eq!(count, 3);
    let seen = server.seen_when(|seen| seen[0].cancelled).await;
    assert_eq!(previous(&seen), [None, Some("1")]);
}

/// R40, R51: each hedge sends the whole request.
#[tokio::test]
async fn hedges_of_a_client_stream_send_all_of_it() {
    let server = Server::start([Step::Hang]).await;
    let mut client = client(&hedging(2, "0.01s"), &server);
    let all = tokio_stream::iter(["apples", "pears"].map(item));
    let answer = within(client.fill(all)).await.expect("an answer");
    assert_eq!(answer.get_ref().names, ["apples", "pears"]);
    let seen = server.seen_when(|seen| seen[0].cancelled).await;
    for call in &seen {
        assert_eq!(call.names(), ["apples", "pears"]);
    }
}

/// R42
#[tokio::test]
async fn a_fatal_status_ends_all_of_them() {
    let server = Server::start([Step::Hang, Step::Fail(Status::not_found("no pie"))]).await;
    let mut client = client(&hedging(2, "0.01s"), &server);
    let status = within(client.add(item("pie"))).await.unwrap_err();
    assert_eq!(status.code(), Code::NotFound);
    let seen = server.seen_when(|seen| seen[0].cancelled).await;
    assert_eq!(seen.len(), 2);
}

/// R43, R47: the delay of an hour is not waited out.
#[tokio::test]
async fn a_non_fatal_status_sends_the_next_hedge_at_once() {
    let steps = [
        Step::Fail(busy()),
        Step::Fail(Status::unavailable("the last")),
    ];
    let server = Server::start(steps).await;
    let mut client = client(&hedging(2, "3600s"), &server);
    let status = within(client.add(item("pie"))).await.unwrap_err();
    assert_eq!(status.message(), "the last");
    assert_eq!(server.seen().len(), 2);
}
