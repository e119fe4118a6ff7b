//! Command monitoring: one end for every start.

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
pub struct CommandEvent {
    /// What happened.
    pub kind: EventKind,
    /// The command's name.
    pub command: String,
    /// Of this message; every attempt has another.
    pub request_id: i32,
    /// Of the logical operation; the same over its attempts.
    pub operation_id: i64,
    /// The client's number of the connection.
    pub connection: u64,
    /// The server's address.
    pub server: String,
}

/// Whom to tell.
pub type OnEvent = Arc<dyn Fn(CommandEvent) + Send + Sync>;

/// A command that was started and must be ended: by a word, or by being dropped.
pub(super) struct Pending {
    listener: Option<OnEvent>,
    event: CommandEvent,
}

impl Pending {
    /// Tells of the start; `event` says [`EventKind::Started`].
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
