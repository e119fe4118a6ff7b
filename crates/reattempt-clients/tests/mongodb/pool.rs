use std::future::Future as _;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use reattempt_clients::mongodb::client::{ClientOptions, MongoError, Pool};
use reattempt_testbed::mongodb::{Node, Step};
use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpListener, TcpStream};

use super::{node, options, soon};

#[tokio::test]
async fn waiting_too_long_for_a_connection_is_no_network_failure() {
    let node = node().await;
    let mut options = options(&node);
    options.max_pool_size = 1;
    options.wait_queue_timeout = Some(Duration::from_millis(30));
    let pool = Pool::new(node.address(), Arc::new(options));
    let held = pool.check_out(None).await.unwrap();
    let error = soon(pool.check_out(Some(7))).await.unwrap_err().error;
    assert!(
        matches!(error, MongoError::WaitQueueTimeout { .. }),
        "{error}"
    );
    assert_eq!(
        (error.server(), error.max_wire_version()),
        (Some(node.address()), Some(7))
    );
    drop(held);
    assert_eq!(pool.idle(), 1);
    pool.check_out(None).await.unwrap();
}

/// M5: a call that waits for a connection of a cleared pool fails at once.
#[tokio::test]
async fn clearing_a_pool_fails_who_waits_and_closes_what_comes_back() {
    let node = node().await;
    let mut options = options(&node);
    options.max_pool_size = 1;
    let pool = Pool::new(node.address(), Arc::new(options));
    let held = pool.check_out(None).await.unwrap();
    let (waited, ()) = soon(async {
        tokio::join!(pool.check_out(None), async {
            tokio::task::yield_now().await;
            pool.clear();
        })
    })
    .await;
    let failed = waited.unwrap_err();
    assert!(
        matches!(failed.error, MongoError::PoolCleared { .. }),
        "{}",
        failed.error
    );
    assert_eq!((failed.generation, pool.generation()), (0, 1));
    let paused = pool.check_out(None).await.unwrap_err().error;
    assert!(matches!(paused, MongoError::PoolCleared { .. }), "{paused}");
    pool.ready();
    drop(held);
    assert_eq!(pool.idle(), 0);
    assert_eq!(soon(pool.check_out(None)).await.unwrap().generation(), 1);
}

/// M5: also what is being opened; its place in the pool is free again.
#[tokio::test]
async fn clearing_a_pool_ends_connections_that_are_being_made() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let mut options = ClientOptions::new([&address]);
    options.max_pool_size = 1;
    options.connect_timeout = Duration::from_secs(3600);
    let pool = Pool::new(&address, Arc::new(options));
    let (failed, silent) = soon(async {
        tokio::join!(pool.check_out(None), async {
            let (silent, _) = listener.accept().await.unwrap();
            pool.clear();
            silent
        })
    })
    .await;
    let error = failed.unwrap_err().error;
    assert!(matches!(error, MongoError::PoolCleared { .. }), "{error}");
    soon(until_closed(silent)).await;
    pool.ready();
    tokio::select! {
        failed = pool.check_out(None) => panic!("{failed:?}"),
        dialled = soon(listener.accept()) => drop(dialled.unwrap()),
    }
}

#[tokio::test]
async fn the_end_of_a_pool_ends_connections_that_are_being_made() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let mut options = ClientOptions::new([&address]);
    options.connect_timeout = Duration::from_secs(3600);
    let pool = Pool::new(&address, Arc::new(options));
    let silent = tokio::select! {
        failed = pool.check_out(None) => panic!("{failed:?}"),
        dialled = soon(listener.accept()) => dialled.unwrap().0,
    };
    drop(pool);
    soon(until_closed(silent)).await;
}

/// Otherwise no caller would learn why no connection comes to be.
#[tokio::test]
async fn the_error_that_a_caller_left_is_for_the_oldest_that_waits() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let mut options = ClientOptions::new([&address]);
    options.max_connecting = 1;
    let pool = Pool::new(&address, Arc::new(options));
    let opening = tokio::select! {
        failed = pool.check_out(None) => panic!("{failed:?}"),
        dialled = soon(listener.accept()) => dialled.unwrap().0,
    };
    let (waited, ()) =
        soon(async { tokio::join!(pool.check_out(None), async { drop(opening) }) }).await;
    let error = waited.unwrap_err().error;
    assert!(matches!(error, MongoError::Network { .. }), "{error}");
}

/// M5: a command on it would fail in flight.
#[tokio::test]
async fn a_connection_handed_over_before_the_clearing_is_not_used() {
    let node = node().await;
    let mut options = options(&node);
    options.max_pool_size = 1;
    let pool = Pool::new(node.address(), Arc::new(options));
    let held = pool.check_out(None).await.unwrap();
    let (waited, ()) = soon(async {
        tokio::join!(pool.check_out(None), async {
            drop(held);
            pool.clear();
        })
    })
    .await;
    let error = waited.unwrap_err().error;
    assert!(matches!(error, MongoError::PoolCleared { .. }), "{error}");
    pool.ready();
    soon(pool.check_out(None)).await.unwrap();
}

/// As of a client in a static, across tests with a runtime each.
#[test]
fn a_pool_whose_runtime_has_ended_fails_at_once() {
    let runtime = || {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
    };
    let own = runtime().unwrap();
    let options = Arc::new(ClientOptions::new(["127.0.0.1:1"]));
    let pool = own.block_on(async { Pool::new("127.0.0.1:1", options) });
    let other = runtime().unwrap();
    // What it opened for them never ran: they leave no places taken.
    own.block_on(async {
        for _ in 0..2 {
            let mut call = std::pin::pin!(pool.check_out(None));
            let pending = |cx: &mut Context<'_>| Poll::Ready(call.as_mut().poll(cx).is_pending());
            assert!(std::future::poll_fn(pending).await);
        }
    });
    drop(own);
    let failed = other.block_on(soon(pool.check_out(None)));
    let error = failed.unwrap_err().error;
    assert!(matches!(error, MongoError::PoolCleared { .. }), "{error}");
}

