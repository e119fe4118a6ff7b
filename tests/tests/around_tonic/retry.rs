//! Unary calls that are retried: tonic's status, its metadata and details.

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
