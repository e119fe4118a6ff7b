//! The whole stack around a scripted client: route, retry, client.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use reattempt::{
    Call, CallContext, HasCallContext, RetryInfo, RetryLayer, RouteLayer, RoutePolicy, Stage,
};
use reattempt_mongodb::{
    FailureKind, MongoClassifier, MongoFailure, ReadCall, ReadOperation, RetryReads,
    RetryableReads, report_wire_version,
};
use tower::{ServiceBuilder, ServiceExt};

/// What a client's error contains: the kind of failure, and the attempt.
#[derive(Clone, Copy, Debug, PartialEq)]
struct DriverError(FailureKind, u32);

impl MongoFailure for DriverError {
    fn kind(&self) -> FailureKind {
        self.0
    }
}

#[derive(Clone, Copy, Debug)]
struct Command {
    operation: ReadOperation,
    in_transaction: bool,
}

impl ReadCall for Command {
    fn operation(&self) -> ReadOperation {
        self.operation
    }

    fn in_transaction(&self) -> bool {
        self.in_transaction
    }
}

const fn find() -> Command {
    Command {
        operation: ReadOperation::Find,
        in_transaction: false,
    }
}

/// Sends `command` to servers of this wire version that fail with these kinds, one per attempt, and
/// then succeed. Returns the caller's result and the number of attempts.
async fn run(
    gate: RetryReads,
    command: Command,
    wire_version: i32,
    failures: &[FailureKind],
) -> (Result<(), DriverError>, u32) {
    let script = Arc::new(Mutex::new(
        failures.iter().copied().collect::<VecDeque<_>>(),
    ));
    let client = ServiceBuilder::new()
        .layer(RouteLayer::new(gate))
        .layer(RetryLayer::new(
            MongoClassifier::seed_2022(),
            RetryableReads::seed_2022(),
        ))
        .service_fn(move |call: Call<Command>| {
            let script = Arc::clone(&script);
            async move {
                let context = call.context().expect("a call has a context");
                report_wire_version(&context.reporter(), wire_version);
                let next = script
                    .lock()
                    .expect("no test panics while it holds the lock")
                    .pop_front();
                next.map_or(Ok(()), |kind| Err(DriverError(kind, context.attempt())))
            }
        });
    let mut call = Call::new(command);
    let watch = RetryInfo::track(&mut call);
    let answer = client.oneshot(call).await;
    (answer, watch.info().attempts())
}

const STEPPED_DOWN: FailureKind = FailureKind::command(Some(189));

/// M1 M9 M15
#[tokio::test]
async fn a_read_is_sent_a_second_time_and_works() {
    for first in [
        STEPPED_DOWN,
        FailureKind::network_in_flight(),
        FailureKind::PoolCleared,
    ] {
        assert_eq!(
            run(RetryReads::default(), find(), 6, &[first]).await,
            (Ok(()), 2)
        );
    }
}

/// M22 M28
#[tokio::test]
async fn the_caller_gets_the_failure_that_shows_an_attempt() {
    let gate = RetryReads::default;
    let both = [STEPPED_DOWN, FailureKind::network_in_flight()];
    let (answer, attempts) = run(gate(), find(), 6, &both).await;
    assert_eq!((answer, attempts), (Err(DriverError(both[1], 2)), 2));
    let unsent = [STEPPED_DOWN, FailureKind::Selection];
    let (answer, attempts) = run(gate(), find(), 6, &unsent).await;
    assert_eq!((answer, attempts), (Err(DriverError(STEPPED_DOWN, 1)), 2));
}

/// M12 M14 M19
#[tokio::test]
async fn what_is_not_eligible_is_sent_once() {
    let on = RetryReads::default();
    let in_transaction = Command {
        in_transaction: true,
        ..find()
    };
    let get_more = Command {
        operation: ReadOperation::GetMore,
        ..find()
    };
    let cases = [
        (RetryReads::new(false), find(), 6),
        (on.clone(), in_transaction, 6),
        (on.clone(), get_more, 6),
        (on, find(), 5),
    ];
    for (gate, command, wire_version) in cases {
        let once = run(gate, command, wire_version, &[FailureKind::PoolCleared]).await;
        assert_eq!(once, (Err(DriverError(FailureKind::PoolCleared, 1)), 1));
    }
}

/// M35: a recovery layer above this client is detected, and retries do not multiply.
#[tokio::test]
async fn a_retry_layer_above_is_seen_and_has_the_call_to_itself() {
    let sent = Arc::new(Mutex::new(0));
    let told: Arc<Mutex<Vec<u32>>> = Arc::default();
    let (count, ear) = (Arc::clone(&sent), Arc::clone(&told));
    let gate =
        RetryReads::default().on_nested(move |nested| ear.lock().unwrap().push(nested.attempt));
    let retry = || RetryLayer::new(MongoClassifier::seed_2022(), RetryableReads::seed_2022());
    let client = ServiceBuilder::new()
        .layer(RouteLayer::new(RetryReads::default()))
        .layer(retry())
        .layer(RouteLayer::new(gate))
        .layer(retry())
        .service_fn(move |call: Call<Command>| {
            *count.lock().unwrap() += 1;
            let attempt = call.context().map_or(0, CallContext::attempt);
            async move { Err::<(), _>(DriverError(STEPPED_DOWN, attempt)) }
        });
    let answer = client.oneshot(Call::new(find())).await;
    assert_eq!(answer, Err(DriverError(STEPPED_DOWN, 2)));
    assert_eq!(*sent.lock().unwrap(), 2, "not four");
    assert_eq!(*told.lock().unwrap(), [1, 2]);
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
    STEPPED_DOWN,
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
            let both = [first, second];
            let (answer, _) = run(RetryReads::default(), find(), 6, &both).await;
            let raised = pseudocode(first, second);
            let error = DriverError(both[raised as usize - 1], raised);
            assert_eq!(answer, Err(error), "{first:?}, then {second:?}");
        }
    }
}

/// M10: a policy of its own does not make a call retryable if the client's option is off.
#[tokio::test]
async fn a_policy_on_one_call_does_not_switch_retries_on() {
    let sent = Arc::new(Mutex::new(0));
    let count = Arc::clone(&sent);
    let client = ServiceBuilder::new()
        .layer(RouteLayer::new(RetryReads::new(false)))
        .layer(RetryLayer::new(
            MongoClassifier::seed_2022(),
            RetryableReads::seed_2022(),
        ))
        .service_fn(move |_: Call<Command>| {
            *count.lock().unwrap() += 1;
            async { Err::<(), _>(DriverError(FailureKind::PoolCleared, 1)) }
        });
    let own = RoutePolicy::new("my own").retry(RetryableReads::seed_2022());
    let mut call = Call::new(find());
    call.context_mut().set_policy(Arc::new(own));
    assert!(client.oneshot(call).await.is_err());
    assert_eq!(*sent.lock().unwrap(), 1);
}
