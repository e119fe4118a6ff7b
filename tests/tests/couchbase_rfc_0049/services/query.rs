//! The query service.

use reattempt::StopReason;
use reattempt::reason::{
    QUERY_INDEX_NOT_FOUND, QUERY_PREPARED_STATEMENT_FAILURE, SERVICE_RESPONSE_CODE_INDICATED,
    SOCKET_CLOSED_WHILE_IN_FLIGHT, SOCKET_NOT_AVAILABLE,
};
use reattempt::strategy::NeverRetry;

use super::*;

const QUERY: HttpService = HttpService::query();
const INDEX: &str = "Index Not Found - cause: queryport.indexNotFound";

/// C41, C42, C3: also if not read-only, because nothing has happened. With any status.
#[tokio::test]
async fn the_listed_errors_are_sent_again() {
    let node = Node::start(QUERY, works()).await;
    for status in [200, 400, 404, 500, 503] {
        for (code, message, reason) in [
            (4040, "", QUERY_PREPARED_STATEMENT_FAILURE),
            (4050, "", QUERY_PREPARED_STATEMENT_FAILURE),
            (4070, "", QUERY_PREPARED_STATEMENT_FAILURE),
            (5000, INDEX, QUERY_INDEX_NOT_FOUND),
        ] {
            node.server.set_script(
                Script::new()
                    .then_times(2, fails(status, code, message))
                    .otherwise(works()),
            );
            let before = node.sent();
            let ended = node.post().await;
            assert_eq!(
                (ended.text(), ended.code()),
                (ROWS, None),
                "{status} {code}"
            );
            assert_eq!(ended.reasons(), [reason]);
            assert_eq!((ended.delays(), node.sent() - before), (vec![1, 2], 3));
            let code = Some(code);
            let failures = ended.info.records().filter_map(|record| record.failure);
            assert!(failures.map(|failure| failure.code).eq([code, code]));
        }
    }
}

/// C41, C42, C43: without the option.
#[tokio::test]
async fn other_errors_are_the_callers() {
    let node = Node::start(QUERY, works()).await;
    for (status, code, message) in [
        (400, 3000, "syntax error"),
        (200, 1080, "timeout"),
        (500, 5000, "some internal error"),
        (400, 4060, ""),
        (400, 4080, ""),
        (400, 4090, ""),
        (429, 1191, "rate limit"),
        (401, 13014, "no credentials"),
        (503, 23000, "of another service"),
        (500, 12004, INDEX),
    ] {
        node.server.set_script(fails(status, code, message));
        let before = node.sent();
        let ended = node.read_only().await;
        assert_eq!((ended.status(), ended.code()), (status, Some(code)));
        assert_eq!(ended.text(), error(code, message), "unchanged");
        assert_eq!(ended.info.stopped(), Some(StopReason::Fatal), "{code}");
        assert_eq!(node.sent() - before, 1);
    }
}

/// C41, C43
#[tokio::test]
async fn the_option_adds_codes_and_the_services_own_word() {
    let node = Node::start(QUERY.with_current_server_codes(), works()).await;
    let says_retry = |code: i32| {
        Step::status(200).body(format!(
            r#"{{"errors": [{{"code": {code}, "msg": "m", "retry": true}}]}}"#
        ))
    };
    for (step, reason) in [
        (fails(400, 4060, ""), Some(QUERY_PREPARED_STATEMENT_FAILURE)),
        (fails(400, 4080, ""), Some(QUERY_PREPARED_STATEMENT_FAILURE)),
        (fails(400, 4090, ""), Some(QUERY_PREPARED_STATEMENT_FAILURE)),
        (says_retry(17013), Some(SERVICE_RESPONSE_CODE_INDICATED)),
        (says_retry(12016), None),
    ] {
        node.server
            .set_script(Script::new().then(step).otherwise(works()));
        let before = node.sent();
        let ended = node.post().await;
        assert!(ended.reasons().into_iter().eq(reason));
        assert_eq!(node.sent() - before, if reason.is_some() { 2 } else { 1 });
    }
}

/// C41, C7: the node loses the prepared statement each time.
#[tokio::test]
async fn a_statement_that_is_never_there_ends_at_the_deadline() {
    let node = Node::start(QUERY, fails(404, 4040, "no such prepared statement")).await;
    let node = node.limit(Duration::from_millis(400));
    let ended = node.post().await;
    assert!(!ended.elapsed().ambiguous, "each attempt was answered");
    assert_eq!(ended.reasons(), [QUERY_PREPARED_STATEMENT_FAILURE]);
    let attempts = ended.elapsed().info.attempts();
    assert_eq!(usize::try_from(attempts).unwrap(), node.sent());
    assert!(attempts >= 3, "{attempts}");
}

/// C6
#[tokio::test]
async fn fail_fast_returns_the_first_error() {
    let node = Node::start(QUERY, fails(404, 4040, ""))
        .await
        .strategy(NeverRetry);
    let ended = node.post().await;
    assert_eq!(
        (ended.status(), ended.code(), node.sent()),
        (404, Some(4040), 1)
    );
    assert_eq!(ended.info.stopped(), Some(StopReason::Attempts));
}

/// C12, C32: the statement may have been executed.
#[tokio::test]
async fn a_statement_lost_in_flight_is_retried_only_if_read_only() {
    for lost in [Step::close_before(), Step::reset(), Step::half_frame()] {
        let node = Node::start(QUERY, works()).await;
        node.server.script_push(lost.clone());
        let ended = node.read_only().await;
        assert_eq!((ended.text(), node.sent()), (ROWS, 2));
        assert_eq!(ended.reasons(), [SOCKET_CLOSED_WHILE_IN_FLIGHT]);
        node.server.script_push(lost);
        let ended = node.post().await;
        assert!(ended.outcome.is_err(), "the client's own error");
        assert_eq!(ended.info.stopped(), Some(StopReason::NotIdempotent));
        assert_eq!(node.sent(), 3);
    }
}

/// C13: a request that never left the client cannot have been processed.
#[tokio::test]
async fn a_statement_that_was_never_sent_is_sent_again() {
    let node = Node::start(QUERY, works())
        .await
        .limit(Duration::from_millis(300));
    node.server.stop().await;
    let ended = node.post().await;
    assert!(!ended.elapsed().ambiguous);
    assert_eq!(
        ended.elapsed().info.reasons().collect::<Vec<_>>(),
        [SOCKET_NOT_AVAILABLE]
    );
    assert!(ended.elapsed().info.attempts() > 2);
}
