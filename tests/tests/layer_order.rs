//! Every order of the six layers works, or is reported by a warning. (An impossible order does not
//! compile: only `Deadline` needs an error type, and only the recovery layers need a request that
//! can be replayed.)

use std::sync::Arc;
use std::time::Duration;

use reattempt::ConfigWaiter;
use reattempt::backoff::Backoff;
use reattempt::config_poll::{ConfigPollLayer, StaleConfig};
use reattempt::reason::{KV_NOT_MY_VBUCKET, KV_TEMPORARY_FAILURE};
use reattempt::strategy::MaxAttempts;
use reattempt::test_util::{
    Answer, CallResult, Fault, Payload, Probe, attempt, call_result, elapsed, listen, ms, probe,
    verdict,
};
use reattempt::{
    Call, CallContext, DeadlineLayer, DeadlineScope, HasCallContext, HedgeLayer, HedgePolicy,
    Idempotency, RetryLayer, RetryThrottle, RoutePolicy, ServerPushback, ThrottleLayer,
    TokenBucket, Verdict,
};
use reattempt::{FoundPushback, PushbackLayer, ReadPushback};
use tower::util::BoxCloneService;
use tower::{Layer, ServiceExt};

type Verdicts = fn(Result<&Answer, &Fault>, &CallContext) -> Verdict;
type Stack = BoxCloneService<Call<Payload>, Answer, Fault>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Retry,
    Hedge,
    Throttle,
    Deadline,
    Pushback,
    ConfigPoll,
}

use Kind::{ConfigPoll, Deadline, Hedge, Pushback, Retry, Throttle};

/// All orders, outermost first.
fn orders() -> Vec<Vec<Kind>> {
    fn extend(order: &[Kind], left: &[Kind], all: &mut Vec<Vec<Kind>>) {
        if left.is_empty() {
            all.push(order.to_vec());
        }
        for (at, kind) in left.iter().enumerate() {
            let rest: Vec<_> = [&left[..at], &left[at + 1..]].concat();
            extend(&[order, &[*kind]].concat(), &rest, all);
        }
    }
    let mut all = Vec::new();
    let six = [Retry, Hedge, Throttle, Deadline, Pushback, ConfigPoll];
    extend(&[], &six, &mut all);
    all
}

/// Reports a pushback of 40 ms after the first attempt.
#[derive(Clone, Debug)]
struct Reader;

impl ReadPushback<Answer, Fault> for Reader {
    fn read(&self, outcome: Result<&Answer, &Fault>, _: &CallContext) -> FoundPushback {
        match outcome {
            Err(Fault::Server(answer)) if answer.attempt == 1 => {
                FoundPushback::Valid(ServerPushback::After(ms(40)))
            }
            _ => FoundPushback::Absent,
        }
    }
}

/// Reports at once that the key has moved.
#[derive(Clone, Debug)]
struct Moved;

impl<Req> StaleConfig<Req, Answer, Fault> for Moved {
    type Note = ();

    fn note(&self, _: &Req) {}

    fn check(&self, (): (), outcome: Result<&Answer, &Fault>) -> Option<ConfigWaiter> {
        let failed = outcome.is_err();
        failed.then(|| Box::pin(std::future::ready(true)) as ConfigWaiter)
    }
}

/// The parameters of a scenario.
struct Parts {
    bucket: Arc<TokenBucket>,
    limit: Duration,
    pushback: bool,
    poll: bool,
}

impl Parts {
    fn new() -> Self {
        Self {
            bucket: Arc::new(TokenBucket::new(10, 100).unwrap()),
            limit: ms(1000),
            pushback: false,
            poll: false,
        }
    }

    fn layer(&self, kind: Kind, inner: Stack) -> Stack {
        match kind {
            Retry => {
                let strategy = MaxAttempts::new(3, Backoff::constant(ms(10)));
                Stack::new(RetryLayer::new(verdict as Verdicts, strategy).layer(inner))
            }
            Hedge => Stack::new(HedgeLayer::by_policy(verdict as Verdicts).layer(inner)),
            Throttle => Stack::new(ThrottleLayer::new(self.bucket.clone()).layer(inner)),
            Deadline => Stack::new(DeadlineLayer::new(self.limit).layer(inner)),
            Pushback if self.pushback => Stack::new(PushbackLayer::new(Reader).layer(inner)),
            ConfigPoll if self.poll => Stack::new(ConfigPollLayer::new(Moved).layer(inner)),
            Pushback | ConfigPoll => inner,
        }
    }

    fn stack(&self, order: &[Kind], probe: &Probe) -> Stack {
        let bottom = Stack::new(probe.inner());
        let from_the_inside = order.iter().rev();
        from_the_inside.fold(bottom, |inner, kind| self.layer(*kind, inner))
    }
}

