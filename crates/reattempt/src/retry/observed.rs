//! A first attempt that succeeds while an observer wants it.

use std::pin::Pin;

use crate::HasCallContext;
use tower_service::Service;

use super::future::{RetryFuture, StateProj};
use crate::Replay;

impl<S, C, Req> RetryFuture<S, C, Req>
where
    S: Service<Req>,
    Req: HasCallContext + Replay,
{
    /// A first attempt succeeded, and there is an observer. By `self`: with the address of the
    /// context taken, calls without an observer would keep it in memory (10 instructions).
    #[cold]
    #[inline(never)]
    pub(super) fn first_succeeded(self: Pin<&mut Self>, committed: bool) {
        let this = self.project();
        let context = this.source.context_mut();
        // What `Effects::succeeded` does for a call with one attempt. That asks for the number, and
        // asks the log and the observer again whether they see a success: `COUNTING` of the benches
        // has no room for it.
        context.settle_success(committed);
        if let Some(observer) = &this.config.settings.own_observer {
            observer.first_succeeded(context, committed);
        }
        if let StateProj::InFlight { mut future, .. } = this.state.project() {
            future.set(None);
        }
        this.source.release();
    }
}
