//! `grpc-retry-pushback-ms`, set as metadata of a tonic status.

use super::server::{Server, Step};
use super::stack::client;
use super::*;
use reattempt::{ServerPushback, StopReason};

/// R30, R31: the policy's own back-off is an hour.
#[tokio::test]
async fn the_servers_delay_is_waited_in_place_of_the_backoff() {
    let late = config(
        r#""retryPolicy":{"maxAttempts":2,"initialBackoff":"3600s","maxBackoff":"3600s",
        "backoffMultiplier":1,"retryableStatusCodes":["UNAVAILABLE"]}"#,
    );
    let server = Server::start([Step::Fail(pushing_back("120"))]).await;
    let mut client = client(&late, &server);
    let (request, watch) = watched(item("pie"));
    let began = tokio::time::Instant::now();
    within(client.add(request)).await.expect("an answer");
    let asked = Duration::from_millis(120);
    assert!(began.elapsed() >= asked);
    let info = watch.info();
    let record = info.records().next().expect("a record");
    assert_eq!(record.delay, Some(asked));
    assert_eq!(record.pushback, Some(ServerPushback::After(asked)));
}

/// R30, R22
#[tokio::test]
async fn a_stop_ends_the_call_with_the_servers_failure() {
    for stop in ["-1", "soon", "007"] {
        let server = Server::start([Step::Fail(pushing_back(stop))]).await;
        let config = retrying(4);
        let mut client = client(&config, &server);
        let (request, watch) = watched(item("pie"));
        let status = within(client.add(request)).await.unwrap_err();
        assert_eq!(status.message(), "busy");
        let word = status.metadata().get("grpc-retry-pushback-ms");
        assert_eq!(word.expect("the caller can read it too"), stop);
        assert_eq!(watch.info().stopped(), Some(StopReason::Pushback), "{stop}");
        assert_eq!((server.seen().len(), tokens(&config)), (1, 9_000));
    }
}
