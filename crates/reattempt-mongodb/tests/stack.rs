//! The whole stack around a scripted client: what shows only with route, retry and client together.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use reattempt::{
    AttemptRecord, Call, CallContext, HasCallContext, Observer, RetryInfo, RetryLayer, RouteLayer,
    RoutePolicy, Stage,
};
use reattempt_mongodb::{
    FailureKind, MongoClassifier, MongoFailure, ReadCall, ReadOperation, RetryReads, RetryableReads,
};
use tower::{ServiceBuilder, ServiceExt};

/// What a client's error contains: the kind of failure, and the attempt.
#[derive(Clone, Copy, Debug, PartialEq)]
struct DriverError {
    kind: FailureKind,
    attempt: u32,
}

impl MongoFailure for DriverError {
    fn kind(&self) -> FailureKind {
        self.kind
    }
}

const fn fails(kind: FailureKind) -> DriverError {
    DriverError { kind, attempt: 0 }
}

const STEPPED_DOWN: DriverError = fails(FailureKind::command(Some(189)));

#[derive(Clone, Copy, Debug)]
struct Find;

impl ReadCall for Find {
    fn operation(&self) -> ReadOperation {
        ReadOperation::Find
    }
}

/// A client whose attempts, by whatever call, fail with these errors one after the other, and then
/// work. It notes each attempt's number.
#[derive(Clone, Default)]
struct Client {
    script: Arc<Mutex<VecDeque<DriverError>>>,
    sent: Arc<Mutex<Vec<u32>>>,
}

impl Client {
    fn new(failures: &[DriverError]) -> Self {
        let client = Self::default();
        client.script.lock().unwrap().extend(failures);
        client
    }

    fn attempt(&self, call: &Call<Find>) -> Result<(), DriverError> {
        let attempt = call.context().map_or(0, CallContext::attempt);
        self.sent.lock().unwrap().push(attempt);
        let next = self.script.lock().unwrap().pop_front();
        next.map_or(Ok(()), |error| Err(DriverError { attempt, ..error }))
    }
}

/// The result of one read, and what became of its attempts.
async fn read(
    retry: RetryLayer<MongoClassifier>,
    gate: RetryReads,
    failures: &[DriverError],
) -> (Result<(), DriverError>, RetryInfo) {
    let client = Client::new(failures);
    let service = ServiceBuilder::new()
        .layer(RouteLayer::new(gate))
        .layer(retry)
        .service_fn(move |call: Call<Find>| std::future::ready(client.attempt(&call)));
    let mut call = Call::new(Find);
    let watch = RetryInfo::track(&mut call);
    let answer = service.oneshot(call).await;
    (answer, watch.info())
}

fn retry() -> RetryLayer<MongoClassifier> {
    RetryLayer::new(MongoClassifier::seed_2022(), RetryableReads::seed_2022())
}

/// M35: a recovery layer above this client is detected, and retries do not multiply.
#[tokio::test]
async fn a_retry_layer_above_is_detected_and_has_the_call_to_itself() {
    let outer: Arc<Mutex<Vec<u32>>> = Arc::default();
    let reported = Arc::clone(&outer);
    let gate = RetryReads::default()
        .on_nested(move |nested| reported.lock().unwrap().push(nested.attempt));
    let client = Client::new(&[STEPPED_DOWN; 4]);
    let below = client.clone();
    let service = ServiceBuilder::new()
        .layer(RouteLayer::new(RetryReads::default()))
        .layer(retry())
        .layer(RouteLayer::new(gate))
        .layer(retry())
        .service_fn(move |call: Call<Find>| std::future::ready(below.attempt(&call)));
    let error = service.oneshot(Call::new(Find)).await.unwrap_err();
    assert_eq!(error.attempt, 2);
    assert_eq!(*client.sent.lock().unwrap(), [1, 2], "not four");
    assert_eq!(*outer.lock().unwrap(), [1, 2]);
}

