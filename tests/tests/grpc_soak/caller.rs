//! One caller, which makes random calls, reads their responses, and drops some early.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use http_body_util::BodyExt;
use rand::Rng;
use rand::rngs::SmallRng;
use reattempt::{DeadlineScope, Elapsed, HasCallContext, RetryInfo, RetryThrottle};
use reattempt::{Routes, TokenBucket};
use reattempt_grpc::service_config::ServiceConfig;
use reattempt_http::body::BufferBudget;
use reattempt_tests::alive::Live;
use tokio::time::Instant;
use tower::ServiceExt;

use super::BYTES_PER_CALL;
use super::fate::Chances;
use super::stack::{METHODS, stack};
use super::transport::{Broken, OfAttempt, known};
use super::upload::{Upload, UploadPlan};
use super::witness::Witness;
use super::words::Method;
use super::world::{World, scoped};

type Answer = Result<Response<Pin<Box<dyn Body<Data = Bytes, Error = Broken> + Send>>>, Broken>;
type Calling = Pin<Box<dyn Future<Output = Answer> + Send>>;

pub(crate) struct Caller {
    world: Arc<World>,
    throttle: Arc<dyn RetryThrottle>,
    send: Box<dyn Fn(Request<Upload>) -> Calling + Send + Sync>,
}

/// The plan for one call.
#[derive(Clone, Copy, Debug)]
struct Plan {
    method: &'static Method,
    timeout_ms: Option<u64>,
    upload: UploadPlan,
    leaves_after: Option<Duration>,
    /// How many frames of the response are read.
    reads: Option<u32>,
    watches: bool,
}

impl Plan {
    fn draw(rng: &mut SmallRng) -> Self {
        let one_in = |rng: &mut SmallRng, n, most| {
            (rng.random_ratio(1, n)).then(|| rng.random_range(0..=most))
        };
        Self {
            method: &METHODS[rng.random_range(0..METHODS.len())],
            timeout_ms: one_in(rng, 2, 150),
            upload: UploadPlan::draw(rng),
            leaves_after: one_in(rng, 6, 120).map(Duration::from_millis),
            reads: one_in(rng, 10, 2).map(|frames| frames as u32),
            watches: rng.random(),
        }
    }

    /// The earlier of the caller's timeout and the method's (R80).
    fn deadline(&self) -> Option<u64> {
        match (self.timeout_ms, self.method.timeout_ms) {
            (Some(own), Some(configs)) => Some(own.min(configs)),
            (own, configs) => own.or(configs),
        }
    }
}

impl Caller {
    pub(crate) fn new(
        world: &Arc<World>,
        budget: &BufferBudget,
        config: &Routes<ServiceConfig>,
    ) -> Self {
        let service = stack(world, budget, config);
        let config = config.load();
        let bucket: &Arc<TokenBucket> = config.throttle().expect("a throttle");
        let bucket = Arc::clone(bucket);
        let send = move |request| -> Calling {
            let answer = service.clone().oneshot(request);
            Box::pin(async move {
                let answer = answer.await?;
                Ok(answer
                    .map(|body| Box::pin(body) as Pin<Box<dyn Body<Data = _, Error = _> + Send>>))
            })
        };
        Self {
            throttle: Arc::new(Witness {
                bucket,
                world: Arc::clone(world),
            }),
            world: Arc::clone(world),
            send: Box::new(send),
        }
    }

    /// One call from start to end.
    pub(crate) async fn call(&self, id: u32, rng: &mut SmallRng) {
        let plan = Plan::draw(rng);
        let limit = plan
            .deadline()
            .map(|ms| Instant::now() + Duration::from_millis(ms));
        let chances = Chances {
            somebody_ends_it: limit.is_some() || plan.leaves_after.is_some(),
            unreachable: rng.random_ratio(1, 40),
        };
        self.world.begins(id, rng.random(), chances);
        let fits =
            plan.upload.is_empty() || !plan.upload.sized || plan.upload.bytes() <= BYTES_PER_CALL;
        self.world.ledger().begins(id, plan.method, limit, fits);
        let mut request = Request::post(format!("http://soak{}", plan.method.path))
            .header("x-call", id)
            .body(plan.upload.begin(&self.world.alive.uploads))
            .expect("a request");
        if let Some(ms) = plan.timeout_ms {
            let timeout = format!("{ms}m").parse().expect("a value");
            request.headers_mut().insert("grpc-timeout", timeout);
        }
        if rng.random_ratio(1, 8) {
            let own = http::HeaderValue::from_static("7");
            request
                .headers_mut()
                .insert("grpc-previous-rpc-attempts", own);
        }
        let watch = plan.watches.then(|| RetryInfo::track(&mut request));
        let context = request.context_mut();
        context.set_throttle(Arc::clone(&self.throttle));
        context.set_data(Live::one_of(&self.world.alive.contexts));
        let work = scoped(&self.world, id, self.work(id, plan, request));
        let left = match plan.leaves_after {
            None => {
                work.await;
                false
            }
            Some(after) => {
                let mut work = pin!(work);
                tokio::time::timeout(after, work.as_mut()).await.is_err()
            }
        };
        let mut ledger = self.world.ledger();
        ledger.tally.callers_left += u64::from(left);
        let call = ledger.ends(id);
        drop(ledger);
        if let Some(watch) = watch {
            let info = watch.info();
            assert_eq!(info.attempts(), call.sent());
            assert_eq!(info.retries(), call.counted().saturating_sub(1));
        }
    }

    async fn work(&self, id: u32, plan: Plan, request: Request<Upload>) {
        let answer = (self.send)(request).await;
        let world = &self.world;
        let answer = match answer {
            Err(Broken { attempt, .. }) => return world.ledger().returns(id, attempt),
            Ok(answer) => answer,
        };
        let scope = answer.extensions().get::<Elapsed>().map(|e| e.scope);
        if scope == Some(DeadlineScope::Call) {
            return world.ledger().times_out(id, Instant::now());
        }
        let OfAttempt(attempt) = *answer.extensions().get().expect("an attempt's");
        world.ledger().returns(id, attempt);
        if answer.headers().contains_key("grpc-status") || answer.body().is_end_stream() {
            return;
        }
        let mut body = answer.into_body();
        let mut last = None;
        for _ in 0..plan.reads.unwrap_or(u32::MAX) {
            match body.frame().await {
                None => break,
                Some(Ok(frame)) => {
                    if let Ok(trailers) = frame.into_trailers() {
                        last = trailers.get("grpc-status").cloned();
                    }
                }
                Some(Err(_)) => break,
            }
        }
        let mut ledger = world.ledger();
        let last: Option<i32> = last.map(|code| code.to_str().unwrap().parse().unwrap());
        match (ledger.call(id).ended, last) {
            (Some(code), Some(last)) if known(last) == code => {}
            // The status is the deadline's own; a stream that failed exactly at the deadline also
            // counts as its effect.
            (_, Some(last)) => {
                assert_eq!(last, 4);
                ledger.times_out(id, Instant::now());
            }
            // It failed, or had no status.
            (Some(_), None) => {}
            (None, None) => assert!(plan.reads.is_some(), "a stream without an end"),
        }
    }
}
