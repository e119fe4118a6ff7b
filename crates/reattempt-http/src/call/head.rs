//! The head of a request, which its copies share.

use std::fmt;
use std::sync::Arc;

use http::Request;
use http::request::Parts;
use reattempt::CallContext;

use super::pool;
use super::shared::{Held, Shared, request};

/// A handle of a head without its context. Its copies share it: what an attempt needs is made when
/// it is sent, and moved if no other attempt can follow.
pub(super) struct Head(Option<Arc<Shared>>);

impl Head {
    #[inline]
    pub(super) fn new(parts: Parts) -> Self {
        let mut shared = pool::fresh();
        match Arc::get_mut(&mut shared) {
            Some(own) => own.get_mut().held = Held::Whole(parts),
            None => unreachable!("a fresh head has one handle"),
        }
        Self(Some(shared))
    }

    /// The parts of this handle alone.
    #[inline]
    pub(super) fn parts_mut(&mut self) -> &mut Parts {
        let shared = self.0.get_or_insert_default();
        Arc::make_mut(shared).get_mut().whole()
    }

    /// The same head, for an attempt.
    #[inline]
    pub(super) fn share(&self) -> Self {
        Self(self.0.clone())
    }

    /// The request of an attempt.
    #[inline]
    pub(super) fn into_request<B>(mut self, context: CallContext, body: B) -> Request<B> {
        match self.0.as_mut().and_then(Arc::get_mut) {
            Some(own) => request(own.get_mut().take(), context, body),
            None => self.shared().lock().for_attempt(context, body),
        }
    }

    /// A request for the log, which takes nothing.
    pub(super) fn described(&self) -> Request<()> {
        Request::from_parts(self.shared().lock().copy(), ())
    }

    #[inline]
    fn shared(&self) -> &Shared {
        match &self.0 {
            Some(shared) => shared,
            None => unreachable!("only a drop takes it"),
        }
    }
}

impl Drop for Head {
    #[inline]
    fn drop(&mut self) {
        if let Some(shared) = self.0.take() {
            pool::give_back(shared);
        }
    }
}

/// Headers and path may have credentials.
impl fmt::Debug for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Head").finish_non_exhaustive()
    }
}
