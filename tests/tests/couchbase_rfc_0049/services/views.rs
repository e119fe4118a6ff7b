//! The view engine.

use reattempt::StopReason;
use reattempt::reason::{
    SOCKET_CLOSED_WHILE_IN_FLIGHT, VIEWS_NO_ACTIVE_PARTITION, VIEWS_TEMPORARY_FAILURE,
};
use reattempt::strategy::NeverRetry;

use super::*;

const VIEWS: HttpService = HttpService::views();

/// C46, C5, C6: redirects are not followed; the same node is asked again, under any strategy.
#[tokio::test]
async fn a_302_is_asked_again_in_a_controlled_way() {
    let moved = Step::status(302).header("location", "http://127.0.0.1:1/elsewhere");
    let script = Script::new().then_times(4, moved).otherwise(works());
    let node = Node::start(VIEWS, script).await.strategy(NeverRetry);
    let ended = node.call(node.request(Method::GET)).await;
    assert_eq!(
        (ended.status(), ended.delays()),
        (200, vec![1, 10, 50, 100])
    );
    assert_eq!(ended.reasons(), [VIEWS_NO_ACTIVE_PARTITION]);
}

/// C46
#[tokio::test]
async fn the_listed_statuses_are_sent_again() {
    let node = Node::start(VIEWS, works()).await;
    for status in [
        300, 301, 303, 307, 401, 408, 409, 412, 416, 417, 501, 502, 503, 504,
    ] {
        node.server
            .set_script(Script::new().then(Step::status(status)).otherwise(works()));
        let ended = node.post().await;
        assert_eq!(
            (ended.status(), ended.reasons()),
            (200, vec![VIEWS_TEMPORARY_FAILURE]),
            "{status}"
        );
    }
    for status in [304, 400, 402, 403, 405, 406, 410, 413, 429, 505] {
        node.server.set_script(Step::status(status));
        let before = node.sent();
        let ended = node.post().await;
        assert_eq!((ended.status(), node.sent() - before), (status, 1));
        assert_eq!(ended.info.stopped(), Some(StopReason::Fatal));
    }
}

/// C46
#[tokio::test]
async fn of_a_404_and_a_500_the_text_decides() {
    let node = Node::start(VIEWS, works()).await;
    for (status, body, again) in [
        (404, r#"{"error":"not_found","reason":"missing"}"#, true),
        (404, r#"{"error":"not_found","reason":"deleted"}"#, false),
        (404, "", false),
        (
            500,
            r#"{"error":"error","reason":"{not_found, missing_named_view}"}"#,
            false,
        ),
        (500, r#"{"error":"badarg"}"#, false),
        (500, r#"{"reason":"badarg"}"#, false),
        (500, r#"{"error":"case_clause","reason":"x"}"#, true),
        (500, "", true),
    ] {
        for step in [
            Step::status(status).body(body),
            Step::status(status).body(body).in_pieces(1, Duration::ZERO),
        ] {
            node.server
                .set_script(Script::new().then(step).otherwise(works()));
            let ended = node.post().await;
            let expected = if again { (200, ROWS) } else { (status, body) };
            assert_eq!((ended.status(), ended.text()), expected, "{body}");
            let reasons: &[_] = if again {
                &[VIEWS_TEMPORARY_FAILURE]
            } else {
                &[]
            };
            assert_eq!(ended.reasons(), reasons);
        }
    }
}

/// C12
#[tokio::test]
async fn a_text_that_breaks_off_is_a_socket_that_was_closed() {
    let body = r#"{"error":"not_found","reason":"missing"}"#;
    let node = Node::start(VIEWS, works()).await;
    node.server
        .script_push(Step::close_during_body(30).with_status(404).body(body));
    let ended = node.post().await;
    assert_eq!(
        (ended.status(), ended.reasons()),
        (200, vec![SOCKET_CLOSED_WHILE_IN_FLIGHT])
    );
}
