//! The stack above a complete client, on paused time: what the client does between two attempts,
//! and how long the call takes.

mod model;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use reattempt::backoff::Randomness;
use reattempt::{
    AttemptRecord, Call, CallContext, DeadlineLayer, DeadlineScope, Observer, RetryInfo,
    RetryLayer, RetryThrottle, RouteLayer, StopReason,
};
use reattempt_mongodb::labels::{RETRYABLE_ERROR, SYSTEM_OVERLOADED_ERROR};
use reattempt_mongodb::{AdaptiveTokens, FailureKind, MongoClassifier, RetryReads, RetryableReads};
use tokio::time::Instant;
use tower::{ServiceBuilder, ServiceExt};

use model::{Client, Did, Failed, Fault, Find, Step, fault};

const STEPPED_DOWN: Fault = fault(FailureKind::command(Some(189)));
const BROKEN: Fault = fault(FailureKind::network_in_flight());
const BUSY: Fault = Fault {
    kind: FailureKind::command(Some(462)),
    labels: &[SYSTEM_OVERLOADED_ERROR, RETRYABLE_ERROR],
};

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// The time limits of a call and of each attempt, and the rules.
struct Stack {
    call: Option<Duration>,
    attempt: Option<Duration>,
    classifier: MongoClassifier,
    strategy: RetryableReads,
}

impl Stack {
    fn seed() -> Self {
        Self {
            call: None,
            attempt: None,
            classifier: MongoClassifier::seed_2022(),
            strategy: RetryableReads::seed_2022(),
        }
    }

    /// The rules of 2026, with maximal jitter.
    fn current() -> Self {
        Self {
            classifier: MongoClassifier::current(),
            strategy: RetryableReads::current().randomness(Randomness::Fixed(1.0)),
            ..Self::seed()
        }
    }

    fn within(mut self, limit: Duration) -> Self {
        self.call = Some(limit);
        self
    }

    fn each_within(mut self, limit: Duration) -> Self {
        self.attempt = Some(limit);
        self
    }

    /// The result of one read, its `RetryInfo`, and how long it took.
    async fn read(&self, client: &Client) -> (Result<(), Failed>, RetryInfo, Duration) {
        let began = Instant::now();
        let below = client.clone();
        let limit = |limit: Option<Duration>| {
            limit.map_or_else(DeadlineLayer::unlimited, DeadlineLayer::new)
        };
        let service = ServiceBuilder::new()
            .layer(RouteLayer::new(RetryReads::with_strategy(
                true,
                self.strategy.clone(),
            )))
            .layer(limit(self.call))
            .layer(RetryLayer::new(self.classifier, self.strategy.clone()))
            .layer(limit(self.attempt))
            .service_fn(move |call: Call<Find>| below.clone().attempt(call));
        let mut call = Call::new(Find::new());
        let watch = RetryInfo::track(&mut call);
        let answer = service.oneshot(call).await;
        (answer, watch.info(), began.elapsed())
    }
}

/// M20 M21 M27: the topology is updated after each failure, also the second, and before the next
/// selection.
#[tokio::test(start_paused = true)]
async fn the_topology_is_told_before_a_server_is_selected_anew() {
    let client = Client::new(&["a"], &[Step::Fails(STEPPED_DOWN), Step::Fails(BROKEN)]);
    let (answer, _, took) = Stack::seed().read(&client).await;
    assert_eq!(answer, Err(Failed::Attempt(2, BROKEN)));
    assert_eq!(took, Duration::ZERO, "M2: no delay of the layer's own");
    let did = client.did();
    let [
        Did::Selected("a"),
        Did::Sent(_),
        Did::ToldTopology("a"),
        Did::Selected("a"),
        Did::Sent(_),
        Did::ToldTopology("a"),
    ] = &did[..]
    else {
        panic!("{did:?}")
    };
}

