//! `Call<T>`: a request of any protocol with its context inline.

use crate::{Annotated, CallContext};

/// A request of any protocol, carrying its [`CallContext`] inline.
///
/// Use it where the request has no room of its own for extensions; `CallLayer` wraps plain requests
/// and `UncallLayer` unwraps them again for the transport.
#[derive(Clone, Debug, Default)]
pub struct Call<T> {
    context: CallContext,
    /// The request itself.
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

    /// Takes the call apart.
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

impl<T> Annotated for Call<T> {
    fn context(&self) -> Option<&CallContext> {
        Some(&self.context)
    }

    fn context_mut(&mut self) -> &mut CallContext {
        &mut self.context
    }
}
