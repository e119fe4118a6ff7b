//! A function as the service below a recovery layer.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use tower_service::Service;

use super::Attempt;
use crate::Call;

/// Calls the function for each attempt. Clones call the same function, one at a time: the recovery
/// layer sends an attempt only after the one before has ended.
#[derive(Debug)]
pub struct Function<F>(Arc<Mutex<F>>);

impl<F> Function<F> {
    pub(super) fn new(function: F) -> Self {
        Self(Arc::new(Mutex::new(function)))
    }
}

impl<F> Clone for Function<F> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<F, Fut, T, E> Service<Call<()>> for Function<F>
where
    F: FnMut(Attempt) -> Fut,
    Fut: Future<Output = Result<T, E>>,
{
    type Response = T;
    type Error = E;
    type Future = Fut;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), E>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, call: Call<()>) -> Fut {
        let ((), context) = call.into_parts();
        let mut function = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        function(Attempt(context))
    }
}
