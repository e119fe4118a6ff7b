//! What the services of these crates dereference to, so that the compiler says why a stack is not a
//! service.
//!
//! The compiler looks up the method of `stack.oneshot(request)` before it uses the request's type.
//! If a bound of a layer fails there, it reports that "the method exists but its trait bounds were
//! not satisfied", and not which layer's. But first it looks at what the stack dereferences to.
//! [`NotAService`] has the method for any request; its bound is checked once the request is known,
//! and fails with the message of the layer's own trait. A stack that is a service is not
//! dereferenced: its own methods are found first.
//!
//! `tests/compile_errors` holds the messages.

use std::future::Future;
use std::marker::PhantomData;
use std::task::{Context, Poll};

use tower_service::Service;

/// A stack whose layers do not fit together, or do not fit the request. No value of it can be
/// called: only shared references exist.
#[derive(Debug)]
pub struct NotAService<S>(PhantomData<fn() -> S>);

impl<S> NotAService<S> {
    /// For the implementations of `Deref`.
    #[must_use]
    pub const fn of(_: &S) -> &Self {
        &Self(PhantomData)
    }
}

/// A request that the stack `S` takes. The compiler knows no failing bound of it as long as it does
/// not know the request.
pub trait TakenBy<S> {
    /// As of the stack.
    type Response;
    /// As of the stack.
    type Error;
    /// As of the stack.
    type Future: Future<Output = Result<Self::Response, Self::Error>>;
}

impl<S: Service<Req>, Req> TakenBy<S> for Req {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;
}

impl<S, Req: TakenBy<S>> Service<Req> for NotAService<S> {
    type Response = Req::Response;
    type Error = Req::Error;
    type Future = Req::Future;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        unreachable!("only shared references exist")
    }

    fn call(&mut self, _: Req) -> Self::Future {
        unreachable!("only shared references exist")
    }
}

/// For the protocol crates: lets the compiler explain why a stack with this service outermost is
/// not a service. Parameters first: `[S, C] Retry<S, C>`.
#[doc(hidden)]
#[macro_export]
macro_rules! explain_services {
    ($([$($param:ident),+] $service:ty),+ $(,)?) => {$(
        #[doc(hidden)]
        impl<$($param),+> ::core::ops::Deref for $service {
            type Target = $crate::not_a_service::NotAService<Self>;

            fn deref(&self) -> &Self::Target {
                $crate::not_a_service::NotAService::of(self)
            }
        }
    )+};
}

explain_services! {
    [S] crate::client_error::WithClientError<S>,
    [S, P] crate::config_poll::ConfigPoll<S, P>,
    [S, M] crate::deadline::Deadline<S, M>,
    [S, C] crate::hedge::Hedge<S, C>,
    [S, R] crate::pushback::Pushback<S, R>,
    [S, C] crate::retry::Retry<S, C>,
    [S, R] crate::route::Routed<S, R>,
    [S] crate::throttle::Throttle<S>,
    [S] crate::wrap::IntoCall<S>,
    [S] crate::wrap::OutOfCall<S>,
}
