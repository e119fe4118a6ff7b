//! What the log of the process calls a call.

use super::CallState;
use crate::call::subject::CallSubject;

/// How the log of the process calls this call.
pub(super) struct Identity {
    /// Its number, from 1.
    id: u64,
    subject: CallSubject,
}

impl Identity {
    fn of(subject: CallSubject) -> Self {
        static LAST: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        let last = LAST.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Self {
            id: last + 1,
            subject,
        }
    }
}

impl CallState {
    /// Keeps what the call is about, unless it is known.
    pub(crate) fn describe(&self, subject: impl FnOnce() -> CallSubject) {
        if self.id().is_none() {
            let identity = Box::new(Identity::of(subject()));
            self.write(|log| log.identity = Some(identity));
        }
    }

    pub(crate) fn subject(&self) -> Option<CallSubject> {
        self.read(|log| Some(log.identity.as_ref()?.subject.clone()))?
    }

    /// The call's number in the log of the process.
    pub(crate) fn id(&self) -> Option<u64> {
        self.read(|log| Some(log.identity.as_ref()?.id))?
    }
}
