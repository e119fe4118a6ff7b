//! Spans of calls and attempts (R72), on paused time.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::OnceLock;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Dispatch, Event, Metadata, Subscriber};

use super::*;
use crate::spans::{AttemptSpanLayer, CallSpanLayer};

/// The observed state of one span.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Seen {
    fields: BTreeMap<String, String>,
    parent: Option<String>,
    /// When it was closed.
    closed_ms: Option<u128>,
    handles: u32,
    /// The events inside the span.
    said: Vec<String>,
}

#[derive(Debug)]
struct State {
    spans: Vec<Seen>,
    inside: Vec<usize>,
    began: Instant,
}

/// Records the spans of this thread.
#[derive(Clone, Debug)]
pub(super) struct Spans(Arc<Mutex<State>>);

/// As for the listener of warnings: with a single subscriber, tracing may cache the interest of
/// another thread that has none.
static OTHERS: OnceLock<[Dispatch; 2]> = OnceLock::new();

impl Spans {
    fn new() -> Self {
        Self(Arc::new(Mutex::new(State {
            spans: Vec::new(),
            inside: Vec::new(),
            began: Instant::now(),
        })))
    }

    pub(super) fn follow() -> (Self, DefaultGuard) {
        OTHERS.get_or_init(|| std::array::from_fn(|_| Dispatch::new(Self::new())));
        let spans = Self::new();
        (spans.clone(), tracing::subscriber::set_default(spans))
    }

    fn state<T>(&self, with: impl FnOnce(&mut State) -> T) -> T {
        with(&mut self.0.lock().unwrap())
    }

    fn span<T>(&self, id: &Id, with: impl FnOnce(&mut Seen) -> T) -> T {
        self.state(|state| with(&mut state.spans[place(id)]))
    }

    pub(super) fn seen(&self) -> Vec<Seen> {
        self.state(|state| state.spans.clone())
    }
}

fn place(id: &Id) -> usize {
    usize::try_from(id.into_u64()).unwrap() - 1
}

struct Fields<'a>(&'a mut BTreeMap<String, String>);

impl Visit for Fields<'_> {
    /// OpenTelemetry has no unsigned numbers; the log's events are none of its spans.
    fn record_u64(&mut self, field: &Field, value: u64) {
        assert_ne!(field.name(), "previous-rpc-attempts");
        self.record_debug(field, &value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let text = format!("{value:?}").replace('"', "");
        self.0.insert(field.name().to_owned(), text);
    }
}

impl Subscriber for Spans {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("reattempt")
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let mut fields = BTreeMap::new();
        attributes.record(&mut Fields(&mut fields));
        self.state(|state| {
            let parent = state.inside.last().map(|at| &state.spans[*at]);
            let parent = parent.map(|parent| parent.fields["otel.name"].clone());
            state.spans.push(Seen {
                fields,
                parent,
                handles: 1,
                ..Seen::default()
            });
            Id::from_u64(state.spans.len() as u64)
        })
    }

    fn record(&self, id: &Id, values: &Record<'_>) {
        self.span(id, |seen| values.record(&mut Fields(&mut seen.fields)));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = BTreeMap::new();
        event.record(&mut Fields(&mut fields));
        self.state(|state| {
            if let Some(at) = state.inside.last().copied() {
                state.spans[at].said.extend(fields.remove("message"));
            }
        });
    }

    fn enter(&self, id: &Id) {
        self.state(|state| state.inside.push(place(id)));
    }

    fn exit(&self, id: &Id) {
        self.state(|state| assert_eq!(state.inside.pop(), Some(place(id))));
    }

    fn clone_span(&self, id: &Id) -> Id {
        self.span(id, |seen| seen.handles += 1);
        id.clone()
    }

    fn try_close(&self, id: Id) -> bool {
        self.state(|state| {
            let now = state.began.elapsed().as_millis();
            let seen = &mut state.spans[place(&id)];
            seen.handles -= 1;
            if seen.handles == 0 {
                seen.closed_ms = Some(now);
            }
            seen.handles == 0
        })
    }
}

async fn spanned_call(config: &ServiceConfig, server: &Server) {
    let server = server.clone();
    let errors = ErrorCodes::new()
        .call(ByTransportError)
        .body(ByTransportError);
    let service = ServiceBuilder::new()
        .layer(CallSpanLayer::new().errors(errors))
        .layer(RouteLayer::new(config.clone()))
        .layer(DeadlineLayer::no_timeout().on_elapsed(AsGrpcStatus))
        .layer(DeadlineBodyLayer::new().on_elapsed(AsGrpcStatus))
        .layer(ReplayBodyLayer::new())
        .layer(standard())
        .layer(HedgeLayer::by_policy(GrpcClassifier::new()))
        .layer(AttemptSpanLayer::new().errors(errors))
        .layer(GrpcOutcomeLayer::new().body_error(ByTransportError))
        .service_fn(move |request: Request<ReplayBody<Full<Bytes>>>| {
            tracing::info!(target: "reattempt", "called");
            let server = server.clone();
            async move {
                let answer = server.attempt(request).await;
                tracing::info!(target: "reattempt", "answered");
                answer
            }
        });
    if let Ok(response) = service.oneshot(request()).await {
        let _ = response.into_body().collect().await;
    }
}