/// M20: not for a cleared pool.
#[tokio::test(start_paused = true)]
async fn a_cleared_pool_tells_the_topology_nothing() {
    let cleared = fault(FailureKind::PoolCleared);
    let client = Client::new(&["a"], &[Step::Fails(cleared)]);
    let (answer, info, _) = Stack::seed().read(&client).await;
    assert_eq!((answer, info.attempts()), (Ok(()), 2));
    assert!(!client.did().contains(&Did::ToldTopology("a")));
}

/// M24 M25 M26: encoded again, later, in the same session.
#[tokio::test(start_paused = true)]
async fn the_second_attempt_is_a_new_message_of_the_same_operation() {
    let client = Client::new(&["a"], &[Step::Fails(BROKEN)]);
    assert_eq!(Stack::seed().read(&client).await.0, Ok(()));
    let sent = client.sent();
    let [first, second] = &sent[..] else {
        panic!("{sent:?}")
    };
    assert_ne!(first.request_id, second.request_id);
    assert!(second.cluster_time > first.cluster_time);
    assert_eq!(first.session, second.session);
}

/// M24: a client that does not rebuild its commands refuses an older server, and the original error
/// is raised.
#[tokio::test(start_paused = true)]
async fn a_dip_of_the_wire_version_raises_the_original() {
    let dip = [Step::FailsOn(9, STEPPED_DOWN), Step::WorksOn(8)];
    let (answer, info, _) = Stack::seed().read(&Client::new(&["a"], &dip)).await;
    assert_eq!(answer, Err(Failed::Attempt(1, STEPPED_DOWN)));
    assert_eq!(info.attempts(), 2);
    let rise = [Step::FailsOn(8, STEPPED_DOWN), Step::WorksOn(9)];
    assert_eq!(
        Stack::seed().read(&Client::new(&["a"], &rise)).await.0,
        Ok(())
    );
}

/// M12 M23: too old for a retry; too old to be selected for one.
#[tokio::test(start_paused = true)]
async fn an_old_server_is_asked_once_and_never_for_a_retry() {
    let old = Client::new(&["a"], &[Step::FailsOn(5, STEPPED_DOWN)]);
    let (answer, info, _) = Stack::seed().read(&old).await;
    assert_eq!(
        (answer, info.attempts()),
        (Err(Failed::Attempt(1, STEPPED_DOWN)), 1)
    );
    assert_eq!(info.stopped(), Some(StopReason::Fatal));
    let downgraded = [Step::FailsOn(6, STEPPED_DOWN), Step::WorksOn(5)];
    let client = Client::new(&["a"], &downgraded);
    let (answer, _, _) = Stack::seed().read(&client).await;
    assert_eq!(answer, Err(Failed::Attempt(1, STEPPED_DOWN)));
    assert_eq!(client.sent().len(), 1);
}

/// E1: with a single connection, the second attempt succeeds only if the first returned it.
#[tokio::test(start_paused = true)]
async fn the_first_attempt_is_released_before_the_second_checks_out() {
    let client = Client::new(&["a"], &[Step::Fails(BUSY), Step::Fails(BUSY)]);
    let (answer, info, _) = Stack::current().within(ms(5000)).read(&client).await;
    assert_eq!((answer, info.attempts()), (Ok(()), 3));
    let hung = Client::new(&["a"], &[Step::Hangs]);
    let stack = Stack::seed().within(ms(5000)).each_within(ms(100));
    assert_eq!(
        stack.read(&hung).await.0,
        Ok(()),
        "nor of an interrupted attempt"
    );
}

/// E2: the time limit of an attempt is a network timeout, which is retried; that of the call ends
/// it.
#[tokio::test(start_paused = true)]
async fn a_limit_of_an_attempt_is_retried_and_one_of_the_call_is_not() {
    let stack = || Stack::seed().each_within(ms(100));
    let silent = || Client::new(&["a"], &[Step::Hangs, Step::Hangs]);
    let (answer, info, took) = stack().read(&silent()).await;
    assert_eq!(answer, Err(Failed::TimedOut(DeadlineScope::Attempt)));
    assert_eq!((info.attempts(), took), (2, ms(200)));
    let (answer, info, took) = stack().within(ms(150)).read(&silent()).await;
    assert_eq!(answer, Err(Failed::TimedOut(DeadlineScope::Call)));
    assert_eq!((info.attempts(), took), (2, ms(150)));
}

