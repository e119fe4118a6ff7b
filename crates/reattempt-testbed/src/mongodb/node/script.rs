//! Scripted deviations from usual answers: steps, each used once, in the order they were added.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bson::{Bson, Document, doc};

use super::codes::code_name;
use super::seen::{SeenCommand, canonical};
use crate::lock::lock;

/// One deviation from the usual answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    pub(super) delay: Duration,
    pub(super) action: Action,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Action {
    /// Answer as usual, with these fields added.
    Pass(Document),
    /// Answer with this document; the flag adds the cluster time.
    Reply(Document, bool),
    /// Never answer.
    Hang,
    /// Close without an answer; the command has no effect.
    Close,
    /// Reset the connection (RST); the command has no effect.
    Reset,
    /// Send this many bytes of the usual answer, or half of it, then close or stay silent.
    PartOfReply {
        bytes: Option<usize>,
        then_close: bool,
    },
}

impl Step {
    fn of(action: Action) -> Self {
        Self {
            delay: Duration::ZERO,
            action,
        }
    }

    /// Fails with a server error with this code and name.
    #[must_use]
    pub fn error(code: i32, name: &str) -> Self {
        let document = doc! {
            "ok": 0.0,
            "errmsg": format!("{name} by script"),
            "code": code,
            "codeName": name,
        };
        Self::of(Action::Reply(document, true))
    }

    /// Fails with a server error with this code, by its usual name.
    #[must_use]
    pub fn code(code: i32) -> Self {
        Self::error(code, &code_name(code))
    }

    /// Answers with this document; adds `ok: 1` when `ok` is absent.
    #[must_use]
    pub fn ok(mut document: Document) -> Self {
        if !document.contains_key("ok") {
            document.insert("ok", 1.0);
        }
        Self::of(Action::Reply(document, true))
    }

    /// Answers with exactly this document: no cluster time, no `ok`.
    #[must_use]
    pub fn reply(document: Document) -> Self {
        Self::of(Action::Reply(document, false))
    }

    /// Answers as usual; for use with [`after`](Self::after) and [`with`](Self::with).
    #[must_use]
    pub fn pass() -> Self {
        Self::of(Action::Pass(Document::new()))
    }

    /// Never answers. The connection stays open until the peer closes it.
    #[must_use]
    pub fn hang() -> Self {
        Self::of(Action::Hang)
    }

    /// Closes the connection when the command arrives; no answer, no effect.
    #[must_use]
    pub fn close_before() -> Self {
        Self::of(Action::Close)
    }

    /// Resets the connection (RST) when the command arrives; no answer, no effect.
    #[must_use]
    pub fn reset() -> Self {
        Self::of(Action::Reset)
    }

    /// Sends half of the usual answer and closes.
    #[must_use]
    pub fn half_reply() -> Self {
        Self::of(Action::PartOfReply {
            bytes: None,
            then_close: true,
        })
    }

    /// Sends the first bytes of the usual answer, at most all but the last byte, and closes.
    #[must_use]
    pub fn first_bytes(bytes: usize) -> Self {
        Self::of(Action::PartOfReply {
            bytes: Some(bytes),
            then_close: true,
        })
    }

    /// Sends half of the usual answer and then nothing more. The connection stays open until the
    /// peer closes it.
    #[must_use]
    pub fn stalled_reply() -> Self {
        Self::of(Action::PartOfReply {
            bytes: None,
            then_close: false,
        })
    }

    /// Waits before the step runs.
    #[must_use]
    pub fn after(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Adds an error label to the answer.
    #[must_use]
    pub fn label(mut self, label: &str) -> Self {
        if let Some(document) = self.document() {
            match document.get_array_mut("errorLabels") {
                Ok(labels) => labels.push(label.into()),
                Err(_) => {
                    document.insert("errorLabels", vec![Bson::from(label)]);
                }
            }
        }
        self
    }

    /// Sets a field of the answer, for example `code` with another number type, or `baseBackoffMS`.
    #[must_use]
    pub fn with(mut self, field: &str, value: impl Into<Bson>) -> Self {
        if let Some(document) = self.document() {
            document.insert(field, value);
        }
        self
    }

    /// Removes a field from the answer.
    #[must_use]
    pub fn without(mut self, field: &str) -> Self {
        if let Some(document) = self.document() {
            document.remove(field);
        }
        self
    }

    fn document(&mut self) -> Option<&mut Document> {
        match &mut self.action {
            Action::Pass(document) | Action::Reply(document, _) => Some(document),
            Action::Hang | Action::Close | Action::Reset | Action::PartOfReply { .. } => None,
        }
    }
}

type Predicate = Arc<dyn Fn(&SeenCommand) -> bool + Send + Sync>;
type Handler = Arc<dyn Fn(&SeenCommand) -> Option<Step> + Send + Sync>;

enum Wanted {
    Named(String),
    Data,
    When(Predicate),
}

/// The remaining steps of a node. Clones share them.
#[derive(Clone, Default)]
pub struct Script {
    queue: Arc<Mutex<Queue>>,
}

#[derive(Default)]
struct Queue {
    steps: VecDeque<(Wanted, Step)>,
    handler: Option<Handler>,
}

impl std::fmt::Debug for Script {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Script")
            .field("left", &self.left())
            .finish_non_exhaustive()
    }
}

impl Script {
    /// Uses `step` for the next command with this name; `hello` also covers `isMaster`.
    pub fn on(&self, command: &str, step: Step) -> &Self {
        self.push(Wanted::Named(canonical(command).to_owned()), step)
    }

    /// Uses `step` for the next data command: no handshake, no session cleanup.
    pub fn next(&self, step: Step) -> &Self {
        self.push(Wanted::Data, step)
    }

    /// Uses `step` for the next command for which `predicate` returns true.
    pub fn when<F>(&self, predicate: F, step: Step) -> &Self
    where
        F: Fn(&SeenCommand) -> bool + Send + Sync + 'static,
    {
        self.push(Wanted::When(Arc::new(predicate)), step)
    }

    /// Calls `handler` for every command for which no step is left.
    pub fn handler<F>(&self, handler: F) -> &Self
    where
        F: Fn(&SeenCommand) -> Option<Step> + Send + Sync + 'static,
    {
        lock(&self.queue).handler = Some(Arc::new(handler));
        self
    }

    /// Removes all steps and the handler.
    pub fn clear(&self) {
        *lock(&self.queue) = Queue::default();
    }

    /// The number of remaining steps.
    #[must_use]
    pub fn left(&self) -> usize {
        lock(&self.queue).steps.len()
    }

    fn push(&self, wanted: Wanted, step: Step) -> &Self {
        lock(&self.queue).steps.push_back((wanted, step));
        self
    }

    pub(super) fn take(&self, command: &SeenCommand) -> Option<Step> {
        let mut queue = lock(&self.queue);
        let place = queue.steps.iter().position(|(wanted, _)| match wanted {
            Wanted::Named(name) => name == canonical(&command.name),
            Wanted::Data => command.is_data(),
            Wanted::When(predicate) => predicate(command),
        });
        if let Some((_, step)) = place.and_then(|place| queue.steps.remove(place)) {
            return Some(step);
        }
        let handler = queue.handler.clone();
        // Released first, because the handler may use the script.
        drop(queue);
        handler.and_then(|handler| handler(command))
    }
}
