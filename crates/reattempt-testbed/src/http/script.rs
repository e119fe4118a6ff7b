//! What a server does with each call.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

type Handler<Seen, Step> = Arc<dyn Fn(&Seen) -> Step + Send + Sync>;

/// A queue of steps, one per call in order of arrival, and a fallback for when it is empty.
///
/// By default an empty queue answers with the default step of the protocol: success with an empty
/// body.
pub struct Script<Seen, Step> {
    queue: VecDeque<Step>,
    otherwise: Otherwise<Seen, Step>,
}

enum Otherwise<Seen, Step> {
    Step(Step),
    Handler(Handler<Seen, Step>),
}

/// The result of [`Script::next`] for a call.
pub(crate) enum Next<Seen, Step> {
    Step(Step),
    /// The step depends on the content of the call.
    Ask(Handler<Seen, Step>),
}

impl<Seen, Step: Clone + Default> Script<Seen, Step> {
    /// Creates an empty queue.
    #[must_use]
    pub fn new() -> Self {
        Self {
            queue: VecDeque::new(),
            otherwise: Otherwise::Step(Step::default()),
        }
    }

    /// Creates a script that calls `handler` for every call.
    #[must_use]
    pub fn handler(handler: impl Fn(&Seen) -> Step + Send + Sync + 'static) -> Self {
        Self::new().otherwise_with(handler)
    }

    /// Adds one step to the end of the queue.
    #[must_use]
    pub fn then(mut self, step: Step) -> Self {
        self.queue.push_back(step);
        self
    }

    /// Adds the same step `times` times to the end of the queue.
    #[must_use]
    pub fn then_times(mut self, times: usize, step: Step) -> Self {
        self.queue.extend(std::iter::repeat_n(step, times));
        self
    }

    /// Sets the step for every call after the queue is empty.
    #[must_use]
    pub fn otherwise(mut self, step: Step) -> Self {
        self.otherwise = Otherwise::Step(step);
        self
    }

    /// Sets the handler for every call after the queue is empty.
    #[must_use]
    pub fn otherwise_with(
        mut self,
        handler: impl Fn(&Seen) -> Step + Send + Sync + 'static,
    ) -> Self {
        self.otherwise = Otherwise::Handler(Arc::new(handler));
        self
    }

    pub(crate) fn next(&mut self) -> Next<Seen, Step> {
        match (self.queue.pop_front(), &self.otherwise) {
            (Some(step), _) => Next::Step(step),
            (None, Otherwise::Step(step)) => Next::Step(step.clone()),
            (None, Otherwise::Handler(handler)) => Next::Ask(Arc::clone(handler)),
        }
    }
}

impl<Seen, Step: Clone + Default> Default for Script<Seen, Step> {
    fn default() -> Self {
        Self::new()
    }
}

impl<Seen, Step: fmt::Debug> fmt::Debug for Script<Seen, Step> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let otherwise: &dyn fmt::Debug = match &self.otherwise {
            Otherwise::Step(step) => step,
            Otherwise::Handler(_) => &"a handler",
        };
        f.debug_struct("Script")
            .field("queue", &self.queue)
            .field("otherwise", otherwise)
            .finish()
    }
}