/// True if `inner` is below `outer`.
fn below(order: &[Kind], inner: Kind, outer: Kind) -> bool {
    let place = |kind| order.iter().position(|k| *k == kind);
    place(inner) > place(outer)
}

/// The layers that must warn that they have no effect in their position, relative to the recovery
/// layer that acts.
fn misplaced(order: &[Kind], parts: &Parts, acts: Kind) -> Vec<&'static str> {
    let may_speak = [
        (
            parts.poll && below(order, acts, ConfigPoll),
            "ConfigPollLayer",
        ),
        (
            parts.pushback && below(order, acts, Pushback),
            "PushbackLayer",
        ),
        (below(order, Throttle, acts), "ThrottleLayer"),
    ];
    let speaking = may_speak.into_iter().filter(|(speaks, _)| *speaks);
    speaking.map(|(_, layer)| layer).collect()
}

/// The layers that warned, sorted.
fn speakers(warnings: &[String]) -> Vec<&str> {
    let first_words = warnings.iter().filter_map(|said| said.split(' ').next());
    let mut speakers: Vec<_> = first_words.collect();
    speakers.sort_unstable();
    speakers
}

#[tokio::test(start_paused = true)]
async fn retries_with_pushback_and_throttle_work_or_warn_in_any_order() {
    for order in orders() {
        let listener = listen();
        let parts = Parts {
            pushback: true,
            ..Parts::new()
        };
        let probe = probe([attempt(1).fails(KV_TEMPORARY_FAILURE), attempt(2)]);
        let outcome = parts.stack(&order, &probe).oneshot(probe.request()).await;
        assert_eq!(call_result(&outcome), CallResult::Answer(2), "{order:?}");
        let heeded = below(&order, Pushback, Retry);
        let delay = if heeded { 40 } else { 10 };
        assert_eq!(probe.log().times(), [0, delay], "{order:?}");
        let counted = below(&order, Retry, Throttle);
        let fill = if counted { 9100 } else { 10_000 };
        assert_eq!(parts.bucket.milli_tokens(), Some(fill), "{order:?}");
        let want = misplaced(&order, &parts, Retry);
        assert_eq!(speakers(&listener.warnings()), want, "{order:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn config_poll_works_in_every_order_or_it_is_said() {
    for order in orders() {
        let listener = listen();
        let parts = Parts {
            poll: true,
            ..Parts::new()
        };
        let probe = probe([attempt(1).fails(KV_NOT_MY_VBUCKET), attempt(2)]);
        let outcome = parts.stack(&order, &probe).oneshot(probe.request()).await;
        assert_eq!(call_result(&outcome), CallResult::Answer(2), "{order:?}");
        let delay = u64::from(below(&order, Retry, ConfigPoll));
        assert_eq!(probe.log().times(), [0, delay], "{order:?}");
        let want = misplaced(&order, &parts, Retry);
        assert_eq!(speakers(&listener.warnings()), want, "{order:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_deadline_bounds_what_is_below_it_in_every_order() {
    for order in orders() {
        let parts = Parts {
            limit: ms(25),
            ..Parts::new()
        };
        let probe = probe([attempt(1).hangs(), attempt(2)]);
        let mut request = probe.request();
        let context = request.context_mut();
        context.set_idempotency(Idempotency::Idempotent);
        let outcome = parts.stack(&order, &probe).oneshot(request).await;
        if below(&order, Deadline, Retry) {
            assert_eq!(call_result(&outcome), CallResult::Answer(2), "{order:?}");
            assert_eq!(probe.log().times(), [0, 35], "{order:?}");
        } else {
            assert_eq!(elapsed(outcome).scope, DeadlineScope::Call, "{order:?}");
            assert_eq!(probe.log().now(), 25, "{order:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn hedges_work_in_every_order_or_it_is_said() {
    let policy = Arc::new(
        RoutePolicy::new("hedged").hedge(HedgePolicy::new(3, ms(4)).hedge_non_idempotent()),
    );
    for order in orders() {
        let listener = listen();
        let parts = Parts {
            pushback: true,
            ..Parts::new()
        };
        let first = attempt(1).fails(KV_TEMPORARY_FAILURE).after(ms(1));
        let probe = probe([first, attempt(2)]);
        let mut request = probe.request();
        request.context_mut().set_policy(Arc::clone(&policy));
        let outcome = parts.stack(&order, &probe).oneshot(request).await;
        assert_eq!(call_result(&outcome), CallResult::Answer(2), "{order:?}");
        let heeded = below(&order, Pushback, Hedge);
        let second = if heeded { 41 } else { 1 };
        assert_eq!(probe.log().times(), [0, second], "{order:?}");
        let want = misplaced(&order, &parts, Hedge);
        assert_eq!(speakers(&listener.warnings()), want, "{order:?}");
    }
}
