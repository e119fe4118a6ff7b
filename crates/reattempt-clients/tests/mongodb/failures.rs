use std::io::ErrorKind;
use std::time::Duration;

use bson::{Bson, doc};
use reattempt::strategy::NeverRetry;
use reattempt::{
    AttemptOutcome, Backend, Call, CallContext, RetryInfo, RetryLayer, UncallLayer, Verdict,
    classify_fn,
};
use reattempt_clients::mongodb::client::{
    Client, Connection, Credential, During, MongoError, MongoReply, ServerKind,
};
use reattempt_clients::mongodb::prepare;
use reattempt_mongodb::Deprioritized;
use reattempt_mongodb::labels::SYSTEM_OVERLOADED_ERROR;
use reattempt_testbed::mongodb::{Node, Step};
use tower::{ServiceBuilder, ServiceExt};

use super::{find, node, options, send, soon};

/// M3, E8: every way of losing the connection is a network failure, including partial replies, and
/// the next call finds the server again.
#[tokio::test]
async fn a_connection_lost_at_any_point_is_a_network_failure() {
    let node = node().await;
    let client = Client::new(options(&node));
    for (step, found) in [
        (Step::close_before(), ErrorKind::UnexpectedEof),
        (Step::half_reply(), ErrorKind::UnexpectedEof),
        (Step::reset(), ErrorKind::ConnectionReset),
    ] {
        node.script().on("find", step);
        let error = send(&client, &find()).await.unwrap_err();
        let MongoError::Network { during, kind, .. } = &error else {
            panic!("{error}")
        };
        assert_eq!((*during, *kind), (During::Receive, found));
        assert!(error.was_sent());
        assert_eq!(error.server(), Some(node.address()));
        assert_eq!(send(&client, &find()).await.unwrap().count(), 3);
    }
}

#[tokio::test]
async fn a_silent_server_times_out_and_is_not_given_up() {
    let node = node().await;
    let mut options = options(&node);
    options.socket_timeout = Some(Duration::from_millis(50));
    let client = Client::new(options);
    node.script().on("find", Step::hang());
    let error = send(&client, &find()).await.unwrap_err();
    let MongoError::SocketTimeout {
        during: During::Receive,
        ..
    } = &error
    else {
        panic!("{error}")
    };
    let known = client.topology().description();
    assert_eq!(known.servers[node.address()].kind, ServerKind::Standalone);
    send(&client, &find()).await.unwrap();
    let seen = node.seen_named("find");
    assert_ne!(
        seen[0].connection, seen[1].connection,
        "a reply owed must not answer another"
    );
}

/// M7: it is a success, after which the client knows what the error says of the server.
#[tokio::test]
async fn a_write_concern_error_may_tell_of_a_changed_state() {
    let node = node().await;
    let client = Client::new(options(&node));
    send(&client, &find()).await.unwrap();
    let kind = || client.topology().description().servers[node.address()].kind;
    let write_error = vec![doc! { "index": 0, "code": 91 }];
    for step in [
        Step::pass().with("writeConcernError", doc! { "code": 64 }),
        Step::pass().with("writeErrors", write_error),
    ] {
        node.script().on("find", step);
        send(&client, &find()).await.unwrap();
        assert_eq!(kind(), ServerKind::Standalone);
    }
    let shutdown = Step::pass().with("writeConcernError", doc! { "code": 91 });
    node.script().on("find", shutdown);
    assert_eq!(send(&client, &find()).await.unwrap().count(), 3);
    assert_eq!(kind(), ServerKind::Unknown);
    send(&client, &find()).await.unwrap();
    let seen = node.seen_named("find");
    assert_eq!(seen[0].connection, seen[3].connection);
    assert_ne!(
        seen[3].connection, seen[4].connection,
        "its pool is cleared"
    );
}

/// M5
#[tokio::test]
async fn who_waits_does_not_get_the_connection_of_a_failure() {
    let node = node().await;
    let mut options = options(&node);
    options.max_pool_size = 1;
    let client = Client::new(options);
    let shutdown = Step::code(91).after(Duration::from_millis(50));
    node.script().on("find", shutdown);
    let (waits, holds) = (find(), find());
    let waits = async {
        node.until_seen("find", 1).await;
        send(&client, &waits).await
    };
    let (holds, waits) = tokio::join!(send(&client, &holds), waits);
    assert_eq!(holds.unwrap_err().code(), Some(91));
    let error = waits.unwrap_err();
    assert!(matches!(error, MongoError::PoolCleared { .. }), "{error}");
}

