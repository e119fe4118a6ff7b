//! The preset against the single layers, with the same script, on paused time.

mod settings;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use reattempt::backoff::Randomness;
use reattempt::strategy::BestEffort;
use reattempt::test_util::ms;
use reattempt::{
    Backend, Call, ClientErrorLayer, ConfigPollLayer, DeadlineLayer, PushbackLayer, RetryInfo,
    RetryLayer,
};
use tokio::time::{Instant, sleep};
use tower::{BoxError, Layer, ServiceBuilder, ServiceExt, service_fn};

use super::*;
use crate::cluster_config::{ConfigPoller, ConfigPollerOptions, ConfigStore};
use crate::kv::{Opcode, Status};
use crate::testing::{Answer, Lost, Request, bucket, config, map, node};

/// What one attempt meets.
#[derive(Clone, Copy, Debug)]
enum Step {
    Status(u16),
    /// A status that is only in the error map, with attributes and a retry specification.
    ByMap,
    /// "Not my vbucket", with this revision in its body.
    Moved(i64),
    Throttled,
    Lost(Stage),
    ForGood,
    Hangs,
    /// Never gets a connection, and reports so.
    Connects,
}

const BY_MAP: u16 = 0xff01;

fn answer(step: Step, opcode: Opcode) -> Result<Answer, Lost> {
    let spec = r#"{"strategy": "constant", "interval": 70, "after": 30}"#;
    let map = map(&[("ff01", "retry-later auto-retry", spec)]);
    let answer = match step {
        Step::Status(status) => Answer::of(status),
        Step::ByMap => Answer::of(BY_MAP),
        Step::Moved(rev) => Answer::of(0x07).value(bucket(1, rev, 3, 1)),
        Step::Throttled => {
            let mut answer = Answer::of(Status::EWOULD_THROTTLE.0);
            // 10,000 ^ 1.74 / 2 µs: 4.56 s.
            answer.framing_extras = vec![0x32, 0x27, 0x10];
            answer
        }
        Step::Lost(stage) => return Err(Lost::At(stage)),
        Step::ForGood => return Err(Lost::ForGood),
        Step::Hangs | Step::Connects => return Err(Lost::At(Stage::InFlight)),
    };
    Ok(answer.to(opcode).map(&map))
}

/// A client that meets these steps, and then succeeds. It reports the node of each attempt.
fn client(
    steps: &[Step],
) -> impl Service<Call<Request>, Response = Answer, Error = Lost, Future: Send> + Clone + Send + use<>
{
    let steps = Arc::new(Mutex::new(steps.iter().copied().collect::<VecDeque<_>>()));
    service_fn(move |call: Call<Request>| {
        let step = steps.lock().unwrap().pop_front();
        let reporter = call.context().unwrap().reporter();
        reporter.backend(Backend::new(node(1).to_string()));
        async move {
            let step = step.unwrap_or(Step::Status(0));
            if matches!(step, Step::Connects) {
                reporter.stage(Stage::Dispatch);
            }
            if matches!(step, Step::Hangs | Step::Connects) {
                std::future::pending::<()>().await;
            }
            answer(step, call.request.opcode)
        }
    })
}

/// The poller of a cluster of three, and the nodes that it has asked. From 100 ms on they have a
/// configuration in which all keys have moved.
fn poller() -> (ConfigPoller, Arc<Mutex<Vec<Address>>>) {
    let (store, start) = (ConfigStore::new(), Instant::now());
    store.compare_and_swap(config(1, 1, 3, 0));
    let asked: Arc<Mutex<Vec<Address>>> = Arc::default();
    let notes = Arc::clone(&asked);
    let fetch = move |node: Address, _| {
        notes.lock().unwrap().push(node);
        let newer = start.elapsed() >= ms(100);
        async move { Ok::<_, BoxError>(newer.then(|| config(1, 9, 3, 1))) }
    };
    let options = ConfigPollerOptions::new()
        .interval(Duration::MAX)
        .first_from_client()
        .randomness(Randomness::Fixed(0.0));
    (ConfigPoller::spawn(store, fetch, options), asked)
}

fn request(opcode: Opcode) -> Call<Request> {
    let key = Some(&b"k"[..]);
    Call::new(Request { opcode, key })
}

/// The status or the error of a call, its records, and its duration.
async fn send<S>(service: S, mut call: Call<Request>) -> (Seen, RetryInfo, Duration)
where
    S: Service<Call<Request>, Response = Answer, Error = ClientError<Lost>>,
{
    let handle = RetryInfo::track(&mut call);
    let began = Instant::now();
    let outcome = service.oneshot(call).await;
    let seen = outcome.map(|answer| answer.status);
    let seen = seen.map_err(|error| match error {
        ClientError::Transport(lost) => format!("{lost:?}"),
        ClientError::Elapsed(elapsed) => format!("{elapsed}; ambiguous: {}", elapsed.ambiguous),
        other => format!("{other:?}"),
    });
    (seen, handle.info(), began.elapsed())
}

