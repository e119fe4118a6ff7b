//! The third column: tower's own retry with a budget over its timeout, on the same script.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use tower::retry::Policy;
use tower::retry::backoff::{Backoff, ExponentialBackoff, ExponentialBackoffMaker, MakeBackoff};
use tower::retry::budget::{Budget, TpsBudget};
use tower::util::rng::HasherRng;
use tower::{BoxError, Service, ServiceBuilder, ServiceExt};

use super::load::{Outcome, Plan, Seen, bare};
use super::policies::{FIRST_BACKOFF, LONGEST_BACKOFF, MOST_ATTEMPTS};

/// Which responses of a service are retried.
pub(crate) type IsFailure = fn(&Response<Incoming>) -> bool;

/// Retries failures of any request, as tower's documentation shows it: a budget of a fifth of the
/// calls and ten a second, and an exponential back-off.
#[derive(Clone, Debug)]
pub(crate) struct BudgetedRetry {
    budget: Arc<TpsBudget>,
    backoff: ExponentialBackoff,
    left: u32,
    is_failure: IsFailure,
}

impl BudgetedRetry {
    fn new(is_failure: IsFailure) -> Result<Self, BoxError> {
        let mut maker = ExponentialBackoffMaker::new(
            FIRST_BACKOFF,
            LONGEST_BACKOFF,
            0.2,
            HasherRng::default(),
        )?;
        Ok(Self {
            budget: Arc::new(TpsBudget::default()),
            backoff: maker.make_backoff(),
            left: MOST_ATTEMPTS - 1,
            is_failure,
        })
    }
}

impl Policy<Request<Full<Bytes>>, Response<Incoming>, BoxError> for BudgetedRetry {
    type Future = <ExponentialBackoff as Backoff>::Future;

    fn retry(
        &mut self,
        _: &mut Request<Full<Bytes>>,
        result: &mut Result<Response<Incoming>, BoxError>,
    ) -> Option<Self::Future> {
        if result
            .as_ref()
            .is_ok_and(|response| !(self.is_failure)(response))
        {
            self.budget.deposit();
            return None;
        }
        if self.left == 0 || !self.budget.withdraw() {
            return None;
        }
        self.left -= 1;
        Some(self.backoff.next_backoff())
    }

    fn clone_request(&mut self, request: &Request<Full<Bytes>>) -> Option<Request<Full<Bytes>>> {
        Some(request.clone())
    }
}

/// Sent attempts of one call.
#[derive(Clone, Debug, Default)]
struct Sent(Arc<AtomicU32>);

/// tower's retry with a budget over its timeout, around this client. An attempt has a quarter of
/// the call's time.
pub(crate) fn stack<S>(
    plan: &Plan,
    is_failure: IsFailure,
    client: S,
) -> Result<
    impl Service<Request<Full<Bytes>>, Response = Response<Incoming>, Error = BoxError, Future: Send>
    + Clone
    + Send
    + Sync
    + 'static
    + use<S>,
    BoxError,
>
where
    S: Service<
            Request<Full<Bytes>>,
            Response = Response<Incoming>,
            Future: Send,
            Error: Into<BoxError>,
        > + Clone
        + Send
        + Sync
        + 'static,
{
    Ok(ServiceBuilder::new()
        .retry(BudgetedRetry::new(is_failure)?)
        .timeout(plan.limit / 4)
        .map_request(|request: Request<Full<Bytes>>| {
            if let Some(Sent(sent)) = request.extensions().get() {
                sent.fetch_add(1, Ordering::Relaxed);
            }
            request
        })
        .service(client))
}

/// A call through that stack, with the caller's own timeout, which tower's layers do not know.
pub(crate) async fn call<S, Fut>(
    limit: Duration,
    stack: S,
    mut request: Request<Full<Bytes>>,
    judge: impl FnOnce(Result<S::Response, S::Error>) -> Fut,
) -> Outcome
where
    S: Service<Request<Full<Bytes>>>,
    Fut: Future<Output = Seen>,
{
    let sent = Sent::default();
    request.extensions_mut().insert(sent.clone());
    let outcome = bare(limit, async { judge(stack.oneshot(request).await).await }).await;
    Outcome {
        attempts: sent.0.load(Ordering::Relaxed).max(1),
        ..outcome
    }
}
