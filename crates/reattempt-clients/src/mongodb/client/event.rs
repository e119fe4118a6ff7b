//! Command monitoring: one end event for every start event.

use std::sync::Arc;

/// What happened to a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// It is about to be sent.
    Started,
    /// Its reply was ok.
    Succeeded,
    /// Its reply was not ok, there was none, or the call was dropped.
    Failed,
}

impl EventKind {
    /// The name in lower case.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
        }
    }
}

/// One event of a command. Handshakes and monitoring have none.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CommandEvent {
    /// What happened.
    pub kind: EventKind,
    /// The command's name.
    pub command: String,
    /// The id of this message; different for every attempt.
    pub request_id: i32,
    /// The id of the logical operation; the same for all its attempts.
    pub operation_id: i64,
    /// The client's number of the connection.
    pub connection: u64,
    /// The server's address.
    pub server: String,
}

/// The listener.
pub type OnEvent = Arc<dyn Fn(CommandEvent) + Send + Sync>;

/// A started command, which must end: explicitly or by being dropped.
pub(super) struct Pending {
    listener: Option<OnEvent>,
    event: CommandEvent,
}

impl Pending {
    /// Reports the start; `event` has the kind [`EventKind::Started`].
    pub(super) fn start(listener: Option<OnEvent>, event: CommandEvent) -> Self {
        if let Some(listener) = &listener {
            listener(event.clone());
        }
        Self { listener, event }
    }

    pub(super) fn succeeded(mut self) {
        self.end(EventKind::Succeeded);
    }

    fn end(&mut self, kind: EventKind) {
        if let Some(listener) = self.listener.take() {
            self.event.kind = kind;
            listener(self.event.clone());
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.end(EventKind::Failed);
    }
}