type Seen = Result<u16, String>;

/// All that a call's records say, except for the clock's time.
fn story(info: &RetryInfo) -> String {
    let records = info.records().map(|record| {
        let decided = (record.pushback, record.delay, record.stopped);
        let what = (record.number, record.kind, record.outcome);
        format!(
            "{what:?} {:?} {decided:?} {:?}",
            record.failure, record.backend
        )
    });
    format!("{info}\n{}", records.collect::<Vec<_>>().join("\n"))
}

/// C1 C3: RFC 0049, Retry Reasons: `CIRCUIT_BREAKER_OPEN` is retried, also for a write.
#[tokio::test(start_paused = true)]
async fn best_effort_waits_for_a_circuit_to_close() {
    use reattempt::health::{CircuitBreaker, HealthPolicy};
    let now = Instant::now().into_std();
    let breaker = Arc::new(CircuitBreaker::new(HealthPolicy::standard(), now));
    let layer = reattempt::CircuitBreakerLayer::new(Arc::clone(&breaker), KvClassifier::new());
    let stack = ServiceBuilder::new()
        .layer(DeadlineLayer::new(ms(1000)))
        .layer(RetryLayer::new(KvClassifier::new(), BestEffort::new()))
        .layer(layer)
        .layer(ClientErrorLayer)
        .service(client(&[]));
    for (closes_after, seen) in [(Some(ms(40)), Ok(0)), (None, Err(()))] {
        breaker.open();
        let call = send(stack.clone(), request(Opcode::SET));
        let closes = async {
            if let Some(after) = closes_after {
                sleep(after).await;
                breaker.close();
            }
        };
        let ((outcome, info, took), ()) = tokio::join!(call, closes);
        assert_eq!(outcome.map_err(drop), seen);
        let reasons = info.reasons().map(|reason| reason.name());
        assert!(reasons.eq(["CIRCUIT_BREAKER_OPEN"]), "{info}");
        assert!(took <= ms(1000), "{took:?}");
    }
}

/// The preset around a client that meets these steps.
async fn get(layer: &KvClientLayer, steps: &[Step]) -> (Seen, RetryInfo, Duration) {
    send(layer.layer(client(steps)), request(Opcode::GET)).await
}

#[tokio::test(start_paused = true)]
async fn the_preset_decides_as_the_single_layers_do() {
    use Step::*;
    for steps in [
        &[][..],
        &[Status(0x86), Status(0x09), Status(0xa2)],
        &[Status(0x01)],
        &[Status(0x86); 20],
        &[ByMap, Status(0x86), ByMap],
        &[Status(0x07), Status(0x07)],
        &[Moved(2), Moved(3)],
        &[Throttled],
        &[Lost(Stage::Dispatch), Lost(Stage::InFlight)],
        &[Lost(Stage::InFlight)],
        &[Lost(Stage::Dispatch); 9],
        &[Lost(Stage::InFlight), ForGood],
        &[Connects],
        &[Status(0x86), Hangs],
    ] {
        for opcode in [Opcode::GET, Opcode::SET, Opcode::UNLOCK] {
            let (of_preset, asked) = poller();
            let preset = KvClientLayer::new(of_preset).layer(client(steps));
            let (seen, info, took) = send(preset, request(opcode)).await;

            let (poller, asked_by_singles) = poller();
            let observer = Arc::new(poller.clone());
            let singles = ServiceBuilder::new()
                .layer(DeadlineLayer::new(ms(2500)))
                .layer(RetryLayer::new(KvClassifier::new(), BestEffort::new()).observer(observer))
                .layer(PushbackLayer::new(KvPushback::new()))
                .layer(ConfigPollLayer::new(StaleKvConfig::new(poller)))
                .layer(ClientErrorLayer)
                .service(client(steps));
            let mut call = request(opcode);
            attach_idempotency(&mut call);
            let (expected, of_singles, expected_time) = send(singles, call).await;

            // A deadline that passed causes a refresh, which another task makes.
            sleep(ms(1)).await;
            let asked = asked.lock().unwrap().clone();
            let found = (seen, took, story(&info), asked);
            let asked = asked_by_singles.lock().unwrap().clone();
            let expected = (expected, expected_time, story(&of_singles), asked);
            assert_eq!(found, expected, "{opcode:?} {steps:?}");
        }
    }
}
