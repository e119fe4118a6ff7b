//! Nested retries (Backwards Compatibility): an application that makes n attempts over a client
//! that makes two sends a read up to 2n times.

use std::fmt;
use std::sync::Arc;

use reattempt::CallContext;

/// For an application's own retry loop: which of its attempts a call is, from 1. Set it with
/// [`CallContext::set_data`]; reattempt's own layers do not need it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OuterAttempt(pub u32);

/// Another retry layer was detected above this client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct NestedRetries {
    /// The attempt of that layer that this call belongs to, from 1.
    pub attempt: u32,
}

impl NestedRetries {
    /// Detects another retry layer in a call that has just reached the client: a recovery layer
    /// that claimed the call, an attempt above 1, or an [`OuterAttempt`]. The first attempt of a
    /// loop that sets none of these is not detected.
    #[must_use]
    pub fn seen_in(context: &CallContext) -> Option<Self> {
        let attached = context.data::<OuterAttempt>().map(|outer| outer.0);
        let own = context.attempt();
        let attempt = attached.unwrap_or(1).max(own).max(1);
        (attached.is_some() || context.is_claimed() || own > 1).then_some(Self { attempt })
    }
}

/// The callback for detected nested retries.
#[derive(Clone)]
pub(crate) struct OnNested(Arc<dyn Fn(NestedRetries) + Send + Sync>);

impl OnNested {
    pub(crate) fn new(callback: impl Fn(NestedRetries) + Send + Sync + 'static) -> Self {
        Self(Arc::new(callback))
    }

    pub(crate) fn tell(&self, nested: NestedRetries) {
        (self.0)(nested);
    }
}

impl fmt::Debug for OnNested {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnNested")
    }
}
