//! The one event of a call.

use crate::backoff::Backoff;
use crate::failure::reason::{KV_LOCKED, UNKNOWN};
use crate::strategy::MaxAttempts;
use crate::test_util::{Payload, Probe};
use crate::{Call, Failure, Observer, OnDeadline, RoutePolicy, Stage, StopReason, Verdict};
use tower::Service;

use super::*;

type Events = Vec<(Level, String, String)>;

/// Calls the probe through this layer and a deadline, on the route `carts`. Returns the events of
/// the call, and those of its attempts.
async fn events<L>(layer: L, probe: &Probe, limit: u64) -> (Events, Events)
where
    L: Layer<Probe>,
    L::Service: Service<Call<Payload>, Response = Answer, Error = Fault> + Clone,
{
    let (heard, _guard) = subscribed::<All>();
    let service = ServiceBuilder::new()
        .layer(DeadlineLayer::new(ms(limit)))
        .layer(layer)
        .service(probe.inner());
    let mut request = probe.request();
    let policy = Arc::new(RoutePolicy::new("carts"));
    request.context_mut().set_policy(policy);
    let _ = service.oneshot(request).await;
    let heard = heard.0.lock().unwrap().clone();
    heard
        .into_iter()
        .partition(|(_, target, _)| target == "reattempt::call")
}

type Verdicts = fn(Result<&Answer, &Fault>, &crate::CallContext) -> crate::Verdict;

fn retry() -> RetryLayer<Verdicts> {
    RetryLayer::new(classify, MaxAttempts::new(3, Backoff::constant(ms(10))))
}

