//! The analytics service.

use reattempt::StopReason;
use reattempt::reason::ANALYTICS_TEMPORARY_FAILURE;

use super::*;

/// C44
#[tokio::test]
async fn three_errors_are_sent_again_whatever_the_status() {
    let node = Node::start(HttpService::analytics(), works()).await;
    for status in [200, 400, 500, 503] {
        for code in [23000, 23003, 23007] {
            let failing = fails(status, code, "try again");
            node.server
                .set_script(Script::new().then_times(3, failing).otherwise(works()));
            let ended = node.post().await;
            assert_eq!((ended.status(), ended.delays()), (200, vec![1, 2, 4]));
            assert_eq!(
                ended.reasons(),
                [ANALYTICS_TEMPORARY_FAILURE],
                "{status} {code}"
            );
        }
    }
}

/// C44: with the option too.
#[tokio::test]
async fn other_errors_are_the_callers() {
    let node = Node::start(
        HttpService::analytics().with_current_server_codes(),
        works(),
    )
    .await;
    let retry = r#"{"errors": [{"code": 24045, "msg": "m", "retry": true}]}"#;
    for step in [
        fails(500, 24000, "parse"),
        fails(401, 20000, "no credentials"),
        fails(400, 4040, "of another service"),
        fails(500, 5000, "queryport.indexNotFound"),
        fails(500, 23001, "near"),
        Step::status(500).body(retry),
        Step::status(503),
    ] {
        node.server.set_script(step);
        let before = node.sent();
        let ended = node.read_only().await;
        assert_eq!(ended.info.stopped(), Some(StopReason::Fatal));
        assert_eq!(node.sent() - before, 1);
    }
}
