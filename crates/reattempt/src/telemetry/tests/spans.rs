//! Spans of attempts.

use std::fmt::{Debug, Write as _};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use super::*;

/// The fields of each span, in order, and whether it was closed.
#[derive(Clone, Default)]
struct Spans(Arc<Mutex<Vec<(String, bool)>>>);

struct Fields<'a>(&'a mut String);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.0, "{}={value:?} ", field.name());
    }
}

impl Subscriber for Spans {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_span()
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

    fn event(&self, _: &Event<'_>) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}

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
    // Prevents tracing from caching the "no subscriber" interest of another thread.
    drop(crate::test_util::listen());
    let spans = Spans::default();
    let _guard = tracing::subscriber::set_default(spans.clone());
    let (_, metrics) = metrics();
    let busy = attempt(1).fails(KV_LOCKED).code(503);
    let probe = probe([busy, attempt(2).fails(KV_LOCKED), attempt(3)]);
    let service = ServiceBuilder::new()
        .layer(retry(&metrics))
        .layer(metrics.attempts(Puts, verdict as Verdicts))
        .service(probe.inner());
    assert!(service.oneshot(probe.request()).await.is_ok());
    let always = "otel.name=\"PUT\" otel.kind=\"client\" http.request.method=\"PUT\" \
                  server.address=\"shop\" ";
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