/// The only event has this level and these parts, and no field without a value.
fn is_one(events: &Events, level: Level, parts: &[&str]) {
    let [(found, _, said)] = &**events else {
        panic!("one event, not {events:?}")
    };
    assert_eq!(*found, level, "{said}");
    for part in parts {
        assert!(said.contains(part), "{part:?} is not in {said}");
    }
    assert!(
        !said.contains("None") && !said.contains("Some(") && !said.contains("\"\""),
        "{said}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_service_broke_between_attempts_failed() {
    let broken = [crate::test_util::readiness(2).breaks()];
    let busy = Failure::new(UNKNOWN, Stage::Response).safe(true);
    let answer = attempt(1).comes_to(crate::Verdict::Retry(busy)).as_answer();
    let (calls, _) = events(retry(), &probe([answer]).ready(broken), 1000).await;
    is_one(&calls, Level::WARN, &["call failed", "stopped=\"fatal\""]);
}

#[test]
fn a_call_whose_response_took_too_long_failed() {
    let (heard, _guard) = subscribed::<All>();
    let mut context = crate::CallContext::default();
    let handle = context.begin();
    handle.response_elapsed();
    assert_eq!(handle.info().stopped(), Some(StopReason::Deadline));
    let heard = heard.0.lock().unwrap();
    let parts = ["after its response had begun", "stopped=\"deadline\""];
    is_one(&heard, Level::WARN, &parts);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_not_admitted_failed() {
    use crate::admission::{Admission, Criticality};
    use crate::backoff::Randomness;
    let (heard, _guard) = subscribed::<All>();
    let admission = Arc::new(Admission::default().randomness(Randomness::Fixed(0.0)));
    (0..4).for_each(|_| admission.ended(Criticality::CRITICAL, false));
    assert!(
        admission.admit(Criticality::CRITICAL).is_ok(),
        "one a second"
    );
    let probe = probe([]);
    let service = ServiceBuilder::new()
        .layer(crate::AdmissionLayer::new(admission))
        .layer(crate::ClientErrorLayer)
        .layer(retry())
        .service(probe.inner());
    let mut request = probe.request();
    let policy = Arc::new(RoutePolicy::new("carts"));
    request.context_mut().set_policy(policy);
    assert!(service.oneshot(request).await.is_err());
    let heard = heard.0.lock().unwrap().clone();
    let parts = ["attempts=0 ", "stopped=\"admission\" ", "route=\"carts\" "];
    is_one(&heard, Level::WARN, &parts);
}

#[tokio::test(start_paused = true)]
async fn a_failed_call_is_one_warning_with_its_history() {
    let busy = |n| attempt(n).fails(KV_LOCKED).goes_to("n1:11210").after(ms(5));
    let probe = probe((1..=3).map(busy));
    let (call, attempts) = events(retry().named("kv"), &probe, 1000).await;
    is_one(
        &call,
        Level::WARN,
        &[
            "attempts=3 ",
            "took=35ms ",
            "stopped=\"attempts\" ",
            "reasons=KV_LOCKED (3) ",
            "failure=KV_LOCKED ",
            "host=\"kv\" route=\"carts\" ",
            "backend=n1:11210 ",
            "message=call failed ",
        ],
    );
    assert_eq!(attempts.len(), 3);
    let id = call[0].2.split(' ').find(|part| part.starts_with("call="));
    for (.., said) in &attempts {
        assert!(said.split(' ').any(|part| Some(part) == id), "{said}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_passed_through_has_its_time_and_host() {
    let probe = probe([attempt(1).fails(KV_LOCKED).after(ms(30))]);
    let layer = HedgeLayer::by_policy(classify as Verdicts).named("kv");
    let (call, _) = events(layer, &probe, 1000).await;
    let parts = ["call=", "took=30ms ", "host=\"kv\" route=\"carts\" "];
    is_one(&call, Level::WARN, &parts);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_a_retry_saved_is_one_info_event() {
    let probe = probe([attempt(1).fails(KV_LOCKED), attempt(2).after(ms(7))]);
    let (call, _) = events(retry(), &probe, 1000).await;
    let parts = [
        "attempts=2 ",
        "took=17ms ",
        "stopped=\"success\" ",
        "reasons=KV_LOCKED (1) ",
    ];
    is_one(&call, Level::INFO, &parts);
}

#[tokio::test(start_paused = true)]
async fn a_deadline_in_flight_is_one_warning() {
    for layer in [true, false] {
        let probe = probe([attempt(1).reaches(Stage::Dispatch).hangs()]);
        let (call, attempts) = if layer {
            events(retry(), &probe, 40).await
        } else {
            let hedge = HedgeLayer::new(classify, HedgePolicy::new(2, ms(500)));
            events(hedge, &probe, 40).await
        };
        let parts = [
            "attempts=1 ",
            "took=40ms ",
            "stopped=\"deadline\" ",
            "cut_off_in=\"dispatch\" ",
        ];
        is_one(&call, Level::WARN, &parts);
        assert_eq!(attempts, []);
    }
}

#[tokio::test(start_paused = true)]
async fn the_time_of_a_call_is_what_its_caller_waited() {
    for on_deadline in [OnDeadline::Cap, OnDeadline::GiveUp] {
        let busy = probe((1..=9).map(|n| attempt(n).fails(KV_NOT_MY_VBUCKET)));
        let strategy = MaxAttempts::new(9, Backoff::constant(ms(15))).on_deadline(on_deadline);
        let layer = RetryLayer::new(classify, strategy);
        let begun = tokio::time::Instant::now();
        let (call, _) = events(layer, &busy, 20).await;
        let waited = begun.elapsed().as_millis();
        assert_eq!(waited == 20, on_deadline == OnDeadline::Cap);
        let took = format!("took={waited}ms ");
        is_one(&call, Level::WARN, &[&took, "stopped=\"deadline\" "]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_ends_a_call_alone_is_one_warning() {
    let (heard, _guard) = subscribed::<All>();
    let service = ServiceBuilder::new()
        .layer(DeadlineLayer::new(ms(40)))
        .service_fn(|_: Call<()>| std::future::pending::<Result<(), Fault>>());
    assert!(service.oneshot(Call::new(())).await.is_err());
    let lines = std::mem::take(&mut *heard.0.lock().unwrap());
    let said = ["took=40ms ", "stopped=\"deadline\" "];
    is_one(&lines, Level::WARN, &said);

    // The retry layer was done with it.
    let worked = probe([attempt(1)]);
    let service = ServiceBuilder::new()
        .layer(DeadlineLayer::new(ms(40)))
        .and_then(|_| std::future::pending::<Result<Answer, Fault>>())
        .layer(retry())
        .service(worked.inner());
    assert!(service.oneshot(worked.request()).await.is_err());
    let lines = heard.0.lock().unwrap().clone();
    is_one(&lines, Level::WARN, &said);
}

/// C10
#[tokio::test(start_paused = true)]
async fn a_servers_final_answer_is_logged_at_debug_only() {
    let answer = probe([attempt(1).fails_fatally(UNKNOWN).code(404)]);
    let (call, attempts) = events(retry(), &answer, 1000).await;
    is_one(
        &call,
        Level::DEBUG,
        &["attempts=1 ", "stopped=\"fatal\" ", "code=404 "],
    );
    is_one(
        &attempts,
        Level::DEBUG,
        &["stopped=\"fatal\" ", "code=404 "],
    );

    let failed = probe([attempt(1).fails_fatally(KV_TEMPORARY_FAILURE)]);
    let (call, attempts) = events(retry(), &failed, 1000).await;
    is_one(&call, Level::WARN, &["stopped=\"fatal\" "]);
    is_one(&attempts, Level::INFO, &["stopped=\"fatal\" "]);

    let saved = probe([
        attempt(1).fails(KV_LOCKED),
        attempt(2).fails_fatally(UNKNOWN),
    ]);
    let (call, _) = events(retry(), &saved, 1000).await;
    is_one(&call, Level::INFO, &["attempts=2 ", "stopped=\"fatal\" "]);
}

/// The loser is recorded behind the answer.
#[tokio::test(start_paused = true)]
async fn a_final_answer_to_a_hedge_is_logged_at_debug_only() {
    let probe = probe([
        attempt(1).hangs(),
        attempt(2).fails_fatally(UNKNOWN).code(404),
    ]);
    let policy = HedgePolicy::new(2, ms(10)).hedge_non_idempotent();
    let hedge = HedgeLayer::new(classify as Verdicts, policy);
    let (of_call, _) = events(hedge, &probe, 100).await;
    is_one(&of_call, Level::DEBUG, &["code=404 ", "failure=UNKNOWN "]);
}

#[tokio::test(start_paused = true)]
async fn a_call_says_what_its_hedge_did() {
    let policy = HedgePolicy::new(2, ms(10)).hedge_non_idempotent();
    let hedge = || HedgeLayer::new(classify as Verdicts, policy.clone());
    let beside = [attempt(1).after(ms(30)), attempt(2).fails(KV_LOCKED)];
    let (of_call, _) = events(hedge(), &probe(beside), 100).await;
    let said = "the first attempt answered, and a hedge failed";
    is_one(&of_call, Level::DEBUG, &[said]);
    let saves = [attempt(1).fails(KV_LOCKED), attempt(2)];
    let (of_call, _) = events(hedge(), &probe(saves), 100).await;
    is_one(&of_call, Level::INFO, &["call was saved by a hedge"]);
    let unsent = Verdict::Fatal(Failure::new(UNKNOWN, Stage::Dispatch));
    let unsent = attempt(1).comes_to(unsent);
    let saves = [unsent.after(ms(30)), attempt(2).after(ms(50))];
    let (of_call, _) = events(hedge(), &probe(saves), 100).await;
    is_one(&of_call, Level::INFO, &["call was saved by a hedge"]);
    let declines = [
        attempt(1).fails(KV_LOCKED),
        attempt(2).fails_fatally(UNKNOWN),
    ];
    let (of_call, _) = events(hedge(), &probe(declines), 100).await;
    is_one(
        &of_call,
        Level::INFO,
        &["saved by a hedge: the server answered"],
    );
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_breaks_is_one_warning_more() {
    let probe = probe([attempt(1).commits()]);
    let (heard, _guard) = subscribed::<All>();
    let service = retry().layer(probe.inner());
    assert!(service.oneshot(probe.request()).await.is_ok());
    assert_eq!(*heard.0.lock().unwrap(), [], "its head was a success");
    let reporter = probe.log().calls()[0].context.reporter();
    let lost = Failure::new(KV_LOCKED, Stage::InFlight);
    reporter.finish(&Verdict::Retry(lost));
    let heard = heard.0.lock().unwrap().clone();
    let parts = [
        "attempts=1 ",
        "stopped=\"committed\" ",
        "failure=KV_LOCKED ",
    ];
    is_one(&heard, Level::WARN, &parts);
}

#[derive(Debug, Default)]
struct Ends(Mutex<u32>);

impl Observer for Ends {
    fn sees_end(&self, stopped: StopReason) -> bool {
        stopped == StopReason::Success
    }

    fn call_ended(&self, _: &crate::CallContext, info: &crate::RetryInfo) {
        assert_eq!(info.stopped(), Some(StopReason::Success));
        *self.0.lock().unwrap() += 1;
    }
}

#[tokio::test(start_paused = true)]
async fn observers_are_added_to_the_log_and_to_each_other() {
    let ends = [Arc::new(Ends::default()), Arc::new(Ends::default())];
    let layer = retry().observer(ends[0].clone()).observer(ends[1].clone());
    let probe = probe([attempt(1).fails(KV_LOCKED), attempt(2)]);
    let (call, attempts) = events(layer, &probe, 1000).await;
    is_one(&call, Level::INFO, &["attempts=2 "]);
    is_one(&attempts, Level::DEBUG, &["reason=KV_LOCKED "]);
    assert_eq!(ends.map(|ends| *ends.0.lock().unwrap()), [1, 1]);
}

/// The log wants the end of every call, which a number of ends must not depend on.
#[tokio::test(start_paused = true)]
async fn an_observer_gets_only_ends_that_it_wants() {
    let ends = [Arc::new(Ends::default()), Arc::new(Ends::default())];
    let layer = retry().observer(ends[0].clone()).observer(ends[1].clone());
    let probe = probe([attempt(1).fails_fatally(KV_TEMPORARY_FAILURE)]);
    let (call, _) = events(layer, &probe, 1000).await;
    is_one(&call, Level::WARN, &["stopped=\"fatal\" "]);
    assert_eq!(ends.map(|ends| *ends.0.lock().unwrap()), [0, 0]);
}

#[cfg(feature = "http")]
#[tokio::test(start_paused = true)]
async fn a_call_over_http_has_its_host_and_method() {
    let (heard, _guard) = subscribed::<All>();
    let lost = |_: Result<&(), &&str>, _: &crate::CallContext| {
        crate::Verdict::Retry(Failure::new(KV_LOCKED, Stage::InFlight))
    };
    for attempts in [1, 2] {
        let strategy = MaxAttempts::new(attempts, Backoff::constant(ms(1)));
        let service = ServiceBuilder::new()
            .layer(RetryLayer::new(crate::classify_fn(lost), strategy))
            .service_fn(|_: http::Request<bytes::Bytes>| async { Err::<(), _>("lost") });
        let request = http::Request::get("http://shop:8080/carts/7?secret");
        let request = request.body(bytes::Bytes::new()).unwrap();
        assert!(service.oneshot(request).await.is_err());
    }
    let heard = heard.0.lock().unwrap().clone();
    let failed: Vec<_> = heard
        .iter()
        .filter(|(level, ..)| *level == Level::WARN)
        .collect();
    assert_eq!(failed.len(), 2);
    for (.., said) in failed {
        assert!(
            said.contains("host=\"shop:8080\" method=\"GET\" "),
            "{said}"
        );
        assert!(!said.contains("secret"), "{said}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_has_the_method_that_was_set_in_each_copy() {
    let (heard, _guard) = subscribed::<All>();
    let probe = probe([
        attempt(1).fails(KV_LOCKED),
        attempt(2).fails_fatally(KV_LOCKED),
    ]);
    let mut request = probe.request();
    let get = crate::MethodName::new("GET").unwrap();
    request.context_mut().set_method(get);
    let request = request.clone();
    assert_eq!(request.context().unwrap().method(), Some(get));
    assert!(retry().layer(probe.inner()).oneshot(request).await.is_err());
    let heard = heard.0.lock().unwrap().clone();
    let (.., said) = heard.last().unwrap();
    assert!(
        said.contains("attempts=2 ") && said.contains("method=\"GET\" "),
        "{said}"
    );
}
