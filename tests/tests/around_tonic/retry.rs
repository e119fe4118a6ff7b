//! Unary calls that are retried, or not.

use super::server::{Server, Step};
use super::stack::client;
use super::*;
use reattempt::{RetryInfo, StopReason};
use tonic::Code;
use tonic::metadata::MetadataMap;

/// R10, R70, R71: tonic's `Err(Status)` is a Trailers-Only response.
#[tokio::test]
async fn a_trailers_only_status_is_retried_and_counted_in_the_head() {
    let server = Server::start([Step::Fail(busy()), Step::Fail(busy())]).await;
    let mut client = client(&retrying(4), &server);
    let answer = within(client.add(item("pie"))).await.expect("an answer");
    assert_eq!(answer.get_ref().names, ["pie"]);
    let previous_attempts = answer.metadata().get("grpc-previous-rpc-attempts");
    assert_eq!(previous_attempts.expect("it tells"), "2");
    let info = answer.extensions().get::<RetryInfo>().expect("its story");
    assert_eq!(info.attempts(), 3);
    assert_eq!(previous(&server.seen()), [None, Some("1"), Some("2")]);
}

/// R13: message, details and metadata of the last failure are returned unchanged.
#[tokio::test]
async fn the_last_failure_is_returned_as_the_server_said_it() {
    let mut metadata = MetadataMap::new();
    metadata.insert("shelf", "7".parse().expect("a value"));
    let last = Status::with_details_and_metadata(
        Code::Unavailable,
        "50% sold \u{fc}ber",
        b"\x01\x02".as_slice().into(),
        metadata,
    );
    let server = Server::start([Step::Fail(busy()), Step::Fail(last)]).await;
    let (request, watch) = watched(item("pie"));
    let mut client = client(&retrying(2), &server);
    let status = within(client.add(request)).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    assert_eq!(status.message(), "50% sold \u{fc}ber");
    assert_eq!(status.details(), b"\x01\x02");
    assert_eq!(status.metadata().get("shelf").expect("passed on"), "7");
    assert_eq!(watch.info().stopped(), Some(StopReason::Attempts));
}

/// R10
#[tokio::test]
async fn another_code_is_the_callers_at_once() {
    let server = Server::start([Step::Fail(Status::not_found("no pie"))]).await;
    let (request, watch) = watched(item("pie"));
    let mut client = client(&retrying(4), &server);
    let status = within(client.add(request)).await.unwrap_err();
    assert_eq!(
        (status.code(), status.message()),
        (Code::NotFound, "no pie")
    );
    assert_eq!(watch.info().stopped(), Some(StopReason::Fatal));
    assert_eq!(server.seen().len(), 1);
}

/// R70: not through tonic's metadata either.
#[tokio::test]
async fn a_users_own_count_never_reaches_the_server() {
    let server = Server::start([Step::Fail(busy())]).await;
    let mut request = Request::new(item("pie"));
    let count = "7".parse().expect("a value");
    request
        .metadata_mut()
        .insert("grpc-previous-rpc-attempts", count);
    request
        .metadata_mut()
        .insert("mine", "kept".parse().expect("a value"));
    let mut client = client(&retrying(2), &server);
    within(client.add(request)).await.expect("an answer");
    let seen = server.seen();
    assert_eq!(previous(&seen), [None, Some("1")]);
    for call in seen {
        assert_eq!(call.metadata.get("mine").expect("passed on"), "kept");
    }
}

/// R15: the caller drops the call between two attempts.
#[tokio::test]
async fn a_call_that_its_caller_drops_sends_no_more() {
    let late = config(
        r#""retryPolicy":{"maxAttempts":5,"initialBackoff":"3600s","maxBackoff":"3600s",
        "backoffMultiplier":1,"retryableStatusCodes":["UNAVAILABLE"]}"#,
    );
    let server = Server::start([Step::Fail(busy())]).await;
    let (request, watch) = watched(item("pie"));
    let mut client = client(&late, &server);
    let call = client.add(request);
    let failed = async {
        while watch.info().records().len() == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::select! {
        _ = call => panic!("the delay is an hour"),
        () = within(failed) => {}
    }
    let info = watch.info();
    assert_eq!(
        (info.attempts(), info.stopped()),
        (1, Some(StopReason::Cancelled))
    );
    assert_eq!(server.seen().len(), 1);
}

/// R15: the server sees that the call was dropped.
#[tokio::test]
async fn a_caller_who_leaves_cancels_the_call_on_the_server() {
    let server = Server::start([Step::Hang]).await;
    let mut client = client(&retrying(4), &server);
    let call = client.add(item("pie"));
    tokio::select! {
        _ = call => panic!("it hangs"),
        _ = server.seen_when(|seen| seen.len() == 1) => {}
    }
    let seen = server.seen_when(|seen| seen[0].cancelled).await;
    assert_eq!(seen.len(), 1);
}