/// E3, M22: the retry has no delay, but server selection may take time. Only a deadline bounds
/// that.
#[tokio::test(start_paused = true)]
async fn a_retry_may_look_for_a_server_until_the_deadline() {
    let gone = || Client::new(&["a"], &[Step::Fails(BROKEN), Step::NoServer(ms(30_000))]);
    let (answer, _, took) = Stack::seed().read(&gone()).await;
    assert_eq!(answer, Err(Failed::Attempt(1, BROKEN)));
    assert_eq!(took, ms(30_000));
    let (answer, _, took) = Stack::seed().within(ms(2000)).read(&gone()).await;
    assert_eq!(answer, Err(Failed::TimedOut(DeadlineScope::Call)));
    assert_eq!(took, ms(2000));
}

/// M13: the caller gets the error of the first selection.
#[tokio::test(start_paused = true)]
async fn a_first_selection_that_fails_is_never_retried() {
    let client = Client::new(&["a"], &[Step::NoServer(ms(1))]);
    let (answer, info, _) = Stack::current().read(&client).await;
    let selection = fault(FailureKind::Selection);
    assert_eq!(
        (answer, info.attempts()),
        (Err(Failed::Attempt(1, selection)), 1)
    );
}

/// E4: dropping the call drops the attempt; its connection is closed, and nothing is sent again.
#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_is_not_retried() {
    let client = Client::new(&["a"], &[Step::Hangs]);
    let stack = Stack::seed();
    tokio::select! {
        biased;
        _ = stack.read(&client) => panic!("it hangs"),
        () = tokio::time::sleep(ms(10)) => {}
    }
    tokio::time::sleep(ms(1000)).await;
    assert_eq!(client.sent().len(), 1);
    assert_eq!(client.did().last(), Some(&Did::ClosedConnection));
}

/// Two retries after at most 200 and 400 ms, then the error.
#[tokio::test(start_paused = true)]
async fn an_overloaded_server_is_given_time() {
    let client = Client::new(&["a"], &[Step::Fails(BUSY); 9]);
    let (answer, info, took) = Stack::current().read(&client).await;
    assert_eq!(answer, Err(Failed::Attempt(3, BUSY)));
    assert_eq!(
        (info.stopped(), took),
        (Some(StopReason::Attempts), ms(600))
    );
    let seed = Client::new(&["a"], &[Step::Fails(BUSY)]);
    let (answer, _, took) = Stack::seed().read(&seed).await;
    assert_eq!(
        (answer, took),
        (Err(Failed::Attempt(1, BUSY)), Duration::ZERO)
    );
}

/// A delay that would pass the deadline is not started: the server's own error is raised at once.
#[tokio::test(start_paused = true)]
async fn a_backoff_beyond_the_deadline_raises_the_error_at_once() {
    let client = Client::new(&["a"], &[Step::Fails(BUSY); 9]);
    let (answer, info, took) = Stack::current().within(ms(500)).read(&client).await;
    assert_eq!(answer, Err(Failed::Attempt(2, BUSY)));
    assert_eq!(
        (info.stopped(), took),
        (Some(StopReason::Deadline), ms(200))
    );
}

/// Retries without delay until the deadline.
#[tokio::test(start_paused = true)]
async fn until_the_deadline_other_errors_are_retried_as_often_as_fits() {
    let client = Client::new(&["a"], &[Step::Fails(BROKEN); 40]);
    let (answer, info, took) = Stack::current().within(ms(500)).read(&client).await;
    assert_eq!(
        (answer, info.attempts(), took),
        (Ok(()), 41, Duration::ZERO)
    );
}

