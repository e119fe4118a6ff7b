//! Cluster management.

use reattempt::StopReason;
use reattempt::reason::SOCKET_CLOSED_WHILE_IN_FLIGHT;

use super::*;

/// RFC 0049 lists no status for it.
#[tokio::test]
async fn no_status_is_sent_again() {
    let node = Node::start(HttpService::management(), works()).await;
    for status in [302, 400, 404, 408, 425, 429, 500, 502, 503, 504] {
        node.server
            .set_script(Step::status(status).body(error(4040, "of another service")));
        let before = node.sent();
        let ended = node.call(node.request(Method::GET)).await;
        assert_eq!((ended.status(), node.sent() - before), (status, 1));
        assert_eq!(ended.info.stopped(), Some(StopReason::Fatal));
    }
}

/// C32, C12: a PUT is idempotent in HTTP, but not in RFC 0049.
#[tokio::test]
async fn only_a_get_that_was_lost_is_sent_again() {
    for (method, sent) in [
        (Method::GET, 2),
        (Method::PUT, 1),
        (Method::DELETE, 1),
        (Method::POST, 1),
    ] {
        let node = Node::start(HttpService::management(), works()).await;
        node.server.script_push(Step::close_before());
        let ended = node.call(node.request(method)).await;
        assert_eq!(node.sent(), sent);
        if sent == 2 {
            assert_eq!(ended.reasons(), [SOCKET_CLOSED_WHILE_IN_FLIGHT]);
        } else {
            assert_eq!(ended.info.stopped(), Some(StopReason::NotIdempotent));
        }
    }
}
