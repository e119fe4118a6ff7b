//! How far a call has come, for who has to know it also of a call that is cut off.

use std::fmt;
use std::sync::Arc;

/// How far a call has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Nothing of the command was written.
    Unsent,
    /// Some of it may have been.
    Sending,
    /// The reply is there.
    Answered,
}

/// Whom to tell. Nobody by default.
#[derive(Clone, Default)]
pub struct OnProgress(Option<Arc<dyn Fn(Progress) + Send + Sync>>);

impl OnProgress {
    /// Tells `listener`.
    #[must_use]
    pub fn new<F>(listener: F) -> Self
    where
        F: Fn(Progress) + Send + Sync + 'static,
    {
        Self(Some(Arc::new(listener)))
    }

    pub(super) fn tell(&self, progress: Progress) {
        if let Some(listener) = &self.0 {
            listener(progress);
        }
    }
}

impl fmt::Debug for OnProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnProgress")
    }
}
