//! What a node shall do other than answer: steps, taken once each, in the order they were given.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bson::{Bson, Document, doc};

use super::{SeenCommand, code_name};
use crate::mongodb::lock;

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
    /// Answer this; the flag says to add the cluster's time.
    Reply(Document, bool),
    /// Never answer.
    Hang,
    /// Close without a word; the command has no effect.
    Close,
    /// Reset the connection (RST); the command has no effect.
    Reset,
    /// Send so many bytes of the usual answer, or half of it, then close or say nothing more.
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

    /// Fails with a server error of this code and name.
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

    /// Fails with a server error of this code, by its usual name.
    #[must_use]
    pub fn code(code: i32) -> Self {
        Self::error(code, &code_name(code))
    }

    /// Answers with this document; `ok: 1` is added when it says nothing of `ok`.
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

    /// Answers as usual; of use with [`after`](Self::after) and [`with`](Self::with).
    #[must_use]
    pub fn pass() -> Self {
        Self::of(Action::Pass(Document::new()))
    }

    /// Never answers. The connection stays open until the peer closes it.
    #[must_use]
    pub fn hang() -> Self {
        Self::of(Action::Hang)
    }

    /// Closes the connection after the command came, without an answer or an effect.
    #[must_use]
    pub fn close_before() -> Self {
        Self::of(Action::Close)
    }

    /// Resets the connection (RST) after the command came, without an answer or an effect.
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

    /// Sends the first bytes of the usual answer, at most all but the last one, and closes.
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

    /// Waits before it acts.
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

    /// Sets a field of the answer, for example `code` as another number type, or `baseBackoffMS`.
    #[must_use]
    pub fn with(mut self, field: &str, value: impl Into<Bson>) -> Self {
        if let Some(document) = self.document() {
            document.insert(field, value);
        }
        self
    }

    /// Takes a field out of the answer.
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

/// The steps a node has still to take. Clones share them.
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
    /// Takes `step` at the next command of this name; `hello` means `isMaster` too.
    pub fn on(&self, command: &str, step: Step) -> &Self {
        self.push(Wanted::Named(canonical(command).to_owned()), step)
    }

    /// Takes `step` at the next command that is no handshake and no housekeeping.
    pub fn next(&self, step: Step) -> &Self {
        self.push(Wanted::Data, step)
    }

    /// Takes `step` at the next command of which `predicate` is true.
    pub fn when<F>(&self, predicate: F, step: Step) -> &Self
    where
        F: Fn(&SeenCommand) -> bool + Send + Sync + 'static,
    {
        self.push(Wanted::When(Arc::new(predicate)), step)
    }

    /// Asks `handler` about every command for which no step is waiting.
    pub fn handler<F>(&self, handler: F) -> &Self
    where
        F: Fn(&SeenCommand) -> Option<Step> + Send + Sync + 'static,
    {
        lock(&self.queue).handler = Some(Arc::new(handler));
        self
    }

    /// Forgets all steps and the handler.
    pub fn clear(&self) {
        *lock(&self.queue) = Queue::default();
    }

    /// How many steps were not taken yet.
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
        // The handler may want to look at the script itself.
        drop(queue);
        handler.and_then(|handler| handler(command))
    }
}

/// One name for the commands that have two.
pub(super) fn canonical(command: &str) -> &str {
    match command {
        "isMaster" | "ismaster" => "hello",
        "mapreduce" => "mapReduce",
        other => other,
    }
}
