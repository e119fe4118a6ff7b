//! A chain of hops: each serves by calling the next.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use http::{Request, Response};
use reattempt::backoff::{Backoff, Jitter};
use reattempt::strategy::MaxAttempts;
use reattempt::{DeadlineLayer, RetryLayer, RouteLayer, RoutePolicy, ThrottleLayer, TokenBucket};
use reattempt_http::hop::{AttemptHeadersLayer, GaveUpLayer, Hop, ServerHopLayer};
use reattempt_http::{AnyTransportError, HttpClassifier};
use tower::util::BoxCloneSyncService;
use tower::{ServiceBuilder, ServiceExt};

/// The next hop, as seen by the one before it.
pub(crate) type Next = BoxCloneSyncService<Request<()>, Response<()>, AnyTransportError>;

/// The configuration of a hop, besides its three attempts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Habits {
    /// Signals retry suppression to its neighbours.
    pub(crate) tell: bool,
    /// Has its own throttle: ten tokens, a tenth of a token gained per success.
    pub(crate) throttled: bool,
    /// The timeout of each attempt.
    pub(crate) attempt: Option<Duration>,
}

/// No response.
pub(crate) const NEVER: u16 = 999;

/// Counts how often a hop was called.
#[derive(Clone, Debug, Default)]
pub(crate) struct Calls(Arc<AtomicU32>);

impl Calls {
    pub(crate) fn count(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    /// Returns the number of this call, from 1.
    fn add(&self) -> u32 {
        self.0.fetch_add(1, Ordering::Relaxed) + 1
    }
}

fn answer(status: u16) -> Response<()> {
    Response::builder().status(status).body(()).unwrap()
}

/// The client that calls the next hop: three attempts, up to 5 ms and 10 ms apart.
pub(crate) fn client(next: Next, habits: Habits) -> Next {
    let ms = Duration::from_millis;
    let backoff = Backoff::exponential(ms(5), ms(20)).jitter(Jitter::Full);
    let mut policy = RoutePolicy::new("next");
    if let Some(limit) = habits.attempt {
        policy = policy.with_attempt_timeout(limit);
    }
    let bucket = Arc::new(TokenBucket::new(10, 100).unwrap());
    ServiceBuilder::new()
        .layer(BoxCloneSyncService::layer())
        .option_layer(habits.tell.then_some(GaveUpLayer))
        .layer(RouteLayer::new(Arc::new(policy)))
        .layer(DeadlineLayer::no_timeout())
        .option_layer(habits.throttled.then(|| ThrottleLayer::new(bucket)))
        .layer(RetryLayer::new(
            HttpClassifier::new(),
            MaxAttempts::new(3, backoff),
        ))
        .layer(DeadlineLayer::no_timeout())
        .option_layer(habits.tell.then_some(AttemptHeadersLayer::new()))
        .service(next)
}

/// A service that calls the next one and returns its status.
pub(crate) fn hop(next: Next, habits: Habits, calls: Calls) -> Next {
    let client = client(next, habits);
    let serve = tower::service_fn(move |request: Request<()>| {
        calls.add();
        let client = client.clone();
        async move {
            let mut call = Request::get("/").body(()).unwrap();
            if let Some(hop) = Hop::of(&request) {
                hop.pass_on(&mut call);
            }
            let outcome = client.oneshot(call).await;
            let status = outcome.map_or(502, |answer| answer.status().as_u16());
            Ok::<_, AnyTransportError>(answer(status))
        }
    });
    ServiceBuilder::new()
        .layer(BoxCloneSyncService::layer())
        .option_layer(habits.tell.then_some(ServerHopLayer::new()))
        .service(serve)
}

/// The last service, which responds to each call by its number.
pub(crate) fn bottom(
    answers: impl Fn(u32) -> u16 + Clone + Send + Sync + 'static,
    calls: Calls,
) -> Next {
    BoxCloneSyncService::new(tower::service_fn(move |_: Request<()>| {
        let status = answers(calls.add());
        async move {
            if status == NEVER {
                std::future::pending::<()>().await;
            }
            Ok::<_, AnyTransportError>(answer(status))
        }
    }))
}
