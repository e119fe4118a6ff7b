//! Warnings about stacks of layers that are built wrongly.

#[cfg(all(test, feature = "tokio"))]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::CallContext;

/// Logs once, at WARN, that a stack is built wrongly: a layer has no effect where it is, or one
/// that it relies on is missing.
///
/// For layers and classifiers, of this crate and of others. Each checks the calls that it sees, and
/// owns one value: clones share the warning, so that it is logged once per stack and not per call.
///
/// ```
/// use reattempt::{CallContext, StackCheck};
///
/// let mut check = StackCheck::default();
/// check.inside_recovery("MyLayer", Some(&CallContext::default())); // logs: no RetryLayer above
/// check.clone().inside_recovery("MyLayer", None); // does not log again
/// ```
#[derive(Clone, Debug)]
pub struct StackCheck(
    /// Whether it has logged. `None` once a call has shown that the stack is right: a recovery
    /// layer clones the services below it for each call, and what they share costs two locked
    /// instructions each.
    Option<Arc<AtomicBool>>,
);

impl Default for StackCheck {
    fn default() -> Self {
        Self(Some(Arc::default()))
    }
}

impl StackCheck {
    /// Of a layer that is right wherever it is.
    #[cfg(feature = "tokio")]
    pub(crate) const OFF: Self = Self(None);

    /// The stack is right.
    #[inline]
    pub(crate) fn switch_off(&mut self) {
        if self.0.is_some() {
            self.0 = None;
        }
    }

    /// Logs what is wrong with this layer, unless this value or a clone of it has already logged.
    #[cold]
    #[inline(never)]
    pub fn warn(&self, layer: &'static str, what: &'static str) {
        self.warn_of(layer, what);
    }

    pub(crate) fn warn_of(&self, layer: &'static str, what: &str) {
        if let Some(logged) = &self.0 {
            if !logged.swap(true, Ordering::Relaxed) {
                tracing::warn!(target: "reattempt", layer, "{layer} {what}");
            }
        }
    }

    #[cfg(feature = "tokio")]
    pub(crate) fn has_logged(&self) -> bool {
        let logged = self.0.as_ref();
        logged.is_some_and(|logged| logged.load(Ordering::Relaxed))
    }

    /// For a layer that reports on attempts: a recovery layer has to be above it. `context` is the
    /// request's, if it has one; without a context no recovery layer is above.
    ///
    /// A service stays where it is: once there was a recovery layer above, this value and its later
    /// clones log nothing.
    #[inline]
    pub fn inside_recovery(&mut self, layer: &'static str, context: Option<&CallContext>) {
        if context.is_some_and(is_of_attempt) {
            self.switch_off();
        } else {
            self.warn(
                layer,
                "is outside of any recovery layer, so its reports have no effect: \
                 put it below RetryLayer or HedgeLayer",
            );
        }
    }

    /// For a layer that handles each attempt by itself, such as one that measures or marks it: a
    /// recovery layer has to be above it. `context` is as for
    /// [`inside_recovery`](Self::inside_recovery).
    #[inline]
    pub fn of_each_attempt(&self, layer: &'static str, context: Option<&CallContext>) {
        if !context.is_some_and(is_of_attempt) {
            self.warn(
                layer,
                "is outside of any recovery layer, so it sees only one attempt: \
                 put it below RetryLayer or HedgeLayer",
            );
        }
    }

    /// For a layer that sets options of the call: no recovery layer may be above it. `context` is
    /// the request's.
    #[inline]
    pub fn outside_recovery(&self, layer: &'static str, context: &CallContext) {
        if context.is_claimed() {
            self.warn(
                layer,
                "is inside the recovery layer, which has already read the call's options: \
                 put it above RetryLayer or HedgeLayer",
            );
        }
    }
}

/// Below a recovery layer, also below one that passes the call because its policy has no recovery.
#[inline]
fn is_of_attempt(context: &CallContext) -> bool {
    context.attempt() > 0 && (context.is_claimed() || context.is_sent_once())
}
