#[cfg(feature = "discover")]
mod discover;
mod late;
mod stopped;

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Waker;
use std::time::Duration;

use tower::{Layer, ServiceExt};

use super::*;
use crate::ServerPushback;
use crate::backoff::{Backoff, Randomness};
use crate::clock;
use crate::failure::reason::{KV_TEMPORARY_FAILURE, SOCKET_CLOSED_WHILE_IN_FLIGHT};
use crate::health::HealthPolicy;
use crate::strategy::MaxAttempts;
use crate::{
    AttemptKind, Call, CallContext, Failure, HedgeLayer, HedgePolicy, Idempotency, RetryInfo,
    RetryLayer, Stage, Verdict,
};

type Outcome = Result<usize, &'static str>;
type Classifier = fn(Result<&usize, &&'static str>, &CallContext) -> Verdict;

fn verdict(outcome: Result<&usize, &&'static str>, _: &CallContext) -> Verdict {
    match outcome {
        Ok(_) => Verdict::Success,
        Err(&"late") => {
            Verdict::Retry(Failure::new(SOCKET_CLOSED_WHILE_IN_FLIGHT, Stage::InFlight))
        }
        Err(_) => Verdict::Retry(Failure::new(KV_TEMPORARY_FAILURE, Stage::Response)),
    }
}

/// A backend that answers after a time, fails, or hangs.
#[derive(Debug, Default)]
struct Server {
    hangs: AtomicBool,
    fails: AtomicBool,
    got: AtomicUsize,
}

#[derive(Clone, Debug)]
struct Replica(usize, Arc<Server>);

impl Service<Call<()>> for Replica {
    type Response = usize;
    type Error = &'static str;
    type Future = Pin<Box<dyn Future<Output = Outcome> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Call<()>) -> Self::Future {
        let Self(number, server) = self.clone();
        server.got.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(2)).await;
            if server.hangs.load(Ordering::Relaxed) {
                std::future::pending::<()>().await;
            }
            if server.fails.load(Ordering::Relaxed) {
                return Err("failed");
            }
            Ok(number)
        })
    }
}

type Three = Backends<Replica, Classifier>;

fn policy() -> HealthPolicy {
    HealthPolicy::standard().randomness(Randomness::seeded(3))
}

fn three() -> (Three, [Arc<Server>; 3]) {
    let servers = <[Arc<Server>; 3]>::default();
    let replicas = servers.iter().cloned().enumerate();
    let named = replicas.map(|(at, server)| (at.to_string(), Replica(at, server)));
    (
        Backends::new(named, policy(), verdict as Classifier),
        servers,
    )
}

fn retrying() -> RetryLayer<Classifier> {
    let at_once = Backoff::constant(Duration::ZERO);
    RetryLayer::new(verdict, MaxAttempts::new(3, at_once))
}

fn hedging() -> HedgeLayer<Classifier> {
    HedgeLayer::new(verdict, HedgePolicy::new(3, Duration::from_millis(50)))
}

/// A client of the servers.
trait Client: Service<Call<()>, Response = usize, Error = &'static str> + Clone {}

impl<S> Client for S where S: Service<Call<()>, Response = usize, Error = &'static str> + Clone {}

async fn send(service: &impl Client) -> (Outcome, RetryInfo) {
    send_as(Idempotency::Idempotent, service).await
}

/// Sends this many calls, which all work.
async fn all_work(calls: usize, service: &impl Client) {
    for _ in 0..calls {
        send(service).await.0.unwrap();
    }
}

async fn send_as(idempotency: Idempotency, service: &impl Client) -> (Outcome, RetryInfo) {
    let mut request = Call::new(());
    request.context_mut().set_idempotency(idempotency);
    let watch = RetryInfo::track(&mut request);
    let call = service.clone().oneshot(request);
    let outcome = tokio::time::timeout(Duration::from_secs(30), call).await;
    (outcome.expect("it hangs"), watch.info())
}

fn ejected(balanced: &Three) -> Vec<String> {
    let all = balanced.status().into_iter();
    let ejected = all.filter(|(_, status)| status.is_ejected());
    ejected.map(|(name, _)| name.to_string()).collect()
}

