use std::time::Duration;

use crate::failure::reason::KV_TEMPORARY_FAILURE;
use crate::policy::backoff::Backoff;
use crate::policy::strategy::MaxAttempts;
use crate::{
    AttemptKind, Call, Failure, HedgePolicy, RetryInfo, Stage, StopReason, Transparent, Verdict,
    classify_fn,
};
use tower::{Layer, Service, ServiceExt, service_fn};

use super::*;
use crate::backends::BackendLayer;
use crate::{HedgeLayer, RetryLayer};

type Outcome = Result<&'static str, &'static str>;

/// An error may be retried.
fn verdict(outcome: Result<&&'static str, &&'static str>, _: &CallContext) -> Verdict {
    match outcome {
        Ok(_) => Verdict::Success,
        Err(_) => Verdict::Retry(Failure::new(KV_TEMPORARY_FAILURE, Stage::Response).safe(true)),
    }
}

type Verdicts = fn(Result<&&'static str, &&'static str>, &CallContext) -> Verdict;

fn retrying(attempts: u32) -> RetryLayer<Verdicts> {
    let at_once = Backoff::constant(Duration::ZERO);
    RetryLayer::new(verdict, MaxAttempts::new(attempts, at_once))
}

fn hedging(attempts: u32) -> HedgeLayer<Verdicts> {
    HedgeLayer::new(
        verdict,
        HedgePolicy::new(attempts, Duration::from_millis(10)).hedge_non_idempotent(),
    )
}

/// The behaviour of a backend.
#[derive(Clone, Copy, Debug)]
enum Does {
    Answers,
    Fails,
    Hangs,
    /// Is never ready.
    Stalls,
    /// Its readiness is an error.
    Breaks,
}

#[derive(Clone, Copy, Debug)]
struct Replica(&'static str, Does);

impl Service<Call<()>> for Replica {
    type Response = &'static str;
    type Error = &'static str;
    type Future = std::pin::Pin<Box<dyn Future<Output = Outcome> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        match self.1 {
            Does::Stalls => Poll::Pending,
            Does::Breaks => Poll::Ready(Err("broken")),
            _ => Poll::Ready(Ok(())),
        }
    }

    fn call(&mut self, _: Call<()>) -> Self::Future {
        let Self(name, does) = *self;
        Box::pin(async move {
            match does {
                Does::Answers => Ok(name),
                Does::Fails => Err("failed"),
                _ => std::future::pending().await,
            }
        })
    }
}

const NAMES: [&str; 3] = ["one", "two", "three"];

fn three(does: [Does; 3]) -> RoundRobin<Replica> {
    let all = NAMES.into_iter().zip(does);
    RoundRobin::new(all.map(|(name, does)| (name, Replica(name, does)))).unwrap()
}

async fn send<S>(
    layer: &impl Layer<RoundRobin<Replica>, Service = S>,
    to: &RoundRobin<Replica>,
) -> (Outcome, RetryInfo)
where
    S: Service<Call<()>, Response = &'static str, Error = &'static str>,
{
    let mut request = Call::new(());
    let watch = RetryInfo::track(&mut request);
    let call = layer.layer(to.clone()).oneshot(request);
    let outcome = tokio::time::timeout(Duration::from_secs(30), call).await;
    (outcome.expect("it hangs"), watch.info())
}

/// The backends of the attempts, by attempt number.
fn went(info: &RetryInfo) -> Vec<String> {
    let mut went: Vec<_> = info
        .records()
        .map(|record| (record.number, record.backend.clone()))
        .collect();
    went.sort();
    let name = |backend: Option<Backend>| backend.map_or_else(String::new, |b| b.to_string());
    went.into_iter().map(|(_, backend)| name(backend)).collect()
}

/// Other calls take their turns, so that by turn alone the next attempt would use the same backend
/// again.
fn others_take_turns(list: &RoundRobin<Replica>) {
    list.list.turn.fetch_add(NAMES.len() - 1, Ordering::Relaxed);
}

/// R60: a refused connection moves on while there is an untried backend.
#[tokio::test(start_paused = true)]
async fn a_refused_connection_moves_on_uncounted() {
    let refused = |outcome: Result<&&'static str, &&'static str>, _: &CallContext| match outcome {
        Ok(_) => Verdict::Success,
        Err(_) => Verdict::Retry(
            Failure::new(KV_TEMPORARY_FAILURE, Stage::Dispatch)
                .transparent(Transparent::NextBackend),
        ),
    };
    let at_once = |max| MaxAttempts::new(max, Backoff::constant(Duration::ZERO));
    let kinds = |info: &RetryInfo| info.records().map(|record| record.kind).collect::<Vec<_>>();
    use AttemptKind::{Initial, Retry, Transparent as Next};

    let all_down = three([Does::Fails; 3]);
    let layer = RetryLayer::new(classify_fn(refused), at_once(2));
    let (outcome, info) = send(&layer, &all_down).await;
    assert_eq!(outcome, Err("failed"));
    assert_eq!(kinds(&info), [Initial, Next, Next, Retry]);
    assert_eq!(info.stopped(), Some(StopReason::Attempts));

    let hedge = HedgeLayer::new(
        classify_fn(refused),
        HedgePolicy::new(1, Duration::ZERO).hedge_non_idempotent(),
    );
    let (_, info) = send(&hedge, &all_down).await;
    assert_eq!(kinds(&info), [Initial, Next, Next]);

    let one_is_up = three([Does::Fails, Does::Fails, Does::Answers]);
    let (outcome, _) = send(
        &RetryLayer::new(classify_fn(refused), at_once(1)),
        &one_is_up,
    )
    .await;
    assert_eq!(outcome, Ok("three"));

    let single = RoundRobin::new([("one", Replica("one", Does::Fails))]).unwrap();
    let (_, info) = send(&layer, &single).await;
    assert_eq!(kinds(&info), [Initial, Retry]);
}