/// M10: a policy of its own does not make a call retryable if the client's option is off.
#[tokio::test]
async fn a_policy_on_one_call_does_not_switch_retries_on() {
    let client = Client::new(&[fails(FailureKind::PoolCleared); 2]);
    let below = client.clone();
    let service = ServiceBuilder::new()
        .layer(RouteLayer::new(RetryReads::new(false)))
        .layer(retry())
        .service_fn(move |call: Call<Find>| std::future::ready(below.attempt(&call)));
    let own = RoutePolicy::new("my own").retry(RetryableReads::seed_2022());
    let mut call = Call::new(Find);
    call.context_mut().set_policy(Arc::new(own));
    assert!(service.oneshot(call).await.is_err());
    assert_eq!(*client.sent.lock().unwrap(), [1]);
}

/// Every kind of failure; a retryable and a final one where both exist.
const KINDS: [FailureKind; 14] = [
    FailureKind::Selection,
    FailureKind::PoolCleared,
    FailureKind::WaitQueueTimeout,
    FailureKind::network_before_sending(),
    FailureKind::handshake(Some(91)),
    FailureKind::handshake(Some(18)),
    FailureKind::NotSupported,
    FailureKind::Client {
        stage: Stage::Dispatch,
    },
    FailureKind::network_in_flight(),
    FailureKind::command(Some(189)),
    FailureKind::command(Some(50)),
    FailureKind::command(None),
    FailureKind::Client {
        stage: Stage::InFlight,
    },
    FailureKind::Client {
        stage: Stage::Response,
    },
];

/// The specification's pseudocode: the attempt whose error a read raises if its attempts fail with
/// these kinds.
fn pseudocode(first: FailureKind, second: FailureKind) -> u32 {
    let retryable = match first {
        // getConnection
        FailureKind::PoolCleared | FailureKind::Network { .. } => true,
        // getConnection or executeCommand
        FailureKind::Server { code, .. } => matches!(code, Some(91 | 189)),
        // selectServer, and errors inside the driver
        _ => false,
    };
    if !retryable {
        return 1;
    }
    match second {
        // executeCommand was called: the caller can infer that an attempt was made.
        FailureKind::Network { stage }
        | FailureKind::Server { stage, .. }
        | FailureKind::Client { stage }
            if stage != Stage::Dispatch =>
        {
            2
        }
        // selectServer, getConnection, createCommand
        _ => 1,
    }
}

/// M13 M15 M22 M23 M24 M28 M29 M30: each pair of failures.
#[tokio::test]
async fn every_pair_of_failures_ends_as_in_the_pseudocode() {
    for first in KINDS {
        for second in KINDS {
            let both = [fails(first), fails(second)];
            let (answer, _) = read(retry(), RetryReads::default(), &both).await;
            let attempt = pseudocode(first, second);
            let kind = [first, second][attempt as usize - 1];
            let raised = DriverError {
                attempt,
                ..fails(kind)
            };
            assert_eq!(answer, Err(raised), "{first:?}, then {second:?}");
        }
    }
}

/// The numbers of attempts, and the codes that they failed with.
#[derive(Debug, Default)]
struct Settled(Mutex<Vec<(u32, Option<i32>)>>);

impl Observer for Settled {
    fn attempt_settled(&self, _: &CallContext, record: &AttemptRecord) {
        let code = record.failure.and_then(|failure| failure.code);
        self.0.lock().unwrap().push((record.number, code));
    }
}

/// M32: an observer receives each attempt and its code (`LogObserver` logs them).
#[tokio::test]
async fn an_observer_receives_every_attempt_with_its_code() {
    let settled = Arc::new(Settled::default());
    let retry = retry().observer(Arc::clone(&settled) as Arc<dyn Observer>);
    let (answer, _) = read(retry, RetryReads::default(), &[STEPPED_DOWN]).await;
    assert_eq!(answer, Ok(()));
    assert_eq!(*settled.0.lock().unwrap(), [(1, Some(189)), (2, None)]);
}