/// What became of calls of one second, 100 of them: how many took longer than 10 ms.
async fn second<S>(service: &S) -> usize
where
    S: Client<Future: Send> + Send + Sync + 'static,
{
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..100 {
        let service = service.clone();
        calls.spawn(async move {
            let began = clock::now();
            let (outcome, _) = send(&service).await;
            assert!(outcome.is_ok(), "a call is lost");
            clock::now().duration_since(began)
        });
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let took = calls.join_all().await;
    took.iter()
        .filter(|took| **took > Duration::from_millis(10))
        .count()
}

/// The same of calls that go on for these seconds.
async fn felt_in<S>(seconds: usize, service: &S) -> usize
where
    S: Client<Future: Send> + Send + Sync + 'static,
{
    let mut felt = 0;
    for _ in 0..seconds {
        felt += second(service).await;
    }
    felt
}

fn take_counts(servers: &[Arc<Server>; 3]) -> [usize; 3] {
    servers
        .each_ref()
        .map(|server| server.got.swap(0, Ordering::Relaxed))
}

/// The second server, which hung, answers again.
async fn gets_its_load_back<S>(service: &S, servers: &[Arc<Server>; 3])
where
    S: Client<Future: Send> + Send + Sync + 'static,
{
    servers[1].hangs.store(false, Ordering::Relaxed);
    felt_in(10, service).await;
    take_counts(servers);
    felt_in(10, service).await;
    let counts = take_counts(servers);
    assert!(
        counts.iter().all(|count| (250..420).contains(count)),
        "{counts:?}"
    );
}

/// A black-holed backend, with hedges.
#[tokio::test(start_paused = true)]
async fn a_silent_backend_is_felt_by_few_and_gets_its_load_back() {
    let (balanced, servers) = three();
    let service = hedging().layer(balanced.clone());
    second(&service).await;
    servers[1].hangs.store(true, Ordering::Relaxed);
    let first = felt_in(2, &service).await;
    let felt = felt_in(60, &service).await;
    assert!(
        felt <= 60,
        "{felt} of 6000 after two seconds, {first} before"
    );
    gets_its_load_back(&service, &servers).await;
}

/// The same with retries, and a timeout of each attempt.
#[tokio::test(start_paused = true)]
async fn a_silent_backend_loses_no_call_that_may_be_retried() {
    let (balanced, servers) = three();
    let limit = crate::DeadlineLayer::new(Duration::from_millis(50)).on_elapsed(AsLate);
    let service = retrying().layer(limit.layer(balanced.clone()));
    second(&service).await;
    servers[1].hangs.store(true, Ordering::Relaxed);
    felt_in(2, &service).await;
    let felt = felt_in(60, &service).await;
    assert!(felt <= 60, "{felt} of 6000");
    gets_its_load_back(&service, &servers).await;
}

#[derive(Clone, Debug)]
struct AsLate;

impl crate::deadline::OnElapsed<usize, &'static str> for AsLate {
    fn on_elapsed(&self, _: crate::Elapsed) -> Outcome {
        Err("late")
    }
}

#[tokio::test(start_paused = true)]
async fn a_failing_backend_is_ejected_and_its_calls_go_elsewhere() {
    let (balanced, servers) = three();
    servers[2].fails.store(true, Ordering::Relaxed);
    let service = retrying().layer(balanced.clone());
    for _ in 0..100 {
        let (outcome, info) = send(&service).await;
        assert!(outcome.is_ok());
        let records: Vec<_> = info.records().collect();
        for pair in records.windows(2) {
            assert_ne!(pair[0].backend, pair[1].backend, "distinct ones");
        }
    }
    assert_eq!(ejected(&balanced), ["2"]);
    assert!(servers[2].got.load(Ordering::Relaxed) <= 5);
}

#[tokio::test(start_paused = true)]
async fn a_probe_is_a_hedge_and_brings_a_backend_back() {
    let (balanced, _servers) = two_hang_beside_an_ejected_one().await;
    let (outcome, info) = send(&hedging().layer(balanced.clone())).await;
    assert_eq!(outcome, Ok(0));
    let probe = info.records().find(|record| record.number == 2).unwrap();
    assert_eq!(probe.kind, AttemptKind::Hedge);
    assert!(ejected(&balanced).is_empty());
}

/// One server is ejected and works again, the two others hang, and it is time for a probe.
async fn two_hang_beside_an_ejected_one() -> (Three, [Arc<Server>; 3]) {
    let (balanced, servers) = three();
    servers[0].fails.store(true, Ordering::Relaxed);
    let retries = retrying().layer(balanced.clone());
    all_work(50, &retries).await;
    assert_eq!(ejected(&balanced), ["0"]);
    servers[0].fails.store(false, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_millis(1500)).await;
    // Neither first attempts nor retries go there.
    all_work(50, &retries).await;
    assert_eq!(ejected(&balanced), ["0"]);
    servers[1].hangs.store(true, Ordering::Relaxed);
    servers[2].hangs.store(true, Ordering::Relaxed);
    (balanced, servers)
}

