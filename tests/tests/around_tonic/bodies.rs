//! The stack does not interpret messages: large and compressed ones pass unchanged.

use super::server::{Server, Step};
use super::stack::client;
use super::*;
use reattempt::StopReason;
use tonic::Code;
use tonic::codec::CompressionEncoding;

/// R51: up to the buffer's limit, 256 KiB, a request is replayed.
#[tokio::test]
async fn a_large_request_within_the_buffer_is_sent_again() {
    let server = Server::start([Step::FailAfterReading(busy())]).await;
    let mut client = client(&retrying(4), &server);
    let name = "p".repeat(200 * 1024);
    let answer = within(client.add(item(&name))).await.expect("an answer");
    assert_eq!(answer.get_ref().names, [name]);
    assert_eq!(server.seen().len(), 2);
}

/// R51: above the limit it is sent once.
#[tokio::test]
async fn a_request_beyond_the_buffer_goes_out_once() {
    let server = Server::start([Step::Serve, Step::FailAfterReading(busy())]).await;
    let mut client = client(&retrying(4), &server);
    let name = "p".repeat(3 * 1024 * 1024);
    let answer = within(client.add(item(&name))).await.expect("an answer");
    assert_eq!(answer.get_ref().names, [name.as_str()]);
    let (request, watch) = watched(item(&name));
    let status = within(client.add(request)).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    assert_eq!(watch.info().stopped(), Some(StopReason::NotReplayable));
    assert_eq!(server.seen().len(), 2);
}

/// A compressed stream is replayed byte for byte.
#[tokio::test]
async fn compressed_messages_pass_and_are_replayed() {
    let steps = [
        Step::FailAfterReading(busy()),
        Step::FailAfterReading(busy()),
    ];
    let server = Server::start(steps).await;
    let mut client = client(&retrying(4), &server)
        .send_compressed(CompressionEncoding::Gzip)
        .accept_compressed(CompressionEncoding::Gzip);
    let names = [(); 20].map(|()| "p".repeat(10_000));
    let all = tokio_stream::iter(names.clone().map(|name| item(&name)));
    let answer = within(client.fill(all)).await.expect("an answer");
    assert_eq!(answer.get_ref().names, names);
    let encoding = answer.metadata().get("grpc-encoding");
    assert_eq!(encoding.expect("it says"), "gzip");
    let seen = server.seen();
    for call in &seen {
        assert_eq!(call.metadata.get("grpc-encoding").expect("it says"), "gzip");
        assert_eq!(call.names(), names);
    }
    assert_eq!(seen.len(), 3);
}
