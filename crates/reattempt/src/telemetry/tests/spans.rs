//! Spans of attempts.

use std::fmt::{Debug, Write as _};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use super::*;
use crate::observe::log::tests::hears;

mod drops;

/// The fields of each span, in order, with the levels of the events inside of it, and whether it
/// was closed; and which spans are entered.
#[derive(Clone, Default)]
struct Spans(Arc<Mutex<Vec<(String, bool)>>>, Arc<Mutex<Vec<u64>>>);

struct Fields<'a>(&'a mut String);

impl Visit for Fields<'_> {
    fn record_u64(&mut self, field: &Field, value: u64) {
        panic!("OpenTelemetry has no unsigned numbers: {field} = {value}");
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.0, "{}={value:?} ", field.name());
    }
}

impl Subscriber for Spans {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_span() || metadata.target() == "reattempt::call"
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut fields = String::new();
        span.record(&mut Fields(&mut fields));
        let mut spans = self.0.lock().unwrap();
        spans.push((fields, false));
        Id::from_u64(spans.len() as u64)
    }

    fn record(&self, id: &Id, values: &Record<'_>) {
        let at = id.into_u64() as usize - 1;
        values.record(&mut Fields(&mut self.0.lock().unwrap()[at].0));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        if let Some(inside) = self.1.lock().unwrap().last() {
            let fields = &mut self.0.lock().unwrap()[*inside as usize - 1].0;
            let _ = write!(fields, "{} ", event.metadata().level());
        }
    }

    fn enter(&self, id: &Id) {
        self.1.lock().unwrap().push(id.into_u64());
    }

    fn exit(&self, id: &Id) {
        assert_eq!(self.1.lock().unwrap().pop(), Some(id.into_u64()));
    }

    fn try_close(&self, id: Id) -> bool {
        self.0.lock().unwrap()[id.into_u64() as usize - 1].1 = true;
        true
    }
}

#[derive(Clone)]
struct Puts;

impl<T> Convention<Call<T>, Answer> for Puts {
    fn system(&self) -> System {
        System::Http
    }

    fn operation<'a>(&self, _: &'a Call<T>) -> Operation<'a> {
        Operation::new("PUT").at(Some("shop"), None)
    }

    fn status(&self, _: &Answer) -> Option<i32> {
        Some(200)
    }
}

#[tokio::test(start_paused = true)]
async fn each_attempt_has_a_span_with_its_resend_count() {
    let (spans, _guard) = hears::<Spans>();
    let (_, metrics) = metrics();
    let busy = attempt(1).fails(KV_LOCKED).code(503);
    let probe = probe([busy, attempt(2).fails(KV_LOCKED), attempt(3)]);
    let service = ServiceBuilder::new()
        .layer(retry(&metrics))
        .layer(metrics.attempts(Puts, verdict as Verdicts))
        .service(probe.inner());
    assert!(service.oneshot(probe.request()).await.is_ok());
    let always = "otel.name=\"PUT\" otel.kind=\"client\" server.address=\"shop\" \
                  http.request.method=\"PUT\" ";
    let failed = |error: &str| format!("error.type={error} otel.status_code=\"ERROR\" ");
    let expected = [
        format!("{always}http.response.status_code=503 {}", failed("503")),
        format!(
            "{always}http.request.resend_count=1 {}",
            failed("KV_LOCKED")
        ),
        format!("{always}http.request.resend_count=2 http.response.status_code=200 "),
    ];
    let found = spans.0.lock().unwrap().clone();
    assert_eq!(found, expected.map(|fields| (fields, true)));
}

/// The span of one call, and whether that works.
async fn call_span(
    script: impl IntoIterator<Item = Step>,
    recovery: bool,
    limit: u64,
) -> (String, bool) {
    let (_, metrics) = metrics();
    let recovery = recovery.then(|| retry(&metrics));
    call_span_of(script, recovery, None, limit).await
}

/// The same with these recovery layers.
async fn call_span_of(
    script: impl IntoIterator<Item = Step>,
    retry: Option<RetryLayer<Verdicts>>,
    hedge: Option<HedgeLayer<Verdicts>>,
    limit: u64,
) -> (String, bool) {
    let (spans, _guard) = hears::<Spans>();
    let probe = probe(script);
    let service = ServiceBuilder::new()
        .layer(CallSpanLayer::new(Puts))
        .layer(DeadlineLayer::new(ms(limit)))
        .option_layer(retry)
        .option_layer(hedge)
        .service(probe.inner());
    let call = service.oneshot(probe.request());
    let outcome = tokio::time::timeout(ms(100), call).await;
    let spans = spans.0.lock().unwrap().clone();
    let [(fields, true)] = &spans[..] else {
        panic!("one span, which is closed: {spans:?}");
    };
    let always = "otel.name=\"PUT\" otel.kind=\"internal\" server.address=\"shop\" \
                  http.request.method=\"PUT\" ";
    let rest = fields.strip_prefix(always).expect(fields);
    (rest.to_owned(), matches!(outcome, Ok(Ok(_))))
}