/// If the others fail, its caller would wait for the probe alone.
#[tokio::test(start_paused = true)]
async fn the_last_attempt_of_a_call_is_no_probe() {
    let (balanced, servers) = two_hang_beside_an_ejected_one().await;
    take_counts(&servers);
    let two = HedgePolicy::new(2, Duration::from_millis(50));
    let service = HedgeLayer::new(verdict as Classifier, two).layer(balanced.clone());
    let call = tokio::time::timeout(Duration::from_secs(1), send(&service));
    assert!(call.await.is_err());
    assert_eq!(take_counts(&servers), [0, 1, 1]);
    assert_eq!(ejected(&balanced), ["0"]);
}

/// It gets no hedge, and so no probe.
#[tokio::test(start_paused = true)]
async fn a_backend_of_non_idempotent_calls_returns_by_time() {
    let (balanced, servers) = three();
    servers[1].fails.store(true, Ordering::Relaxed);
    let service = hedging().layer(balanced.clone());
    for _ in 0..50 {
        let _ = send_as(Idempotency::NotIdempotent, &service).await;
    }
    assert_eq!(ejected(&balanced), ["1"]);
    servers[1].fails.store(false, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_millis(4500)).await;
    take_counts(&servers);
    for _ in 0..100 {
        let (outcome, _) = send_as(Idempotency::NotIdempotent, &service).await;
        outcome.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(ejected(&balanced).is_empty());
    let got = take_counts(&servers);
    assert!(got[1] > 10, "{got:?}");
}

#[tokio::test(start_paused = true)]
async fn a_hedge_that_replaces_a_failed_attempt_is_no_probe() {
    let (balanced, servers) = three();
    servers[0].fails.store(true, Ordering::Relaxed);
    let retries = retrying().layer(balanced.clone());
    all_work(50, &retries).await;
    take_counts(&servers);
    tokio::time::sleep(Duration::from_secs(2)).await;
    // Both healthy ones fail at once: the caller waits for the next attempt alone.
    servers[1].fails.store(true, Ordering::Relaxed);
    let (outcome, _) = send(&hedging().layer(balanced.clone())).await;
    assert_eq!(outcome, Ok(2));
    assert_eq!(servers[0].got.load(Ordering::Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn a_call_waits_for_the_first_backend_and_follows_the_list() {
    let none: [(&str, Replica); 0] = [];
    let balanced = Backends::new(none, policy(), verdict as Classifier);
    let service = retrying().layer(balanced.clone());
    let replica = |number| Replica(number, Arc::default());
    let (outcome, ()) = tokio::join!(send(&service), async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        balanced.insert("7", replica(7));
    });
    assert_eq!(outcome.0, Ok(7));
    balanced.insert("7", replica(8));
    assert_eq!(send(&service).await.0, Ok(8), "replaced");
    balanced.set([("9", replica(9)), ("10", replica(10))]);
    balanced.remove("9");
    assert_eq!(send(&service).await.0, Ok(10));
    assert_eq!(balanced.status().len(), 1);
    assert_eq!(format!("{balanced:?}"), r#"Backends(["10"])"#);
}

#[tokio::test(start_paused = true)]
async fn an_attempt_ends_at_the_backend_that_was_removed() {
    let (balanced, servers) = three();
    servers[1].hangs.store(true, Ordering::Relaxed);
    let mut own = balanced.clone();
    let mut flights = Vec::new();
    for _ in 0..6 {
        flights.push(own.ready().await.unwrap().call(Call::new(())));
    }
    let in_flight = |balanced: &Three| -> u32 {
        let all = balanced.status();
        all.iter().map(|(_, status)| status.in_flight).sum()
    };
    assert_eq!(in_flight(&balanced), 6);
    balanced.remove("1");
    assert_eq!(in_flight(&balanced), 4);
    drop(flights);
    assert_eq!(in_flight(&balanced), 0);
}

#[tokio::test(start_paused = true)]
async fn a_clone_that_only_changes_the_list_keeps_no_service() {
    let (balanced, servers) = three();
    let (editor, mut used) = (balanced.clone(), balanced.clone());
    used.ready().await.unwrap();
    let of_used = used.clone();
    let count = || Arc::strong_count(&servers[1]);
    editor.remove("1");
    assert_eq!(editor.status().len(), 2);
    used.ready().await.unwrap();
    assert_eq!(count(), 1, "nothing but the test keeps it");
    drop((editor, of_used));
}

#[tokio::test(start_paused = true)]
async fn an_attempt_in_flight_keeps_no_service_but_its_own() {
    let (balanced, servers) = three();
    for server in &servers {
        server.hangs.store(true, Ordering::Relaxed);
    }
    let in_flight = loop {
        let call = balanced.clone().oneshot(Call::new(()));
        let mut call = Box::pin(call);
        let polled = call.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(polled.is_pending());
        if servers[0].got.load(Ordering::Relaxed) == 1 {
            break call;
        }
    };
    balanced.remove("1");
    assert_eq!(Arc::strong_count(&servers[1]), 1, "only the test keeps it");
    drop(in_flight);
}

fn later(outcome: Result<&usize, &&'static str>) -> Option<ServerPushback> {
    let delay = Duration::from_secs(20);
    outcome.is_err().then_some(ServerPushback::After(delay))
}

#[tokio::test(start_paused = true)]
async fn pushback_keeps_load_away() {
    let (balanced, servers) = three();
    servers[0].fails.store(true, Ordering::Relaxed);
    let service = balanced.pushback(later);
    for _ in 0..100 {
        let _ = send(&service).await;
    }
    assert_eq!(servers[0].got.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn a_stop_that_a_layer_reports_hides_no_delay() {
    let server = Arc::<Server>::default();
    server.fails.store(true, Ordering::Relaxed);
    let stop =
        |outcome: Result<&usize, &&'static str>| outcome.is_err().then_some(ServerPushback::Stop);
    let replicas = [Arc::clone(&server), Arc::default(), Arc::default()];
    let replicas = replicas.into_iter().enumerate().map(|(at, server)| {
        let layer = crate::PushbackLayer::new(stop);
        (at.to_string(), layer.layer(Replica(at, server)))
    });
    let balanced = Backends::new(replicas, policy(), verdict as Classifier).pushback(later);
    let service = retrying().layer(balanced);
    for _ in 0..100 {
        let _ = send(&service).await;
    }
    assert_eq!(server.got.load(Ordering::Relaxed), 1);
}

/// As a layer that follows redirects sends it.
#[tokio::test(start_paused = true)]
async fn what_one_step_asks_for_is_not_held_against_the_next() {
    let (balanced, servers) = three();
    let set_failing = |fails: bool| {
        let all = servers.iter();
        all.for_each(|server| server.fails.store(fails, Ordering::Relaxed));
    };
    let balanced = balanced.pushback(later);
    let steps = crate::PushbackLayer::new(later).layer(balanced.clone());
    let two_steps = tower::service_fn(|call: Call<()>| {
        let mut steps = steps.clone();
        async move {
            set_failing(true);
            let first = steps.ready().await?.call(call.clone()).await;
            assert!(first.is_err());
            set_failing(false);
            steps.ready().await?.call(call).await
        }
    });
    let service = retrying().layer(two_steps);
    assert!(service.oneshot(Call::new(())).await.is_ok());
    take_counts(&servers);
    all_work(100, &balanced).await;
    let used = take_counts(&servers).map(|got| got > 0);
    assert_eq!(used.iter().filter(|used| **used).count(), 2, "{used:?}");
}

/// Its clone panics.
struct Fragile;

impl Clone for Fragile {
    fn clone(&self) -> Self {
        panic!("it cannot be cloned");
    }
}

impl Service<Call<()>> for Fragile {
    type Response = usize;
    type Error = &'static str;
    type Future = std::future::Ready<Outcome>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), &'static str>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Call<()>) -> Self::Future {
        std::future::ready(Ok(0))
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_a_clone_leaves_nothing_in_flight() {
    let balanced = Backends::new([("0", Fragile)], policy(), verdict as Classifier);
    let mut own = balanced.clone();
    own.ready().await.unwrap();
    let call = std::panic::AssertUnwindSafe(|| drop(own.call(Call::new(()))));
    assert!(std::panic::catch_unwind(call).is_err());
    assert_eq!(balanced.status()[0].1.in_flight, 0);
}

/// Law: no panic.
#[tokio::test(start_paused = true)]
async fn called_without_asking_for_readiness_it_waits_for_a_backend() {
    let none: [(&str, Replica); 0] = [];
    let balanced = Backends::new(none, policy(), verdict as Classifier);
    let mut own = balanced.clone();
    let waiting = own.call(Call::new(()));
    let (outcome, ()) = tokio::join!(waiting, async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        balanced.insert("7", Replica(7, Arc::default()));
    });
    assert_eq!(outcome, Ok(7));
    assert_eq!(own.call(Call::new(())).await, Ok(7));
}

#[derive(Debug, Default)]
struct Events(std::sync::Mutex<Vec<String>>);

impl Observer for Events {
    fn health_changed(&self, event: &crate::health::HealthEvent) {
        let name = event.name.as_deref().unwrap_or_default();
        let seen = format!("{name} {}", event.change.name());
        self.0.lock().unwrap().push(seen);
    }
}

#[tokio::test(start_paused = true)]
async fn an_observer_gets_ejections_and_returns_by_name() {
    let (balanced, servers) = three();
    let events = Arc::new(Events::default());
    let balanced = balanced.observer(Arc::clone(&events) as Arc<dyn Observer>);
    servers[1].fails.store(true, Ordering::Relaxed);
    let service = retrying().layer(balanced.clone());
    all_work(100, &service).await;
    balanced.insert("3", Replica(3, Arc::clone(&servers[1])));
    servers[1].fails.store(false, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert!(send(&service).await.0.is_ok());
    assert_eq!(*events.0.lock().unwrap(), ["1 ejected", "1 returned"]);
}

/// Asks for the backends' status at each event, as a gauge does.
#[derive(Default)]
struct Asks {
    balanced: std::sync::OnceLock<Three>,
    seen: AtomicUsize,
}

impl std::fmt::Debug for Asks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Asks")
    }
}

impl Observer for Asks {
    fn health_changed(&self, _: &crate::health::HealthEvent) {
        let all = self.balanced.get().map(Backends::status);
        self.seen
            .fetch_add(all.map_or(0, |all| all.len()), Ordering::Relaxed);
    }
}

#[tokio::test(start_paused = true)]
async fn an_observer_may_ask_for_the_list_while_it_changes() {
    let (balanced, servers) = three();
    let asks = Arc::new(Asks::default());
    let balanced = balanced.observer(Arc::clone(&asks) as Arc<dyn Observer>);
    assert!(asks.balanced.set(balanced.clone()).is_ok());
    for name in ["3", "4", "5"] {
        balanced.insert(name, Replica(0, Arc::clone(&servers[0])));
    }
    servers[1].fails.store(true, Ordering::Relaxed);
    servers[2].fails.store(true, Ordering::Relaxed);
    let service = retrying().layer(balanced.clone());
    all_work(100, &service).await;
    assert_eq!(ejected(&balanced), ["1", "2"]);
    assert_eq!(asks.seen.load(Ordering::Relaxed), 2 * 6);
    // Of three backends one may be ejected.
    let (done, changed) = std::sync::mpsc::channel();
    let runtime = tokio::runtime::Handle::current();
    std::thread::spawn(move || {
        let _guard = runtime.enter();
        for name in ["3", "4", "5"] {
            balanced.remove(name);
        }
        done.send(ejected(&balanced).len()).unwrap();
    });
    let left = changed.recv_timeout(Duration::from_secs(20));
    assert_eq!(left.expect("it hangs"), 1);
    assert!(
        asks.seen.load(Ordering::Relaxed) > 2 * 6,
        "of the return too"
    );
}

/// The limit is more than an answer takes, and less than four times that.
#[tokio::test(start_paused = true)]
async fn attempts_past_their_limit_eject_a_silent_backend() {
    let (balanced, servers) = three();
    let limit = crate::AttemptDeadlineLayer::new(Duration::from_millis(5)).on_elapsed(AsLate);
    let service = retrying().layer(limit.layer(balanced.clone()));
    let sends = async || {
        assert!(send(&service).await.0.is_ok());
        tokio::time::sleep(Duration::from_millis(50)).await;
        !ejected(&balanced).is_empty()
    };
    for _ in 0..60 {
        assert!(!sends().await);
    }
    servers[1].hangs.store(true, Ordering::Relaxed);
    for _ in 0..600 {
        if sends().await {
            break;
        }
    }
    assert_eq!(ejected(&balanced), ["1"]);
}
