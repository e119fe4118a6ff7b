//! What a server does with each call.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use super::server::Wire;

type Handler<P> = Arc<dyn Fn(&<P as Wire>::Seen) -> <P as Wire>::Step + Send + Sync>;

/// A queue of steps, one per call in order of arrival, and a fallback for when it is empty.
///
/// By default an empty queue answers with the default step of the protocol: success with an empty
/// body.
pub struct Script<P: Wire> {
    queue: VecDeque<P::Step>,
    otherwise: Otherwise<P>,
}

enum Otherwise<P: Wire> {
    Step(P::Step),
    Handler(Handler<P>),
}

/// The result of [`Script::next`] for a call.
pub(crate) enum Next<P: Wire> {
    Step(P::Step),
    /// The step depends on the content of the call.
    Ask(Handler<P>),
}

impl<P: Wire> Script<P> {
    /// Creates an empty queue.
    #[must_use]
    pub fn new() -> Self {
        Self {
            queue: VecDeque::new(),
            otherwise: Otherwise::Step(P::Step::default()),
        }
    }

    /// Creates a script that calls `handler` for every call.
    #[must_use]
    pub fn handler(handler: impl Fn(&P::Seen) -> P::Step + Send + Sync + 'static) -> Self {
        Self::new().otherwise_with(handler)
    }

    /// Adds one step to the end of the queue.
    #[must_use]
    pub fn then(mut self, step: P::Step) -> Self {
        self.queue.push_back(step);
        self
    }

    /// Adds the same step `times` times to the end of the queue.
    #[must_use]
    pub fn then_times(mut self, times: usize, step: P::Step) -> Self {
        self.queue.extend(std::iter::repeat_n(step, times));
        self
    }

    /// Sets the step for every call after the queue is empty.
    #[must_use]
    pub fn otherwise(mut self, step: P::Step) -> Self {
        self.otherwise = Otherwise::Step(step);
        self
    }

    /// Sets the handler for every call after the queue is empty.
    #[must_use]
    pub fn otherwise_with(
        mut self,
        handler: impl Fn(&P::Seen) -> P::Step + Send + Sync + 'static,
    ) -> Self {
        self.otherwise = Otherwise::Handler(Arc::new(handler));
        self
    }

    pub(crate) fn push(&mut self, step: P::Step) {
        self.queue.push_back(step);
    }

    pub(crate) fn set_otherwise_of(&mut self, other: Self) {
        self.otherwise = other.otherwise;
    }

    pub(crate) fn next(&mut self) -> Next<P> {
        match (self.queue.pop_front(), &self.otherwise) {
            (Some(step), _) => Next::Step(step),
            (None, Otherwise::Step(step)) => Next::Step(step.clone()),
            (None, Otherwise::Handler(handler)) => Next::Ask(Arc::clone(handler)),
        }
    }
}

impl<P: Wire> Default for Script<P> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: Wire> fmt::Debug for Script<P> {
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
