//! The cost of key-value responses: the verdict, an error map lookup, a strategy's decision, and
//! the stack around a call.
//!
//! Responses are created in advance; only their processing is measured. `kv-answer` only reads the
//! status, and is part of all others.

use std::fmt::Debug;
use std::hint::black_box;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use reattempt::reason::{KV_ERROR_MAP_RETRY_INDICATED, KV_TEMPORARY_FAILURE};
use reattempt::strategy::BestEffort;
use reattempt::{
    Backend, Call, CallContext, Classify, ConfigPollLayer, DeadlineLayer, Decision, Elapsed,
    Failure, PushbackLayer, RetryLayer, RetryReason, RetryStrategy, RetryView, Stage, Verdict,
};
use reattempt_couchbase::cluster_config::ConfigPollerOptions;
use reattempt_couchbase::kv::{ErrorMapStrategy, KvTransportError, Opcode, attach_idempotency};
use reattempt_couchbase::{
    Address, ClusterConfig, ConfigPoller, ConfigStore, ErrorMap, ErrorMaps, KvAnswer, KvClassifier,
    KvClientLayer, KvPushback, KvRequest, Revision, StaleKvConfig,
};
use tokio::time::Instant;
use tower::{Layer, Service, ServiceBuilder};

use crate::cases::Case;

/// A response to a get, and the error map of its connection.
#[derive(Clone, Debug)]
struct Answer {
    status: u16,
    map: Option<Arc<ErrorMap>>,
}

impl KvAnswer for Answer {
    fn status(&self) -> u16 {
        self.status
    }

    fn opcode(&self) -> u8 {
        Opcode::GET.0
    }

    fn error_map(&self) -> Option<&ErrorMap> {
        self.map.as_deref()
    }
}

/// An attempt without a response; here this only happens at the deadline.
#[derive(Clone, Copy, Debug)]
struct Lost;

impl From<Elapsed> for Lost {
    fn from(_: Elapsed) -> Self {
        Self
    }
}

impl KvTransportError for Lost {
    fn stage(&self) -> Stage {
        Stage::InFlight
    }
}

#[derive(Clone, Copy, Debug)]
struct Get;

impl KvRequest for Get {
    fn opcode(&self) -> u8 {
        Opcode::GET.0
    }

    fn key(&self) -> Option<&[u8]> {
        Some(b"airline_10")
    }
}

/// The number of entries that current servers send; clients do not know two of them.
const BY_MAP: u16 = 0xff01;
const BY_SPEC: u16 = 0xff02;

fn error_map() -> Arc<ErrorMap> {
    let known = (1..100).map(|code| {
        format!(
            r#""{code:x}": {{"name": "CODE_{code}", "desc": "some text", "attrs": ["item-only"]}}"#
        )
    });
    let spec = r#"{"strategy": "linear", "interval": 10, "after": 60, "ceil": 35}"#;
    let others = [
        format!(r#""{BY_MAP:x}": {{"attrs": ["temp", "retry-now"]}}"#),
        format!(r#""{BY_SPEC:x}": {{"attrs": ["temp", "auto-retry"], "retry": {spec}}}"#),
    ];
    let entries: Vec<_> = known.chain(others).collect();
    let json = format!(
        r#"{{"version": 2, "revision": 1, "errors": {{{}}}}}"#,
        entries.join(",")
    );
    Arc::new(ErrorMap::parse(json.as_bytes()).expect("a map"))
}

fn answer(status: u16) -> Answer {
    let map = Some(error_map());
    Answer { status, map }
}

/// Processes one response this many times.
fn each(calls: u64, status: u16, look: impl Fn(&Answer) -> u64) -> u64 {
    let answer = answer(status);
    let mut sum = 0_u64;
    for _ in 0..calls {
        sum = sum.wrapping_add(look(black_box(&answer)));
    }
    black_box(sum)
}

fn verdicts(calls: u64, status: u16, expected: fn(&Verdict) -> bool) -> u64 {
    let (classifier, context) = (KvClassifier::new(), CallContext::default());
    each(calls, status, |answer| {
        let verdict = judge(&classifier, answer, &context);
        assert!(expected(black_box(&verdict)), "another verdict");
        1
    })
}

/// Classifies as a recovery layer does.
fn judge(classifier: &KvClassifier, answer: &Answer, context: &CallContext) -> Verdict {
    classifier.classify(Ok::<_, &Lost>(answer), context)
}

/// Makes this many decisions about the first failure of a call.
fn decisions(calls: u64, status: u16, reason: RetryReason, expected: Duration) -> u64 {
    let node = Backend::new("127.0.0.1:11210");
    let maps = ErrorMaps::new();
    maps.insert(node.clone(), error_map());
    let strategy: Arc<dyn RetryStrategy> = Arc::new(ErrorMapStrategy::new(maps));
    let failure = Failure::new(reason, Stage::Response).code(status.into());
    let now = Instant::now().into_std();
    let mut view = RetryView::new(&failure, now);
    view.backend = Some(&node);
    for _ in 0..calls {
        let decision = black_box(&strategy).decide(black_box(&view));
        assert!(
            matches!(decision, Decision::After(delay) if delay == expected),
            "another decision"
        );
    }
    calls
}

/// The client: always ready, responds at once.
#[derive(Clone, Debug)]
struct Client(Answer);

impl<R> Service<R> for Client {
    type Response = Answer;
    type Error = Lost;
    type Future = std::future::Ready<Result<Answer, Lost>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Lost>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: R) -> Self::Future {
        std::future::ready(Ok(black_box(self.0.clone())))
    }
}

const CONFIG: &str = r#"{"name": "b", "revEpoch": 1, "rev": 1,
    "nodesExt": [{"hostname": "n1", "services": {"kv": 11210}}],
    "vBucketServerMap": {"hashAlgorithm": "CRC", "serverList": ["n1:11210"], "vBucketMap": [[0], [0], [0], [0]]}}"#;

