//! The server's token bucket.

use super::server::{Server, Step};
use super::stack::client;
use super::*;
use reattempt::StopReason;

/// R20, R21, R26
#[tokio::test]
async fn a_drained_bucket_returns_the_failure_at_once() {
    let server = Server::start(vec![Step::Fail(busy()); 40]).await;
    let config = retrying(4);
    let mut client = client(&config, &server);
    let mut sent = 0;
    for _ in 0..2 {
        let status = within(client.add(item("pie"))).await.unwrap_err();
        assert_eq!(status.message(), "busy");
        sent = server.seen().len();
    }
    assert_eq!((sent, tokens(&config)), (5, 5_000));
    let (request, watch) = watched(item("pie"));
    let status = within(client.add(request)).await.unwrap_err();
    assert_eq!(status.message(), "busy", "the server's own message");
    assert_eq!(watch.info().stopped(), Some(StopReason::Throttled));
    assert_eq!(server.seen().len(), sent + 1, "one attempt, no more");
}

/// R22, R23: a unary response of tonic has a head, so it counts with its trailers. Methods without
/// a policy count too, and so does their "do not retry".
#[tokio::test]
async fn every_call_counts_once_its_status_is_known() {
    let server = Server::start([Step::Fail(pushing_back("-1"))]).await;
    let config = no_policy();
    let mut client = client(&config, &server);
    within(client.add(item("pie"))).await.unwrap_err();
    assert_eq!(tokens(&config), 9_000);
    within(client.add(item("pie"))).await.expect("an answer");
    assert_eq!(tokens(&config), 9_500);
}