async fn until_closed(mut peer: TcpStream) {
    let mut sent = Vec::new();
    // A reset is a close, too.
    let _ = peer.read_to_end(&mut sent).await;
}

/// Otherwise a server that is slower to take connections than attempts are long gets none.
#[tokio::test]
async fn a_connection_is_opened_although_its_caller_left() {
    let node = node().await;
    let pool = Pool::new(node.address(), Arc::new(options(&node)));
    let slow = Step::pass().after(Duration::from_millis(100));
    node.script().on("hello", slow);
    leaves(&node, &pool, 1).await;
    soon(async {
        while pool.idle() == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    pool.check_out(None).await.unwrap();
    assert_eq!(node.connections(), 1);
}

/// Checks out, and leaves when the server has seen this many handshakes.
async fn leaves(node: &Node, pool: &Pool, hellos: usize) {
    tokio::select! {
        lease = pool.check_out(None) => panic!("{lease:?}"),
        _ = node.until_seen("hello", hellos) => {}
    }
}

#[tokio::test]
async fn what_a_caller_that_left_opened_is_for_the_oldest() {
    let node = node().await;
    let mut options = options(&node);
    options.max_pool_size = 1;
    options.wait_queue_timeout = Some(Duration::from_secs(10));
    let pool = Pool::new(node.address(), Arc::new(options));
    let slow = Step::pass().after(Duration::from_millis(100));
    node.script().on("hello", slow);
    leaves(&node, &pool, 1).await;
    let served = Mutex::new(Vec::new());
    let caller = async |name| {
        let lease = pool.check_out(None).await.unwrap();
        served.lock().unwrap().push(name);
        drop(lease);
    };
    soon(async { tokio::join!(caller("older"), caller("younger")) }).await;
    assert_eq!(*served.lock().unwrap(), ["older", "younger"]);
    assert_eq!(node.connections(), 1);
}

/// Not another one, whose own connection may be better.
#[tokio::test]
async fn the_error_of_an_opening_is_for_who_caused_it_alone() {
    let node = node().await;
    let pool = Pool::new(node.address(), Arc::new(options(&node)));
    let fails = Step::close_before().after(Duration::from_millis(50));
    let slow = Step::pass().after(Duration::from_millis(200));
    node.script().on("hello", fails.clone()).on("hello", slow);
    leaves(&node, &pool, 1).await;
    soon(pool.check_out(None)).await.unwrap();
    assert_eq!(node.connections(), 2);

    let fresh = Pool::new(node.address(), Arc::new(options(&node)));
    node.script().on("hello", fails);
    let error = soon(fresh.check_out(None)).await.unwrap_err().error;
    assert!(
        matches!(error, MongoError::Network { .. }) && error.in_handshake() && !error.was_sent(),
        "{error}"
    );
}

/// CMAP, `maxConnecting`.
#[tokio::test]
async fn few_connections_are_opened_at_once() {
    for limit in [2, 1] {
        let node = node().await;
        let mut options = options(&node);
        assert_eq!(options.max_connecting, 2);
        options.max_connecting = limit;
        let pool = Pool::new(node.address(), Arc::new(options));
        node.script().handler(|_| Some(Step::hang()));
        let caller = || pool.check_out(None);
        let all = async { tokio::join!(caller(), caller(), caller(), caller()) };
        let opened = async {
            node.until_seen("hello", limit).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
            node.connections()
        };
        tokio::select! {
            _ = all => panic!("they hang"),
            opened = soon(opened) => assert_eq!(opened, limit as u64),
        }
    }
}

/// It limits the wait for a free connection: as before a slow handshake is no `WaitQueueTimeout`.
#[tokio::test]
async fn the_limit_of_the_queue_spares_who_opens_a_connection() {
    let node = node().await;
    let mut options = options(&node);
    options.max_connecting = 1;
    options.wait_queue_timeout = Some(Duration::from_millis(30));
    let pool = Pool::new(node.address(), Arc::new(options));
    let slow = Step::pass().after(Duration::from_millis(200));
    node.script().on("hello", slow);
    let both = async { tokio::join!(pool.check_out(None), pool.check_out(None)) };
    let (opens, waits) = soon(both).await;
    opens.unwrap();
    let error = waits.unwrap_err().error;
    assert!(
        matches!(error, MongoError::WaitQueueTimeout { .. }),
        "{error}"
    );
}

/// A server closes what is idle for long: the next call must not pay for it with its retry.
#[tokio::test]
async fn an_idle_connection_that_is_not_quiet_is_not_used() {
    let node = node().await;
    let pool = Pool::new(node.address(), Arc::new(options(&node)));
    let mut first = pool.check_out(None).await.unwrap();
    let mut second = pool.check_out(None).await.unwrap();
    let closed = [first.connection().id(), second.connection().id()];
    drop((first, second));
    let mut again = pool.check_out(None).await.unwrap();
    assert!(closed.contains(&again.connection().id()));
    drop(again);
    node.close_connections();
    let fresh = async {
        loop {
            let id = pool.check_out(None).await.unwrap().connection().id();
            if !closed.contains(&id) {
                break;
            }
            // Until the runtime has seen the close.
            tokio::task::yield_now().await;
        }
    };
    soon(fresh).await;
    assert_eq!(pool.idle(), 1, "both were dropped");
}