/// Without `socketTimeoutMS` a call on a connection to a dead server would wait for ever.
#[tokio::test]
async fn a_server_silent_to_its_monitor_fails_calls_in_flight() {
    let node = node().await;
    let mut options = options(&node);
    options.heartbeat_frequency = Duration::from_millis(50);
    options.min_heartbeat = Duration::from_millis(1);
    options.connect_timeout = Duration::from_millis(500);
    let client = Client::new(options);
    send(&client, &find()).await.unwrap();
    node.script().on("find", Step::hang());
    let (request, silent) = (find(), async {
        node.until_seen("find", 2).await;
        node.script().on("hello", Step::hang());
    });
    let (outcome, ()) = tokio::join!(send(&client, &request), silent);
    let error = outcome.unwrap_err();
    let MongoError::Network { during, kind, .. } = &error else {
        panic!("{error}")
    };
    assert_eq!(
        (*during, *kind),
        (During::Receive, ErrorKind::TimedOut),
        "it may have been carried out"
    );
    send(&client, &find()).await.unwrap();
    let seen = node.seen_named("find");
    assert_ne!(
        seen[1].connection, seen[2].connection,
        "a reply is outstanding"
    );
}

/// SDAM: its answer would show the server as it was, and one that hangs would delay the next.
#[tokio::test]
async fn a_lost_connection_ends_the_check_in_progress() {
    let node = node().await;
    let mut options = options(&node);
    options.heartbeat_frequency = Duration::from_millis(1);
    options.min_heartbeat = Duration::from_millis(1);
    options.connect_timeout = Duration::from_secs(3600);
    let client = Client::new(options);
    send(&client, &find()).await.unwrap();
    let hung = Step::hang();
    node.script().on("hello", hung).on("find", Step::reset());
    soon(async {
        while node.script().left() == 2 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    let error = send(&client, &find()).await.unwrap_err();
    assert!(matches!(error, MongoError::Network { .. }), "{error}");
    send(&client, &find()).await.unwrap();
}

/// A check that began before shows the old primary, and the one retry would go there.
#[tokio::test]
async fn a_state_change_discards_the_check_in_progress() {
    let node = node().await;
    let mut options = options(&node);
    options.heartbeat_frequency = Duration::from_millis(1);
    options.min_heartbeat = Duration::from_millis(1);
    options.connect_timeout = Duration::from_secs(3600);
    options.server_selection_timeout = Duration::from_millis(500);
    let client = Client::new(options);
    send(&client, &find()).await.unwrap();
    let slow = Step::pass().after(Duration::from_millis(200));
    node.script()
        .on("hello", slow)
        .on("find", Step::code(10107))
        .handler(|command| (command.name != "find").then(Step::hang));
    soon(async {
        while node.script().left() == 2 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    let error = send(&client, &find()).await.unwrap_err();
    assert_eq!(error.code(), Some(10107));
    let error = send(&client, &find()).await.unwrap_err();
    assert!(matches!(error, MongoError::Selection { .. }), "{error}");
    assert_eq!(node.seen_named("find").len(), 2);
}

#[tokio::test]
async fn with_overload_labels_a_lost_handshake_keeps_the_pool() {
    let node = node().await;
    let mut options = options(&node);
    options.overload_labels = true;
    options.heartbeat_frequency = Duration::from_secs(3600);
    let client = Client::new(options);
    let hello = node.until_seen("hello", 1).await;
    assert_eq!(hello[0].document.get_str("backpressure"), Ok("2"));
    node.script()
        .when(|command| command.ordinal == 0, Step::close_before());
    let error = send(&client, &find()).await.unwrap_err();
    assert!(
        error.in_handshake() && error.has_label(SYSTEM_OVERLOADED_ERROR),
        "{error}"
    );
    let known = client.topology().description();
    assert_eq!(known.servers[node.address()].kind, ServerKind::Standalone);
    // A check tells an overloaded server from one that is gone.
    let checked = node.until_seen("hello", hello.len() + 2);
    let checked = tokio::time::timeout(Duration::from_secs(30), checked).await;
    assert!(checked.is_ok(), "no check");
}

#[tokio::test]
async fn nonsense_from_a_server_is_a_protocol_error() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let server = tokio::spawn(async move {
        use tokio::io::AsyncWriteExt as _;
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(&[0xff; 64]).await.unwrap();
        stream
    });
    let options = reattempt_clients::mongodb::client::ClientOptions::new([address.clone()]);
    let error =
        reattempt_clients::mongodb::client::Connection::open(&address, &options, false).await;
    let error = error.unwrap_err();
    assert!(matches!(error, MongoError::Protocol { .. }), "{error}");
    drop(server.await);
}

/// A terminal and a log show the error as it is.
#[tokio::test]
async fn what_a_protocol_error_quotes_is_escaped() {
    let node = node().await;
    let scope = bson::JavaScriptCodeWithScope {
        code: String::new(),
        scope: doc! {},
    };
    let reply = doc! { "ok": 1, "\u{1b}[2J\n": scope };
    node.script().on("hello", Step::reply(reply));
    let opened = Connection::open(node.address(), &options(&node), true).await;
    let text = opened.unwrap_err().to_string();
    assert!(
        text.contains(r"\u{1b}[2J\n") && !text.contains('\n'),
        "{text}"
    );
}

/// Before a server has proved anything it gets no more room than a handshake needs.
#[tokio::test]
async fn a_reply_in_a_handshake_is_bounded() {
    let node = Node::builder().user("u", "p").unwrap();
    let node = node.start().await.unwrap();
    let mut options = options(&node);
    options.credential = Some(Credential::new("u", "p", "admin"));
    for command in ["hello", "saslStart", "saslContinue"] {
        let long = Step::pass().with("long", "x".repeat(1 << 20));
        node.script().on(command, long);
        let opened = Connection::open(node.address(), &options, true).await;
        let error = opened.unwrap_err();
        assert!(matches!(error, MongoError::Protocol { .. }), "{error}");
        assert!(error.to_string().contains("1048576"), "{error}");
        assert!(error.in_handshake() && !error.was_sent());
    }
    Connection::open(node.address(), &options, true)
        .await
        .unwrap();
}

/// What a server says of its failure is kept as far as it is read, however much it says.
#[tokio::test]
async fn of_a_long_error_only_what_is_read_is_kept() {
    let node = node().await;
    let client = Client::new(options(&node));
    let mut step = Step::code(462).with("long", "x".repeat(1 << 20));
    step = step.with("errmsg", "\u{e9}".repeat(1 << 20));
    let labels: Vec<_> = (0..10_000).map(|n| Bson::from(format!("L{n}"))).collect();
    step = step
        .with("errorLabels", labels)
        .with("baseBackoffMS", 7)
        .with("small", "kept");
    node.script().on("find", step);
    let MongoError::Server(error) = send(&client, &find()).await.unwrap_err() else {
        panic!()
    };
    assert_eq!((error.code, error.code_name.is_empty()), (Some(462), false));
    assert_eq!(error.message, "\u{e9}".repeat(2048));
    assert_eq!((error.labels.len(), &*error.labels[63]), (64, "L63"));
    assert_eq!(error.document.get_i32("baseBackoffMS"), Ok(7));
    assert_eq!(error.document.get_str("small"), Ok("kept"));
    assert!(!error.document.contains_key("long"));
}

#[tokio::test]
async fn a_limit_may_be_endless() {
    let node = node().await;
    let mut options = options(&node);
    options.server_selection_timeout = Duration::MAX;
    options.connect_timeout = Duration::MAX;
    options.socket_timeout = Some(Duration::MAX);
    options.heartbeat_frequency = Duration::MAX;
    let client = Client::new(options);
    assert_eq!(send(&client, &find()).await.unwrap().count(), 3);
    assert_eq!(send(&client, &find()).await.unwrap().count(), 3);
}

/// E7, M12: the server of an attempt that is cut off by its deadline is avoided too.
#[tokio::test]
async fn an_attempt_that_is_dropped_names_its_server() {
    let node = node().await;
    node.script().on("find", Step::hang());
    let client = Client::new(options(&node));
    let succeeds =
        classify_fn(|_: Result<&MongoReply, &MongoError>, _: &CallContext| Verdict::Success);
    let service = ServiceBuilder::new()
        .layer(RetryLayer::new(succeeds, NeverRetry))
        .map_request(prepare(&client, Deprioritized::current()))
        .layer(UncallLayer::new())
        .service(client.clone());
    let mut call = Call::new(find());
    let watch = RetryInfo::track(&mut call);
    tokio::select! {
        _ = service.oneshot(call) => panic!("it hangs"),
        _ = node.until_seen("find", 1) => {}
    }
    let info = watch.info();
    let dropped = info.records().next_back().unwrap();
    assert_eq!(dropped.outcome, AttemptOutcome::Cancelled);
    assert_eq!(dropped.backend, Some(Backend::new(node.address())));
}
