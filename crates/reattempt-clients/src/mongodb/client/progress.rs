//! The progress of a call, also available when the call is dropped.

use std::fmt;
use std::sync::Arc;

/// The progress of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress<'a> {
    /// This server was selected for it, and no byte of the command was written.
    Selected {
        /// Its address.
        server: &'a str,
        /// Its highest wire version, as last seen.
        max_wire_version: i32,
    },
    /// Some bytes may have been written.
    Sending,
    /// The reply has arrived.
    Answered,
}

type Listener = dyn Fn(Progress<'_>) + Send + Sync;

/// The listener for progress; none by default.
#[derive(Clone, Default)]
pub struct OnProgress(Option<Arc<Listener>>);

impl OnProgress {
    /// Reports to `listener`.
    #[must_use]
    pub fn new<F>(listener: F) -> Self
    where
        F: Fn(Progress<'_>) + Send + Sync + 'static,
    {
        Self(Some(Arc::new(listener)))
    }

    pub(super) fn tell(&self, progress: Progress<'_>) {
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