/// R40
#[tokio::test]
async fn attempts_go_to_distinct_backends_and_then_round_again() {
    let list = three([Does::Fails; 3]);
    let busy = list.clone();
    let classifier = move |outcome: Result<&&'static str, &&'static str>, context: &CallContext| {
        others_take_turns(&busy);
        verdict(outcome, context)
    };
    let at_once = MaxAttempts::new(7, Backoff::constant(Duration::ZERO));
    let (outcome, info) = send(&RetryLayer::new(classify_fn(classifier), at_once), &list).await;
    assert_eq!(outcome, Err("failed"));
    let went = went(&info);
    let mut first_round = went[..3].to_vec();
    first_round.sort();
    assert_eq!(first_round, ["one", "three", "two"]);
    assert_eq!(went[3..6], went[..3], "the least recently used one");
    assert_eq!(went[6], went[0]);
}

#[tokio::test]
async fn calls_take_turns() {
    let list = three([Does::Answers; 3]);
    let mut answers = Vec::new();
    for _ in 0..6 {
        answers.push(send(&retrying(3), &list).await.0.unwrap());
    }
    assert_eq!(answers[..3], NAMES);
    assert_eq!(answers[3..], NAMES);
}

#[tokio::test]
async fn a_failed_backend_is_passed_over_by_the_calls_next_attempt() {
    let list = three([Does::Fails, Does::Fails, Does::Answers]);
    for _ in 0..7 {
        assert_eq!(send(&retrying(3), &list).await.0, Ok("three"));
        list.clone().oneshot(Call::new(())).await.ok();
    }
}

/// R40
#[tokio::test(start_paused = true)]
async fn hedges_use_backends_without_an_attempt_in_flight() {
    let list = three([Does::Hangs, Does::Hangs, Does::Answers]);
    let others = async {
        for wait in [5, 10] {
            tokio::time::sleep(Duration::from_millis(wait)).await;
            others_take_turns(&list);
        }
    };
    let layer = hedging(3);
    let ((outcome, info), ()) = tokio::join!(send(&layer, &list), others);
    assert_eq!(outcome, Ok("three"));
    assert_eq!(went(&info), NAMES);
}

#[tokio::test(start_paused = true)]
async fn a_stalled_backend_delays_no_hedge_and_a_broken_one_fails() {
    let list = three([Does::Stalls, Does::Breaks, Does::Answers]);
    for _ in 0..3 {
        assert_eq!(send(&hedging(3), &list).await.0, Ok("three"));
    }
    let list = three([Does::Breaks; 3]);
    assert_eq!(send(&retrying(2), &list).await.0, Err("broken"));
}

#[tokio::test]
async fn without_a_recovery_layer_it_takes_turns() {
    let list = three([Does::Answers; 3]);
    for name in NAMES {
        assert_eq!(list.clone().oneshot(Call::new(())).await, Ok(name));
    }
}

#[tokio::test]
async fn a_balancer_of_ones_own_reports_by_the_layer() {
    let service = BackendLayer::new("10.0.0.1:11210").layer(Replica("one", Does::Fails));
    let mut request = Call::new(());
    let watch = RetryInfo::track(&mut request);
    let outcome = retrying(2).layer(service).oneshot(request).await;
    assert_eq!(outcome, Err("failed"));
    assert_eq!(went(&watch.info()), ["10.0.0.1:11210"; 2]);
}

#[test]
fn a_list_of_none_is_refused() {
    let none: [(&str, Replica); 0] = [];
    assert_eq!(RoundRobin::new(none).unwrap_err(), NoBackends);
}

#[test]
fn services_need_not_be_sync() {
    fn is_send_and_sync<T: Send + Sync>(_: &T) {}
    let cell = std::cell::Cell::new(0);
    let service = service_fn(move |_: Call<()>| {
        cell.set(cell.get() + 1);
        std::future::ready(Ok::<_, ()>(()))
    });
    is_send_and_sync(&RoundRobin::new([("one", service)]).unwrap());
}