/// For each span: the last part of its name, the earlier attempts, whether it is transparent, its
/// status and its end.
fn story(spans: &Spans) -> Vec<(String, String, u128)> {
    let tell = |seen: Seen| {
        let field = |name: &str| seen.fields.get(name).cloned();
        let mut what = field("otel.name").unwrap();
        if let Some(previous) = field("previous-rpc-attempts") {
            what += &format!(" {previous} {}", field("transparent-retry").unwrap());
        }
        let status = field("otel.status_code").unwrap();
        let code = field("otel.status_description").unwrap_or_default();
        (what, status + &code, seen.closed_ms.expect("closed"))
    };
    spans.seen().into_iter().map(tell).collect()
}

fn span(what: &str, status: &str, closed_ms: u128) -> (String, String, u128) {
    (what.to_owned(), status.to_owned(), closed_ms)
}

/// R72: one span per call and one per attempt, each open until its status is known; what runs below
/// is inside.
#[tokio::test(start_paused = true)]
async fn each_attempt_has_a_span_inside_of_its_calls() {
    let (spans, _guard) = Spans::follow();
    let busy = || After(10, Box::new(Status(Code::Unavailable)));
    let server = Server::new([busy(), busy(), After(30, Box::new(Late(Code::Ok)))]);
    spanned_call(&retrying(5, "14"), &server).await;
    assert_eq!(
        story(&spans),
        [
            span("Sent.shop.Cart.Add", "OK", 200),
            span("Attempt.shop.Cart.Add 0 false", "ERRORUNAVAILABLE", 10),
            span("Attempt.shop.Cart.Add 1 false", "ERRORUNAVAILABLE", 70),
            span("Attempt.shop.Cart.Add 2 false", "OK", 200),
        ]
    );
    let seen = spans.seen();
    assert_eq!(seen[0].parent, None);
    for attempt in &seen[1..] {
        assert_eq!(attempt.parent.as_deref(), Some("Sent.shop.Cart.Add"));
        assert_eq!(attempt.said, ["called", "answered"]);
    }
    let failed = "attempt failed, another one may follow";
    assert_eq!(seen[0].said, [failed, failed, "call was saved by a retry"]);
}

/// R72: transparent retries are marked and not counted.
#[tokio::test(start_paused = true)]
async fn a_transparent_retry_is_marked_and_not_counted_before_others() {
    let (spans, _guard) = Spans::follow();
    let server = Server::new([
        Fault(TransportFault::StreamRefused),
        Status(Code::Unavailable),
        Status(Code::Internal),
    ]);
    spanned_call(&retrying(5, "14"), &server).await;
    assert_eq!(
        story(&spans),
        [
            span("Sent.shop.Cart.Add", "ERRORINTERNAL", 50),
            span("Attempt.shop.Cart.Add 0 false", "ERRORUNAVAILABLE", 0),
            span("Attempt.shop.Cart.Add 0 true", "ERRORUNAVAILABLE", 0),
            span("Attempt.shop.Cart.Add 1 false", "ERRORINTERNAL", 50),
        ]
    );
}

/// R72: the spans of losing hedges are closed when they are dropped, as CANCELLED.
#[tokio::test(start_paused = true)]
async fn hedges_have_spans_beside_each_other() {
    let (spans, _guard) = Spans::follow();
    let server = Server::new([Hangs, Hangs, After(50, Box::new(Late(Code::Internal)))]);
    spanned_call(&hedging(4, "0.2s", "14"), &server).await;
    assert_eq!(
        story(&spans),
        [
            span("Sent.shop.Cart.Add", "ERRORINTERNAL", 450),
            span("Attempt.shop.Cart.Add 0 false", "ERRORCANCELLED", 450),
            span("Attempt.shop.Cart.Add 1 false", "ERRORCANCELLED", 450),
            span("Attempt.shop.Cart.Add 2 false", "ERRORINTERNAL", 450),
        ]
    );
}

/// R72: the deadline and a caller that drops the call close open spans, also during the stream.
#[tokio::test(start_paused = true)]
async fn what_is_cut_off_closes_with_the_status_of_who_cut_it() {
    let late = "ERRORDEADLINE_EXCEEDED";
    let ends = |spans: &Spans| -> Vec<_> {
        let story = story(spans).into_iter();
        story.map(|(_, status, at)| (status, at)).collect()
    };
    for hangs in [Hangs, HangsInBody] {
        let (spans, guard) = Spans::follow();
        let server = Server::new([hangs.clone()]);
        spanned_call(&config(r#""timeout":"0.5s""#), &server).await;
        assert_eq!(ends(&spans), vec![(late.to_owned(), 500); 2]);
        drop(guard);

        let (spans, _guard) = Spans::follow();
        let server = Server::new([hangs]);
        let config = config(r#""waitForReady":true"#);
        let call = spanned_call(&config, &server);
        let left = tokio::time::timeout(Duration::from_millis(20), call).await;
        assert!(left.is_err());
        assert_eq!(ends(&spans), vec![("ERRORCANCELLED".to_owned(), 20); 2]);
    }
}
