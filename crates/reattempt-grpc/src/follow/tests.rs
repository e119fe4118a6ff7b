use std::convert::Infallible;
use std::fmt::{Debug, Write as _};
use std::sync::{Arc, Mutex, OnceLock};

use bytes::Bytes;
use http::Request;
use tower::{Service, ServiceBuilder};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Dispatch, Event, Metadata, Subscriber};

use super::*;
use crate::spans::CallSpanLayer;

#[derive(Default)]
struct State {
    spans: Vec<&'static str>,
    inside: Vec<usize>,
    events: Vec<(Option<&'static str>, String)>,
}

/// Keeps the events of this thread: the name of the span around each, its level and fields.
#[derive(Clone, Default)]
pub(crate) struct Said(Arc<Mutex<State>>);

/// With a single subscriber, tracing may cache the interest of another thread that has none.
static OTHERS: OnceLock<[Dispatch; 2]> = OnceLock::new();

impl Said {
    pub(crate) fn follow() -> (Self, DefaultGuard) {
        OTHERS.get_or_init(|| std::array::from_fn(|_| Dispatch::new(Self::default())));
        let said = Self::default();
        (said.clone(), tracing::subscriber::set_default(said))
    }

    pub(crate) fn events(&self) -> Vec<(Option<&'static str>, String)> {
        self.0.lock().unwrap().events.clone()
    }
}

struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.0, " {}={value:?}", field.name());
    }
}

impl Subscriber for Said {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("reattempt")
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let spans = &mut self.0.lock().unwrap().spans;
        spans.push(attributes.metadata().name());
        Id::from_u64(spans.len() as u64)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields(event.metadata().level().to_string());
        event.record(&mut fields);
        let mut state = self.0.lock().unwrap();
        let inside = state.inside.last().map(|at| state.spans[*at]);
        state.events.push((inside, fields.0));
    }

    fn enter(&self, id: &Id) {
        self.0
            .lock()
            .unwrap()
            .inside
            .push(id.into_u64() as usize - 1);
    }

    fn exit(&self, _: &Id) {
        self.0.lock().unwrap().inside.pop();
    }
}

/// A body without an end, that logs its drop.
struct Telling;

impl Drop for Telling {
    fn drop(&mut self) {
        tracing::info!(target: "reattempt", "dropped");
    }
}

impl Body for Telling {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Pending
    }
}

/// A72: as all that happens below the layer.
#[tokio::test]
async fn what_is_logged_at_the_drop_is_inside_of_the_span() {
    let (said, _guard) = Said::follow();
    let mut service = ServiceBuilder::new()
        .layer(CallSpanLayer::new())
        .service_fn(|_: Request<()>| {
            let telling = Telling;
            async { Ok::<_, Infallible>(Response::new(telling)) }
        });
    drop(service.call(Request::new(())));
    let dropped = (Some("Sent"), "INFO message=dropped".to_owned());
    assert_eq!(said.events(), std::slice::from_ref(&dropped));
    let response = service.call(Request::new(())).await.unwrap();
    drop(response);
    assert_eq!(said.events(), [dropped.clone(), dropped]);
}
