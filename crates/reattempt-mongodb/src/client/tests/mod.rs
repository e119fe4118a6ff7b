//! The preset against the single layers, with the same script, on paused time.

mod settings;

use std::collections::VecDeque;
use std::sync::Mutex;

use reattempt::test_util::ms;
use reattempt::{Call, ClientErrorLayer, DeadlineLayer, RetryInfo, RetryLayer, StopReason};
use tokio::time::Instant;
use tower::{Layer, ServiceBuilder, ServiceExt, service_fn};

use super::*;
use crate::labels::{RETRYABLE_ERROR, SYSTEM_OVERLOADED_ERROR};
use crate::{ReadOperation, RetryableReads};

/// What one attempt meets.
#[derive(Clone, Copy, Debug)]
enum Step {
    Fails(FailureKind),
    /// Overloaded, with the server's own base of 50 ms.
    Busy,
    WorksAfter(Duration),
    Hangs,
}

const STEPPED_DOWN: Step = Step::Fails(FailureKind::command(Some(189)));
const LOST: Step = Step::Fails(FailureKind::network_in_flight());

/// A client's error, and the attempt that it is of.
#[derive(Clone, Copy, Debug, PartialEq)]
struct DriverError {
    kind: FailureKind,
    busy: bool,
    attempt: u32,
}

impl MongoFailure for DriverError {
    fn kind(&self) -> FailureKind {
        self.kind
    }

    fn labels(&self) -> ErrorLabels {
        if self.busy {
            ErrorLabels::read([SYSTEM_OVERLOADED_ERROR, RETRYABLE_ERROR])
        } else {
            ErrorLabels::NONE
        }
    }

    fn base_backoff(&self) -> Option<Duration> {
        self.busy.then_some(ms(50))
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

const FIND: Command = Command {
    operation: ReadOperation::Find,
    in_transaction: false,
};
const INSERT: Command = Command {
    operation: ReadOperation::Write,
    ..FIND
};
const IN_TRANSACTION: Command = Command {
    in_transaction: true,
    ..FIND
};

/// A client whose attempts meet these steps, and then work.
fn client(
    steps: &[Step],
) -> impl Service<Call<Command>, Response = u32, Error = DriverError, Future: Send> + Clone + Send + use<>
{
    let steps = Arc::new(Mutex::new(steps.iter().copied().collect::<VecDeque<_>>()));
    service_fn(move |call: Call<Command>| {
        let attempt = call.context().unwrap().attempt();
        let step = steps.lock().unwrap().pop_front();
        async move {
            let (kind, busy) = match step {
                None => return Ok(attempt),
                Some(Step::Fails(kind)) => (kind, false),
                Some(Step::Busy) => (FailureKind::command(Some(462)), true),
                Some(Step::WorksAfter(delay)) => {
                    tokio::time::sleep(delay).await;
                    return Ok(attempt);
                }
                Some(Step::Hangs) => std::future::pending().await,
            };
            Err(DriverError {
                kind,
                busy,
                attempt,
            })
        }
    })
}

/// The attempt that worked, or the error; the records, and the duration.
async fn send<S>(service: S, mut call: Call<Command>) -> (Seen, RetryInfo, Duration)
where
    S: Service<Call<Command>, Response = u32, Error = ClientError<DriverError>>,
{
    let handle = RetryInfo::track(&mut call);
    let began = Instant::now();
    let seen = service.oneshot(call).await.map_err(|error| match error {
        ClientError::Transport(error) => format!("{error:?}"),
        ClientError::Elapsed(elapsed) => format!("{elapsed}; ambiguous: {}", elapsed.ambiguous),
        other => format!("{other:?}"),
    });
    (seen, handle.info(), began.elapsed())
}

type Seen = Result<u32, String>;

/// All that a call's records say, except for the clock's time.
fn story(info: &RetryInfo) -> String {
    let records = info.records().map(|record| {
        let what = (record.number, record.kind, record.outcome);
        format!(
            "{what:?} {:?} {:?} {:?}",
            record.failure, record.delay, record.stopped
        )
    });
    format!("{info}\n{}", records.collect::<Vec<_>>().join("\n"))
}

#[tokio::test(start_paused = true)]
async fn the_preset_decides_as_the_single_layers_do() {
    let selection = Step::Fails(FailureKind::Selection);
    let authentication = Step::Fails(FailureKind::handshake(Some(18)));
    let unfinished = Step::Fails(FailureKind::network_before_sending());
    for steps in [
        &[][..],
        &[STEPPED_DOWN],
        &[STEPPED_DOWN, LOST],
        &[STEPPED_DOWN, selection],
        &[LOST, unfinished],
        &[authentication],
        &[unfinished],
        &[Step::Busy],
        &[STEPPED_DOWN, Step::Hangs],
    ] {
        for command in [FIND, INSERT, IN_TRANSACTION] {
            let limit = Duration::from_secs(10);
            let preset = MongoClientLayer::new().timeout(limit).layer(client(steps));
            let singles = ServiceBuilder::new()
                .layer(DeadlineLayer::new(limit))
                .layer(RetryLayer::new(
                    MongoClassifier::seed_2022(),
                    RetryableReads::seed_2022(),
                ))
                .layer(ClientErrorLayer)
                .service(client(steps));
            let (seen, info, took) = send(preset, Call::new(command)).await;
            let mut call = Call::new(command);
            let (operation, in_transaction) = (command.operation, command.in_transaction);
            RetryReads::new(true).attach(call.context_mut(), operation, in_transaction);
            let (expected, of_singles, expected_time) = send(singles, call).await;
            let found = (seen, took, story(&info));
            let expected = (expected, expected_time, story(&of_singles));
            assert_eq!(found, expected, "{command:?} {steps:?}");
        }
    }
}
