//! The search service.

use reattempt::StopReason;
use reattempt::reason::{SEARCH_TOO_MANY_REQUESTS, SOCKET_CLOSED_WHILE_IN_FLIGHT};

use super::*;

const SEARCH: HttpService = HttpService::search();

fn refused(text: &str) -> Step {
    let body = format!(r#"{{"error": "rest_index: Query, err: {text}", "status": "fail"}}"#);
    Step::status(429).body(body)
}

/// C45
#[tokio::test]
async fn a_429_is_sent_again_and_no_other_status() {
    let node = Node::start(SEARCH, works()).await;
    let limit = "num_queries_per_min";
    node.server.set_script(
        Script::new()
            .then(refused("busy"))
            .then(refused(limit))
            .otherwise(works()),
    );
    let ended = node.post().await;
    assert_eq!((ended.status(), ended.delays()), (200, vec![1, 2]));
    assert_eq!(ended.reasons(), [SEARCH_TOO_MANY_REQUESTS]);
    for status in [400, 401, 403, 404, 408, 412, 500, 502, 503, 504] {
        node.server
            .set_script(Step::status(status).body(r#"{"error": "e"}"#));
        let before = node.sent();
        let ended = node.post().await;
        assert_eq!((ended.status(), node.sent() - before), (status, 1));
        assert_eq!(ended.info.stopped(), Some(StopReason::Fatal));
    }
}

/// C45
#[tokio::test]
async fn with_the_option_a_limit_is_final() {
    let node = Node::start(SEARCH.with_current_server_codes(), works()).await;
    node.server.set_script(
        Script::new()
            .then(refused("busy"))
            .otherwise(refused("num_concurrent_requests")),
    );
    let ended = node.post().await;
    assert_eq!((ended.status(), node.sent()), (429, 2));
    assert_eq!(ended.info.stopped(), Some(StopReason::Fatal));
    assert!(ended.text().contains("num_concurrent_requests"));
}

/// C32, C12: a search is a read, although it is a POST.
#[tokio::test]
async fn a_search_that_was_lost_is_sent_again() {
    for step in [
        Step::close_before(),
        Step::close_during_body(3).body("{\"hits\": []}"),
        Step::reset_during_body(3).body("{\"hits\": []}"),
    ] {
        let node = Node::start(SEARCH, works()).await;
        node.server.script_push(step);
        let ended = node.post().await;
        assert_eq!((ended.text(), node.sent()), (ROWS, 2));
        assert_eq!(ended.reasons(), [SOCKET_CLOSED_WHILE_IN_FLIGHT]);
    }
}