async fn no_config(
    _: Address,
    _: Option<Revision>,
) -> Result<Option<ClusterConfig>, tower::BoxError> {
    Ok(None)
}

fn poller() -> ConfigPoller {
    let store = ConfigStore::new();
    store.compare_and_swap(ClusterConfig::parse(CONFIG.as_bytes(), "").expect("a configuration"));
    ConfigPoller::spawn(store, no_config, ConfigPollerOptions::new())
}

/// The layers of the documented key-value stack around that client.
fn stack() -> impl Service<Call<Get>, Response = Answer, Error: Debug> {
    ServiceBuilder::new()
        .layer(DeadlineLayer::new(Duration::from_secs(1)))
        .layer(RetryLayer::new(KvClassifier::new(), BestEffort::new()))
        .layer(PushbackLayer::new(KvPushback::new()))
        .layer(ConfigPollLayer::new(StaleKvConfig::new(poller())))
        .service(Client(answer(0)))
}

/// The preset around it.
fn preset() -> impl Service<Call<Get>, Response = Answer, Error: Debug> {
    KvClientLayer::new(poller()).layer(Client(answer(0)))
}

fn gets<S>(mut service: S, calls: u64) -> u64
where
    S: Service<Call<Get>, Response = Answer, Error: Debug>,
{
    let mut cx = Context::from_waker(Waker::noop());
    let mut sum = 0_u64;
    for _ in 0..calls {
        assert!(service.poll_ready(&mut cx).is_ready(), "not ready");
        let mut call = Call::new(Get);
        attach_idempotency(&mut call);
        let mut future = pin!(service.call(call));
        match future.as_mut().poll(&mut cx) {
            Poll::Ready(Ok(answer)) => sum = sum.wrapping_add(u64::from(answer.status) + 1),
            Poll::Ready(Err(error)) => panic!("failed: {error:?}"),
            Poll::Pending => panic!("pending"),
        }
    }
    black_box(sum)
}

fn future_of<S: Service<Call<Get>>>(_: fn() -> S) -> usize {
    size_of::<S::Future>()
}

macro_rules! cases {
    ($($name:literal => $run:expr;)*) => {
        vec![$(Case { name: $name, run: $run, future: 0 }),*]
    };
}

/// All cases in the order of the table. Only the last three have a future.
#[must_use]
pub fn all() -> Vec<Case> {
    let mut cases = cases! {
        "kv-answer" => |calls| each(calls, 0, |answer| u64::from(answer.status()));
        "kv-success" => |calls| verdicts(calls, 0, |verdict| matches!(verdict, Verdict::Success));
        "kv-known-final" => |calls| verdicts(calls, 0x01, |verdict| matches!(verdict, Verdict::Fatal(_)));
        "kv-known-retried" => |calls| verdicts(calls, 0x86, |verdict| matches!(verdict, Verdict::Retry(_)));
        "kv-retried-by-map" => |calls| verdicts(calls, BY_MAP, |verdict| matches!(verdict, Verdict::Retry(_)));
        "kv-not-in-map" => |calls| verdicts(calls, 0xfff0, |verdict| matches!(verdict, Verdict::Fatal(_)));
        "kv-decision-by-map" => |calls| decisions(calls, BY_SPEC, KV_ERROR_MAP_RETRY_INDICATED, Duration::from_millis(60));
        "kv-decision-otherwise" => |calls| decisions(calls, 0x86, KV_TEMPORARY_FAILURE, Duration::from_millis(1));
        "kv-client" => |calls| gets(Client(answer(0)), calls);
        "kv-stack" => |calls| gets(stack(), calls);
        "kv-preset" => |calls| gets(preset(), calls);
    };
    for case in &mut cases {
        case.future = match case.name {
            "kv-client" => future_of::<Client>(|| Client(answer(0))),
            "kv-stack" => future_of(stack),
            "kv-preset" => future_of(preset),
            _ => 0,
        };
    }
    cases
}
