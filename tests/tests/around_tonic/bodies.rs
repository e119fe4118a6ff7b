//! The stack does not interpret messages: compressed ones pass unchanged.

use super::server::{Server, Step};
use super::stack::client;
use super::*;
use tonic::codec::CompressionEncoding;

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
