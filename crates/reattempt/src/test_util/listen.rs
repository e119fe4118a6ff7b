//! A minimal subscriber that collects the layers' warnings about a stack.

use std::fmt::{Debug, Write as _};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Dispatch, Event, Level, Metadata, Subscriber};

/// Collects this thread's warnings while it lives.
#[derive(Debug)]
pub struct Listener {
    warnings: Arc<Mutex<Vec<String>>>,
    _guard: DefaultGuard,
}

/// While a process has only one subscriber, tracing asks the first thread that reaches a callsite
/// whether a subscriber is interested, and caches the answer for all threads. Two unused
/// subscribers prevent this.
static OTHERS: OnceLock<[Dispatch; 2]> = OnceLock::new();

/// Starts to collect warnings.
#[must_use]
pub fn listen() -> Listener {
    OTHERS.get_or_init(|| std::array::from_fn(|_| Dispatch::new(Warnings(Arc::default()))));
    let warnings = Arc::<Mutex<Vec<String>>>::default();
    let subscriber = Warnings(Arc::clone(&warnings));
    Listener {
        warnings,
        _guard: tracing::subscriber::set_default(subscriber),
    }
}

impl Listener {
    /// The collected warnings, oldest first.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        warnings.clone()
    }
}

struct Warnings(Arc<Mutex<Vec<String>>>);

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        // Not the log of calls that failed.
        *metadata.level() <= Level::WARN && metadata.target() == "reattempt"
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut message = Message(String::new());
        event.record(&mut message);
        let mut warnings = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        warnings.push(message.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            let _ = write!(self.0, "{value:?}");
        }
    }
}
