//! Witnesses inside the stack: between the recovery layers and the attempt deadline, and behind the
//! throttle.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use reattempt::throttle::Settled;
use reattempt::{
    CallContext, DeadlineScope, Elapsed, Failure, HasCallContext, RetryThrottle, TokenBucket,
};
use tokio::time::Instant;
use tower::Service;

use super::transport::{Broken, OfAttempt};
use super::words::{Got, Report, Unseen};
use super::world::World;

/// Reports attempts that their own deadline ended: the layer directly above that deadline.
#[derive(Clone, Debug)]
pub(crate) struct Watched<S> {
    pub(crate) inner: S,
    pub(crate) world: Arc<World>,
}

impl<S, B> Service<Request<B>> for Watched<S>
where
    S: Service<Request<B>, Error = Broken>,
    S::Response: OfResponse,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = Broken;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, Broken>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let attempt = request.context().map_or(0, CallContext::attempt);
        let world = Arc::clone(&self.world);
        let answer = self.inner.call(request);
        Box::pin(async move {
            let mut answer = answer.await?;
            if answer.is_elapsed_attempt() {
                answer.mark(attempt);
                let mut ledger = world.ledger();
                ledger.tally.attempts_timed_out += 1;
                let id = ledger.polled.expect("a call is polled");
                let got = Got::Failed {
                    code: 4,
                    word: ledger.call(id).take_echo(),
                    unseen: Unseen::No,
                };
                ledger.answered(id, attempt, got, Instant::now());
            }
            Ok(answer)
        })
    }
}

/// What [`Watched`] needs from a response of any body type.
pub(crate) trait OfResponse {
    fn is_elapsed_attempt(&self) -> bool;
    fn mark(&mut self, attempt: u32);
}

impl<B> OfResponse for Response<B> {
    fn is_elapsed_attempt(&self) -> bool {
        let elapsed = self.extensions().get::<Elapsed>();
        elapsed.is_some_and(|elapsed| elapsed.scope == DeadlineScope::Attempt)
    }

    fn mark(&mut self, attempt: u32) {
        self.extensions_mut().insert(OfAttempt(attempt));
    }
}

/// Logs the calls to the throttle, and compares the bucket with the model each time.
#[derive(Debug)]
pub(crate) struct Witness {
    pub(crate) bucket: Arc<TokenBucket>,
    pub(crate) world: Arc<World>,
}

impl RetryThrottle for Witness {
    fn settled(&self, outcome: Settled<'_>) {
        let mut ledger = self.world.ledger();
        ledger.reported(match outcome {
            Settled::Success => Report::Success,
            Settled::Failure(_) => Report::Failure,
        });
        self.bucket.settled(outcome);
        assert_eq!(self.bucket.milli_tokens(), Some(ledger.fill));
    }

    fn allows(&self, failure: Option<&Failure>) -> bool {
        let permits = self.bucket.allows(failure);
        let mut ledger = self.world.ledger();
        assert_eq!(permits, ledger.permits(Instant::now()), "R20 R46");
        permits
    }

    fn milli_tokens(&self) -> Option<u64> {
        self.bucket.milli_tokens()
    }
}
