use std::sync::Arc;
use std::time::Duration;

use bson::doc;
use reattempt_clients::mongodb::client::{MongoError, Pool};
use reattempt_testbed::mongodb::Step;

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

/// M5: only waiting calls fail. A connection being established is still used once; otherwise the
/// first failure of many concurrent calls would use up the retry of all others.
#[tokio::test]
async fn clearing_a_pool_leaves_connections_that_are_being_made() {
    let node = node().await;
    let pool = Pool::new(node.address(), Arc::new(options(&node)));
    let step = Step::pass().after(Duration::from_millis(50));
    node.script().on("hello", step);
    let (lease, ()) = soon(async {
        tokio::join!(pool.check_out(None), async {
            node.until_seen("hello", 1).await;
            pool.clear();
            pool.interrupt();
        })
    })
    .await;
    let mut lease = lease.unwrap();
    let ping = doc! { "ping": 1, "$db": "admin" };
    soon(lease.call(1, &ping, None)).await.unwrap();
    assert_eq!((lease.generation(), pool.generation()), (0, 1));
    drop(lease);
    assert_eq!(pool.idle(), 0);
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
