//! `Call<T>`: a request of any protocol with its context stored inline.

use crate::{CallContext, HasCallContext};

/// A request of any protocol that carries its [`CallContext`] inline.
///
/// Use it for requests that have no extensions. `CallLayer` wraps plain requests, and `UncallLayer`
/// unwraps them for the transport.
#[derive(Clone, Debug, Default)]
pub struct Call<T> {
    context: CallContext,
    /// The wrapped request.
    pub request: T,
}

impl<T> Call<T> {
    /// A call with an empty context.
    #[must_use]
    pub fn new(request: T) -> Self {
        Self {
            context: CallContext::default(),
            request,
        }
    }

    /// A call with this context.
    #[must_use]
    pub fn with_context(request: T, context: CallContext) -> Self {
        Self { context, request }
    }

    /// Splits the call into request and context.
    #[must_use]
    pub fn into_parts(self) -> (T, CallContext) {
        (self.request, self.context)
    }
}

impl<T> From<T> for Call<T> {
    fn from(request: T) -> Self {
        Self::new(request)
    }
}

impl<T> HasCallContext for Call<T> {
    fn context(&self) -> Option<&CallContext> {
        Some(&self.context)
    }

    fn context_mut(&mut self) -> &mut CallContext {
        &mut self.context
    }
}
