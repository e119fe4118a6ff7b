//! The two kinds of requests: `Call<T>`, and `http::Request` with a replayed body.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::Request;
use http_body::{Body, Frame};
use reattempt::{Call, HasCallContext, Replay};
use reattempt_http::ReplayBodyError;
use reattempt_http::body::{BufferBudget, ReplayBody, ReplayBodyLayer};
use reattempt_tests::alive::Live;
use tokio::time::Sleep;
use tower::util::BoxCloneService;
use tower::{BoxError, Layer};

use crate::policies::Router;
use crate::reply::{Fault, Reply};
use crate::scenario::BodyPlan;
use crate::world::World;

/// A stack of services for such requests.
pub(crate) type Stack<R> = BoxCloneService<R, Reply, Fault>;

/// The request type that the layers see.
pub(crate) trait Carrier: HasCallContext + Replay + Send + Sized + 'static {
    /// The request type that the caller makes.
    type Outside: HasCallContext + Send + 'static;

    fn make(world: &Arc<World>, call: usize) -> Self::Outside;

    /// The outermost service, which converts the caller's request.
    fn enter(world: &World, budget: &BufferBudget, inner: Stack<Self>) -> Stack<Self::Outside>;

    /// The number of the call.
    fn call(&self) -> usize;

    /// The policy currently in force for the call.
    fn policy(router: &Router, request: &Self::Outside) -> Option<Arc<reattempt::RoutePolicy>>;

    /// Reads more of the body: `None` at its end. An error contains whether the body was abandoned
    /// for another attempt.
    fn poll_body(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<(), bool>>>;
}

/// The request of a `Call`.
#[derive(Debug)]
pub(crate) struct Payload {
    pub(crate) call: usize,
    pub(crate) class: usize,
    world: Arc<World>,
    _live: Live,
}

impl Payload {
    fn new(world: &Arc<World>, call: usize) -> Self {
        Self {
            call,
            class: world.scenario.calls[call].class,
            world: Arc::clone(world),
            _live: Live::one_of(&world.alive.requests),
        }
    }
}

impl Clone for Payload {
    fn clone(&self) -> Self {
        Self::new(&self.world, self.call)
    }
}

impl Carrier for Call<Payload> {
    type Outside = Self;

    fn make(world: &Arc<World>, call: usize) -> Self {
        Self::new(Payload::new(world, call))
    }

    fn enter(_: &World, _: &BufferBudget, inner: Stack<Self>) -> Stack<Self> {
        inner
    }

    fn call(&self) -> usize {
        self.request.call
    }

    fn policy(router: &Router, request: &Self) -> Option<Arc<reattempt::RoutePolicy>> {
        reattempt::Route::route(router, request)
    }

    fn poll_body(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<(), bool>>> {
        Poll::Ready(None)
    }
}

/// The original body of a request.
#[derive(Debug)]
pub(crate) struct Upload {
    plan: BodyPlan,
    pause: Option<Pin<Box<Sleep>>>,
    _live: Live,
}

impl Body for Upload {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.plan.frames == 0 {
            let fails = std::mem::take(&mut self.plan.fails);
            return Poll::Ready(fails.then(|| Err("the caller's own body failed".into())));
        }
        if self.plan.gap > 0 {
            let gap = reattempt::test_util::ms(self.plan.gap);
            let pause = self
                .pause
                .get_or_insert_with(|| Box::pin(tokio::time::sleep(gap)));
            ready!(pause.as_mut().poll(cx));
            self.pause = None;
        }
        self.plan.frames -= 1;
        let data = vec![b'a'; self.plan.bytes_a_frame];
        Poll::Ready(Some(Ok(Frame::data(data.into()))))
    }

    fn is_end_stream(&self) -> bool {
        self.plan.frames == 0 && !self.plan.fails
    }
}

impl Carrier for Request<ReplayBody<Upload>> {
    type Outside = Request<Upload>;

    fn make(world: &Arc<World>, call: usize) -> Request<Upload> {
        let plan = &world.scenario.calls[call];
        let path = format!("/adversary.S/M{}", plan.class);
        let method = if plan.get { "GET" } else { "POST" };
        let upload = Upload {
            plan: plan.body,
            pause: None,
            _live: Live::one_of(&world.alive.uploads),
        };
        let request = Request::builder().method(method).uri(path);
        let request = request.header("x-call", call).body(upload);
        request.expect("a request")
    }

    fn enter(world: &World, budget: &BufferBudget, inner: Stack<Self>) -> Stack<Request<Upload>> {
        let layer = ReplayBodyLayer::new().bytes_per_call(world.scenario.bytes[0]);
        Stack::new(layer.budget(budget.clone()).layer(inner))
    }

    fn call(&self) -> usize {
        let call = self.headers()["x-call"].to_str();
        call.expect("text").parse().expect("a number")
    }

    fn policy(router: &Router, request: &Request<Upload>) -> Option<Arc<reattempt::RoutePolicy>> {
        reattempt::Route::route(router, request)
    }

    fn poll_body(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<(), bool>>> {
        let frame = ready!(Pin::new(self.body_mut()).poll_frame(cx));
        Poll::Ready(frame.map(|frame| match frame {
            Ok(_) => Ok(()),
            Err(error) => Err(matches!(error, ReplayBodyError::Abandoned)),
        }))
    }
}