/// E7 E11: the overloaded server is avoided while there is another.
#[tokio::test(start_paused = true)]
async fn a_retry_avoids_the_overloaded_server_while_there_is_another() {
    let servers = |client: &Client| -> Vec<&'static str> {
        let selected = |did: Did| match did {
            Did::Selected(server) => Some(server),
            _ => None,
        };
        client.did().into_iter().filter_map(selected).collect()
    };
    let two = Client::new(&["a", "b"], &[Step::Fails(BUSY); 2]);
    assert_eq!(Stack::current().read(&two).await.0, Ok(()));
    assert_eq!(
        servers(&two),
        ["a", "b", "a"],
        "both failed: any may be selected"
    );
    let down = Client::new(&["a", "b"], &[Step::Fails(STEPPED_DOWN)]);
    assert_eq!(Stack::current().read(&down).await.0, Ok(()));
    assert_eq!(
        servers(&down),
        ["a", "a"],
        "E7: another failure avoids no server"
    );
}

/// The bucket that the specification defined until March 2026: an overload retry that fails with
/// overload costs a token, a successful call returns a tenth, other errors are free, and without a
/// token the error is raised.
#[tokio::test(start_paused = true)]
async fn adaptive_tokens_bound_what_is_sent_to_overloaded_servers() {
    let tokens = AdaptiveTokens::with_capacity(2);
    let mut stack = Stack::current();
    stack.strategy = RetryableReads::seed_2022()
        .overload_backoff(2)
        .adaptive_tokens(tokens.clone());
    let left = || tokens.milli_tokens().unwrap_or_default();

    let (_, info, _) = stack
        .read(&Client::new(&["a"], &[Step::Fails(BUSY); 3]))
        .await;
    assert_eq!(
        (info.attempts(), left()),
        (3, 0),
        "two of the three failed with overload again"
    );
    let (answer, info, _) = stack.read(&Client::new(&["a"], &[Step::Fails(BUSY)])).await;
    assert_eq!(answer, Err(Failed::Attempt(1, BUSY)));
    assert_eq!(info.stopped(), Some(StopReason::Strategy));
    let (answer, _, _) = stack
        .read(&Client::new(&["a"], &[Step::Fails(BROKEN)]))
        .await;
    assert_eq!((answer, left()), (Ok(()), 100), "another error needs none");

    for _ in 0..9 {
        assert_eq!(stack.read(&Client::new(&["a"], &[])).await.0, Ok(()));
    }
    assert_eq!(left(), 1000);
    let mended = Client::new(&["a"], &[Step::Fails(BUSY)]);
    assert_eq!((stack.read(&mended).await.0, left()), (Ok(()), 1100));
    let turned = Client::new(&["a"], &[Step::Fails(BUSY), Step::Fails(BROKEN)]);
    assert_eq!((stack.read(&turned).await.0, left()), (Ok(()), 1200));
    for _ in 0..20 {
        let _ = stack.read(&Client::new(&["a"], &[])).await;
    }
    assert_eq!(left(), 2000, "never above its capacity");
}

/// M32: an observer receives each attempt, its failure and the end of the call (`LogObserver` logs
/// them).
#[tokio::test(start_paused = true)]
async fn an_observer_hears_of_every_attempt() {
    let client = Client::new(&["a"], &[Step::Fails(STEPPED_DOWN)]);
    let heard = Heard::default();
    let below = client.clone();
    let layer = RetryLayer::new(MongoClassifier::seed_2022(), RetryableReads::seed_2022());
    let service = ServiceBuilder::new()
        .layer(RouteLayer::new(RetryReads::default()))
        .layer(layer.observer(Arc::new(Ear(Arc::clone(&heard)))))
        .service_fn(move |call: Call<Find>| below.clone().attempt(call));
    service.oneshot(Call::new(Find::new())).await.unwrap();
    assert_eq!(*heard.lock().unwrap(), [(1, Some(189)), (2, None)]);
}

/// The numbers of attempts, and the codes that they failed with.
type Heard = Arc<Mutex<Vec<(u32, Option<i32>)>>>;

#[derive(Debug)]
struct Ear(Heard);

impl Observer for Ear {
    fn attempt_settled(&self, _: &CallContext, record: &AttemptRecord) {
        let code = record.failure.and_then(|failure| failure.code);
        self.0.lock().unwrap().push((record.number, code));
    }
}
