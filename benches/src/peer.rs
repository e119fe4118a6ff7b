//! tower's own retry with a budget over its timeout, which does less: no deadline over all
//! attempts, no reasons, no pushback, no records.

use std::future;
use std::sync::Arc;
use std::time::Duration;

use tower::retry::budget::{Budget, TpsBudget};
use tower::retry::{Policy, Retry};
use tower::timeout::Timeout;
use tower::{BoxError, ServiceBuilder};

use crate::Bare;

/// Retries every error while the budget lasts, three attempts at most.
#[derive(Clone, Debug)]
pub struct WithBudget {
    budget: Arc<TpsBudget>,
    left: u32,
}

impl Policy<u64, u64, BoxError> for WithBudget {
    type Future = future::Ready<()>;

    fn retry(&mut self, _: &mut u64, result: &mut Result<u64, BoxError>) -> Option<Self::Future> {
        if result.is_ok() {
            self.budget.deposit();
            return None;
        }
        if self.left == 0 || !self.budget.withdraw() {
            return None;
        }
        self.left -= 1;
        Some(future::ready(()))
    }

    fn clone_request(&mut self, request: &u64) -> Option<u64> {
        Some(*request)
    }
}

/// tower's retry with budget over timeout, around the bare service.
#[must_use]
pub fn retry_budget_timeout() -> Retry<WithBudget, Timeout<Bare>> {
    let policy = WithBudget {
        budget: Arc::new(TpsBudget::default()),
        left: 2,
    };
    ServiceBuilder::new()
        .retry(policy)
        .timeout(Duration::from_secs(1))
        .service(Bare)
}
