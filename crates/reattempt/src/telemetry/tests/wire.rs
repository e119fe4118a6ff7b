//! What the service below the layers received equals what the metrics say.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::*;
use crate::failure::reason::KV_TEMPORARY_FAILURE;

const CALLS: u64 = 100_000;

/// What happens to one attempt.
async fn attempted(mut random: StdRng) -> Result<(), Verdict> {
    let failure = Failure::new(KV_LOCKED, Stage::Response);
    match random.random_range(0..10) {
        0..=4 => return Ok(()),
        5 => return Err(Verdict::Retry(failure)),
        6 => {
            return Err(Verdict::Fatal(Failure::new(
                KV_TEMPORARY_FAILURE,
                Stage::InFlight,
            )));
        }
        7 => return Err(Verdict::Committed),
        8 => std::future::pending().await,
        _ => {}
    }
    tokio::time::sleep(ms(random.random_range(0..30))).await;
    if random.random_bool(0.5) {
        Ok(())
    } else {
        Err(Verdict::Retry(failure))
    }
}

#[derive(Debug)]
struct Failed(Verdict);

impl From<crate::Elapsed> for Failed {
    fn from(_: crate::Elapsed) -> Self {
        Self(Verdict::Success)
    }
}

#[derive(Clone)]
struct Any;

impl Convention<Call<u64>, ()> for Any {
    fn system(&self) -> System {
        System::Http
    }

    fn operation<'a>(&self, _: &'a Call<u64>) -> Operation<'a> {
        Operation::new("GET")
    }
}

/// 100,000 calls with retries, hedges, deadlines and drops, each attempt with a fate of its own.
#[tokio::test(start_paused = true)]
async fn counts_on_the_wire_equal_counts_in_metrics() {
    let (kept, metrics) = metrics();
    let sent = Arc::new(AtomicU64::new(0));
    let on_wire = Arc::clone(&sent);
    let verdicts = |outcome: Result<&(), &Failed>, _: &CallContext| match outcome {
        Ok(()) => Verdict::Success,
        Err(Failed(verdict)) => *verdict,
    };
    let classifier = crate::classify_fn(verdicts);
    let three = MaxAttempts::new(3, Backoff::constant(ms(5)));
    let service = ServiceBuilder::new()
        .layer(DeadlineLayer::new(ms(60)))
        .layer(RetryLayer::new(classifier, three).observer(Arc::new(metrics.clone())))
        .layer(HedgeLayer::by_policy(classifier).observer(Arc::new(metrics.clone())))
        .layer(metrics.attempts(Any, classifier))
        .service_fn(move |call: Call<u64>| {
            on_wire.fetch_add(1, Ordering::Relaxed);
            let attempt = call.context().map_or(0, CallContext::attempt);
            let fate = StdRng::seed_from_u64(call.request ^ (u64::from(attempt) << 40));
            async move { attempted(fate).await.map_err(Failed) }
        });
    let hedged = Arc::new(RoutePolicy::new("hedged").hedge(HedgePolicy::new(3, ms(8))));
    let off = Arc::new(RoutePolicy::new("off").no_recovery());
    let mut random = StdRng::seed_from_u64(7);
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..CALLS {
        let mut call = Call::new(number);
        let context = call.context_mut();
        context.set_idempotency(Idempotency::Idempotent);
        match random.random_range(0..4) {
            0 => drop(context.set_policy(Arc::clone(&hedged))),
            1 => drop(context.set_policy(Arc::clone(&off))),
            _ => {}
        }
        let patience = ms(random.random_range(0..80));
        let mut service = service.clone();
        tasks.spawn(async move {
            let called = service.ready().await.unwrap().call(call);
            let _ = tokio::time::timeout(patience, called).await;
        });
        if number % 1000 == 0 {
            while tasks.join_next().await.is_some() {}
        }
    }
    while tasks.join_next().await.is_some() {}
    let sent = sent.load(Ordering::Relaxed);
    assert!(sent > CALLS, "{sent}");
    assert_eq!(kept.sum("reattempt.attempts"), sent);
    assert_eq!(kept.sum("http.client.request.duration"), sent);
    assert_eq!(kept.sum("reattempt.stopped"), CALLS);
    let hedges = kept.sum("reattempt.attempts kind=hedge");
    let ended = |result| kept.sum(&format!("reattempt.hedges result={result}"));
    assert!(ended("won") > 0 && ended("lost") > 0);
    assert_eq!(ended("won") + ended("lost"), hedges);
}