#[tokio::test(start_paused = true)]
async fn a_calls_span_has_its_log_and_says_why_it_ended() {
    let failed = |error: &str| format!("error.type={error} otel.status_code=\"ERROR\" ");
    let ended = |level: &str, attempts, stopped: &str| {
        format!("{level} reattempt.attempts={attempts} reattempt.stopped=\"{stopped}\" ")
    };
    let busy = |n| attempt(n).fails(KV_LOCKED).code(503);
    for (script, limit, fields) in [
        (
            vec![busy(1), attempt(2)],
            1000,
            ended("INFO", 2, "success") + "http.response.status_code=200 ",
        ),
        (
            vec![busy(1), busy(2), busy(3)],
            1000,
            ended("WARN", 3, "attempts") + "http.response.status_code=503 " + &failed("503"),
        ),
        (
            vec![attempt(1).hangs()],
            5,
            ended("WARN", 1, "deadline") + &failed("timeout"),
        ),
        (
            // The delay does not fit, and the answer is returned.
            vec![busy(1)],
            5,
            ended("WARN", 1, "deadline") + "http.response.status_code=503 " + &failed("503"),
        ),
        (
            vec![attempt(1).hangs()],
            1000,
            ended("DEBUG", 1, "cancelled") + &failed("cancelled"),
        ),
    ] {
        let works = fields.contains("success");
        assert_eq!(call_span(script, true, limit).await, (fields, works));
    }
}

/// The loser is recorded after the failure.
#[tokio::test(start_paused = true)]
async fn the_span_of_a_hedged_call_has_the_error_that_ended_it() {
    let gone = attempt(2).fails_fatally(KV_LOCKED).code(404);
    let policy = HedgePolicy::new(2, ms(10)).hedge_non_idempotent();
    let hedge = HedgeLayer::new(verdict as Verdicts, policy);
    let script = [attempt(1).hangs(), gone];
    let (fields, _) = call_span_of(script, None, Some(hedge), 1000).await;
    assert!(fields.contains("error.type=404"), "{fields}");
}

#[tokio::test(start_paused = true)]
async fn a_success_that_a_layer_above_rejects_has_its_error() {
    let (spans, _guard) = hears::<Spans>();
    let probe = probe([attempt(1)]);
    let service = ServiceBuilder::new()
        .layer(CallSpanLayer::new(Puts))
        .map_result(|outcome: Result<Answer, Fault>| outcome.and_then(|it| Err(Fault::Server(it))))
        .layer(retry(&metrics().1))
        .service(probe.inner());
    assert!(service.oneshot(probe.request()).await.is_err());
    let [(fields, true)] = &spans.0.lock().unwrap()[..] else {
        panic!("one span, which is closed");
    };
    assert!(fields.contains("error.type=_OTHER"), "{fields}");
    assert!(fields.contains("reattempt.stopped=\"success\""), "{fields}");
}

#[tokio::test(start_paused = true)]
async fn the_span_of_a_call_without_recovery_has_its_error() {
    let other = "error.type=_OTHER otel.status_code=\"ERROR\" ".to_owned();
    let script = [attempt(1).fails(KV_LOCKED)];
    assert_eq!(call_span(script, false, 1000).await, (other, false));
    let works = "http.response.status_code=200 ".to_owned();
    assert_eq!(call_span([attempt(1)], false, 1000).await, (works, true));
    let late = "reattempt.attempts=0 reattempt.stopped=\"deadline\" error.type=timeout \
                otel.status_code=\"ERROR\" ";
    let script = [attempt(1).hangs()];
    assert_eq!(call_span(script, false, 5).await, (late.to_owned(), false));
}

/// A query service answers a failed statement with HTTP 200.
#[tokio::test(start_paused = true)]
async fn a_databases_own_code_beats_the_status_of_its_response() {
    #[derive(Clone)]
    struct Queries;

    impl<T> Convention<Call<T>, Answer> for Queries {
        fn system(&self) -> System {
            System::Db("shop")
        }

        fn operation<'a>(&self, _: &'a Call<T>) -> Operation<'a> {
            Operation::new("query")
        }

        fn status(&self, _: &Answer) -> Option<i32> {
            Some(200)
        }
    }

    let (spans, _guard) = hears::<Spans>();
    let (kept, metrics) = metrics();
    let syntax = attempt(1).fails_fatally(KV_LOCKED).code(3000).as_answer();
    let probe = probe([syntax]);
    let service = ServiceBuilder::new()
        .layer(CallSpanLayer::new(Queries))
        .layer(retry(&metrics))
        .layer(metrics.attempts(Queries, verdict as Verdicts))
        .service(probe.inner());
    assert!(service.oneshot(probe.request()).await.is_ok());
    let spans = spans.0.lock().unwrap();
    assert_eq!(spans.len(), 2);
    for (fields, _) in &*spans {
        let code = "db.response.status_code=3000 error.type=3000";
        assert!(fields.contains(code), "{spans:?}");
    }
    let at = "db.client.operation.duration db.system.name=shop,db.operation.name=query";
    let code = ",db.response.status_code=3000,error.type=3000".to_owned();
    assert_eq!(kept.of(at), [(code, 1)]);
}

#[test]
fn a_method_that_is_not_known_names_no_span() {
    let (spans, _guard) = hears::<Spans>();
    let operation = Operation::new("_OTHER");
    for scope in [
        convention::Scope::Call,
        convention::Scope::Attempt { before: 0 },
    ] {
        drop(convention::span(scope, System::Http, &operation));
    }
    let spans = spans.0.lock().unwrap();
    assert_eq!(spans.len(), 2);
    for (fields, _) in &*spans {
        assert!(fields.starts_with("otel.name=\"HTTP\" "), "{fields}");
        assert!(
            fields.contains("http.request.method=\"_OTHER\""),
            "{fields}"
        );
    }
}
