//! Bodies in chunks, truncated, broken off, endless, and not JSON.

use reattempt::reason::{QUERY_PREPARED_STATEMENT_FAILURE, SOCKET_CLOSED_WHILE_IN_FLIGHT};
use reattempt::{Stage, StopReason};

use super::*;

const QUERY: HttpService = HttpService::query();

/// C41: in chunks of one byte, in larger chunks, or whole.
#[tokio::test]
async fn an_error_that_comes_in_pieces_is_read() {
    let node = Node::start(QUERY, works()).await;
    for status in [200, 404] {
        for size in [1, 7, 10_000] {
            let gone = fails(status, 4040, "no such prepared statement");
            let pieces = [
                gone.clone().in_pieces(size, Duration::ZERO),
                gone.clone().in_pieces(size, Duration::ZERO).header(
                    "content-length",
                    error(4040, "no such prepared statement").len().to_string(),
                ),
                gone.body_after(Duration::from_millis(20)),
            ];
            for step in pieces {
                node.server
                    .set_script(Script::new().then(step).otherwise(works()));
                let ended = node.post().await;
                assert_eq!(ended.text(), ROWS);
                assert_eq!(ended.reasons(), [QUERY_PREPARED_STATEMENT_FAILURE]);
            }
        }
    }
}

/// C41: an error after rows is not a success.
#[tokio::test]
async fn an_error_after_rows_is_read() {
    let after_rows =
        r#"{"results": [{"errors": [{"code": 1}]}, 2], "errors": [{"code": 4050, "msg": "m"}]}"#;
    let node = Node::start(QUERY, works()).await;
    node.server.script_push(Step::status(200).body(after_rows));
    let ended = node.post().await;
    assert_eq!(
        (ended.text(), ended.reasons()),
        (ROWS, vec![QUERY_PREPARED_STATEMENT_FAILURE])
    );
}

/// The HTTP response is complete, but its JSON is truncated: what was read decides.
#[tokio::test]
async fn json_that_is_cut_off_is_judged_by_what_was_read() {
    let node = Node::start(QUERY, works()).await;
    for (body, again) in [
        (r#"{"errors": [{"code": 4040, "msg": "no su"#, true),
        (r#"{"errors": [{"code": 404"#, false),
        (r#"{"errors": [{"msg": "m", "co"#, false),
    ] {
        node.server.set_script(
            Script::new()
                .then(Step::status(400).body(body))
                .otherwise(works()),
        );
        let ended = node.post().await;
        assert_eq!(ended.status(), if again { 200 } else { 400 }, "{body}");
        let text = if again { ROWS } else { body };
        assert_eq!(ended.text(), text);
    }
}

#[tokio::test]
async fn a_body_that_is_no_json_leaves_it_to_the_status() {
    let node = Node::start(QUERY, works()).await;
    for body in [
        "<html>4040</html>",
        "\"errors\": [{\"code\": 4040}]",
        "[{\"code\": 4040}]",
        "\u{0}\u{1}",
    ] {
        for status in [200, 502] {
            node.server.set_script(Step::status(status).body(body));
            let before = node.sent();
            let ended = node.read_only().await;
            assert_eq!((ended.status(), ended.text()), (status, body));
            assert_eq!(node.sent() - before, 1);
        }
    }
}

/// C12: the connection ends in the middle of an error; a caller with a non-idempotent request gets
/// the partial body and the error.
#[tokio::test]
async fn an_error_that_breaks_off_is_a_socket_that_was_closed() {
    for step in [Step::close_during_body(40), Step::reset_during_body(40)] {
        for status in [200, 400] {
            let step = step
                .clone()
                .with_status(status)
                .body(error(4040, "no such prepared statement"));
            let node = Node::start(QUERY, works()).await;
            node.server.script_push(step.clone());
            let ended = node.read_only().await;
            assert_eq!(
                (ended.text(), ended.reasons()),
                (ROWS, vec![SOCKET_CLOSED_WHILE_IN_FLIGHT])
            );
            node.server.script_push(step);
            let ended = node.post().await;
            assert_eq!(ended.info.stopped(), Some(StopReason::NotIdempotent));
            let failure = ended.info.records().next().expect("a record").failure;
            assert_eq!(failure.expect("a failure").stage, Stage::InFlight);
            let (head, body) = ended.outcome.expect("the answer as it came");
            assert_eq!(head.status(), status);
            assert!(body.is_err(), "it breaks off for the caller too");
            assert_eq!(node.sent(), 3);
        }
    }
}

/// A large response is not buffered and is delivered whole; so is a large failure, of which only
/// the beginning is classified.
#[tokio::test]
async fn answers_of_any_size_are_delivered_whole() {
    let rows = format!(
        r#"{{"results": [{}1], "status": "success"}}"#,
        r#"{"text": "0123456789"},"#.repeat(200_000)
    );
    let node = Node::start(QUERY, Step::status(200).body(rows.clone())).await;
    let ended = node.post().await;
    assert!(
        ended.text() == rows,
        "{} of {} bytes",
        ended.text().len(),
        rows.len()
    );
    assert_eq!(ended.info.stopped(), Some(StopReason::Committed));

    let padded = format!(
        r#"{{"x": "{}", "errors": [{{"code": 4040}}]}}"#,
        "x".repeat(1 << 20)
    );
    node.server
        .set_script(Step::status(500).body(padded.clone()));
    let before = node.sent();
    let ended = node.read_only().await;
    assert!(ended.text() == padded);
    assert_eq!(
        (ended.info.stopped(), node.sent() - before),
        (Some(StopReason::Fatal), 1)
    );
}

/// C7: a body that hangs does not delay the call past the deadline.
#[tokio::test]
async fn the_deadline_ends_an_error_that_does_not_come_to_its_end() {
    let hangs = Step::hang_during_body(20)
        .with_status(500)
        .body(error(4040, "m"));
    let node = Node::start(QUERY, hangs)
        .await
        .limit(Duration::from_millis(300));
    let ended = node.post().await;
    assert!(ended.elapsed().ambiguous);
    assert_eq!(node.sent(), 1);
    // Enough of it to classify.
    let text = error(4040, "m");
    let hangs = Step::hang_during_body(text.len() - 2)
        .with_status(404)
        .body(text);
    node.server
        .set_script(Script::new().then(hangs).otherwise(works()));
    let ended = node.limit(PATIENCE).post().await;
    assert_eq!(ended.reasons(), [QUERY_PREPARED_STATEMENT_FAILURE]);
}
