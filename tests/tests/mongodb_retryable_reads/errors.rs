//! Which failures are retried, and which failure the caller gets (M1 to M8, M13, M15, M22 to M29).

use super::*;
use reattempt_mongodb::reasons::MONGODB_POOL_CLEARED;

/// M1, M2, M3, M4, M15
#[tokio::test]
async fn a_read_that_may_be_mended_is_sent_a_second_time_at_once() {
    for step in [
        Step::code(10107),
        Step::code(91),
        Step::code(11600),
        Step::close_before(),
        Step::half_reply(),
    ] {
        let node = node().await;
        let client = Client::new(options(&node));
        node.script().on("find", step);
        let (reply, info) = call(&client, find()).await;
        assert_eq!(reply.expect("a reply").count(), 3);
        let delays: Vec<_> = info.records().filter_map(|record| record.delay).collect();
        assert_eq!((info.attempts(), delays), (2, vec![Duration::ZERO]));
        assert_eq!(node.seen_named("find").len(), 2);
    }
}

/// M3: a server that does not respond within the socket timeout.
#[tokio::test]
async fn a_socket_timeout_is_a_network_error() {
    let node = node().await;
    let mut options = options(&node);
    options.socket_timeout = Some(Duration::from_millis(200));
    let client = Client::new(options);
    node.script().on("find", Step::hang());
    let (reply, _) = call(&client, find()).await;
    assert_eq!(reply.expect("a reply").count(), 3);
    assert_eq!(node.seen_named("find").len(), 2);
}

/// M8, M4: by number, never by text; final without a number.
#[tokio::test]
async fn another_error_is_the_callers() {
    for step in [
        Step::code(50),
        Step::code(11601),
        Step::code(43),
        Step::code(134),
        Step::code(262),
        Step::code(10107).without("code"),
        Step::error(50, "NotWritablePrimary"),
    ] {
        let node = node().await;
        let client = Client::new(options(&node));
        node.script().on("find", step);
        let (reply, info) = call(&client, find()).await;
        assert!(matches!(reply, Err(MongoError::Server(_))), "{reply:?}");
        assert_eq!((info.attempts(), node.seen_named("find").len()), (1, 1));
    }
}

/// M5: one call's broken connection clears the pool in which the other waits; both are retried.
#[tokio::test]
async fn a_cleared_pool_is_retried() {
    let node = node().await;
    let mut options = options(&node);
    options.max_pool_size = 1;
    let client = Client::new(options);
    let (warm, _) = call(&client, find()).await;
    warm.expect("a connection in the pool");
    node.script().on(
        "find",
        Step::close_before().after(Duration::from_millis(300)),
    );
    let second = async {
        node.until_seen("find", 2).await;
        call(&client, find()).await
    };
    let ((first, _), (second, info)) =
        within(async { tokio::join!(call(&client, find()), second) }).await;
    assert_eq!(first.expect("a reply").count(), 3);
    assert_eq!(second.expect("a reply").count(), 3);
    assert_eq!(info.count(MONGODB_POOL_CLEARED), 1);
    // One to fill the pool, the broken one and its retry, and the retry of the one never sent.
    assert_eq!(node.seen_named("find").len(), 4);
}

/// M6: a connection that breaks, or is refused, during setup.
#[tokio::test]
async fn a_failure_in_the_handshake_is_retried() {
    for step in [Step::close_before(), Step::code(91)] {
        let node = node().await;
        let client = Client::new(options(&node));
        // The monitor has its connection already.
        node.until_seen("hello", 1).await;
        node.script().when(|command| command.ordinal == 0, step);
        let (reply, info) = call(&client, find()).await;
        assert_eq!(reply.expect("a reply").count(), 3);
        assert_eq!((info.attempts(), node.seen_named("find").len()), (2, 1));
    }
}

/// M28: the server has responded a second time.
#[tokio::test]
async fn a_second_failure_of_the_servers_is_the_callers() {
    for (second, code) in [
        (Step::code(91), Some(91)),
        (Step::code(50), Some(50)),
        (Step::close_before(), None),
    ] {
        let node = node().await;
        let client = Client::new(options(&node));
        node.script()
            .on("find", Step::code(10107))
            .on("find", second);
        let (reply, info) = call(&client, find()).await;
        assert_eq!(reply.expect_err("a failure").code(), code);
        assert_eq!((info.attempts(), node.seen_named("find").len()), (2, 2));
    }
}

/// M22, M24: a second attempt that found no server does not replace the first error.
#[tokio::test]
async fn a_second_failure_that_was_never_sent_raises_the_original() {
    let set = replica_set().await;
    let mut options = of_set(&set);
    options.server_selection_timeout = Duration::from_millis(500);
    let client = Client::new(options);
    let (warm, _) = call(&client, find()).await;
    warm.expect("a reply");
    // The old primary refuses, and there is no election.
    set.elect(None);
    let (reply, info) = call(&client, find()).await;
    let error = reply.expect_err("a failure");
    assert!(
        [Some(10107), Some(13435), Some(13436)].contains(&error.code()),
        "{error}"
    );
    assert_eq!(info.attempts(), 2);
}

/// M29: the same if its connection failed during setup.
#[tokio::test]
async fn a_second_failure_in_the_handshake_raises_the_original() {
    let node = node().await;
    let client = Client::new(options(&node));
    let (warm, _) = call(&client, find()).await;
    warm.expect("a reply");
    node.script().on("find", Step::half_reply());
    // The pool's next connection; the monitor keeps its own.
    node.script()
        .when(|command| command.ordinal == 0, Step::code(91));
    let (reply, info) = call(&client, find()).await;
    let error = reply.expect_err("a failure");
    assert!(
        matches!(error, MongoError::Network { .. }) && error.was_sent(),
        "{error}"
    );
    assert_eq!((info.attempts(), node.seen_named("find").len()), (2, 2));
}

/// M13: without a server there is no attempt, and so no retry.
#[tokio::test]
async fn a_first_selection_that_fails_is_the_callers() {
    let set = replica_set().await;
    set.elect(None);
    let mut options = of_set(&set);
    options.server_selection_timeout = Duration::from_millis(300);
    let client = Client::new(options);
    let (reply, info) = call(&client, find()).await;
    assert!(
        matches!(reply, Err(MongoError::Selection { .. })),
        "{reply:?}"
    );
    assert_eq!(info.attempts(), 1);
}
