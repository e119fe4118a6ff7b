//! What a scripted node does with one request.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;

use crate::kv::{opcode, status};

/// What the node does with one request. The default is to carry it out and answer.
#[derive(Clone, Debug)]
pub struct Step {
    pub(super) answer: Answer,
    pub(super) delivery: Delivery,
    pub(super) delay: Duration,
    pub(super) server_duration: Option<Duration>,
    pub(super) throttle_duration: Option<Duration>,
    pub(super) only: Option<u8>,
}

/// Where the answer comes from.
#[derive(Clone, Debug)]
pub(super) enum Answer {
    /// Carry the request out.
    Execute,
    /// Do nothing, say this.
    Status {
        status: u16,
        body: Bytes,
        datatype: u8,
        extras: Bytes,
    },
    /// Do nothing, say that another node owns the vbucket, with the configuration.
    NotMyVbucket,
    /// Do nothing, write these bytes.
    Raw(Bytes),
    /// Do nothing, say nothing.
    Nothing,
}

/// How the answer reaches the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Delivery {
    Plain,
    CloseBefore,
    CloseAfter,
    Reset,
    HalfFrame,
    OutOfOrder,
    WrongOpaque,
    StrayFirst,
    BadMagic,
    AbsurdLength,
}

impl Step {
    fn new(answer: Answer, delivery: Delivery) -> Self {
        Self {
            answer,
            delivery,
            delay: Duration::ZERO,
            server_duration: None,
            throttle_duration: None,
            only: None,
        }
    }

    /// Carries the request out and answers.
    pub fn execute() -> Self {
        Self::new(Answer::Execute, Delivery::Plain)
    }

    /// Answers with a status and does nothing else.
    pub fn status(status: u16) -> Self {
        let answer = Answer::Status {
            status,
            body: Bytes::new(),
            datatype: 0,
            extras: Bytes::new(),
        };
        Self::new(answer, Delivery::Plain)
    }

    /// Answers that another node owns the vbucket, with the configuration in force as body.
    /// For an empty body use `status(0x07)`.
    pub fn not_my_vbucket() -> Self {
        Self::new(Answer::NotMyVbucket, Delivery::Plain)
    }

    /// Writes these bytes instead of an answer.
    pub fn raw(bytes: impl Into<Bytes>) -> Self {
        Self::new(Answer::Raw(bytes.into()), Delivery::Plain)
    }

    /// Does not carry the request out and never answers.
    pub fn hang() -> Self {
        Self::new(Answer::Nothing, Delivery::Plain)
    }

    /// Does not carry the request out and closes the connection without an answer.
    pub fn close_before() -> Self {
        Self::new(Answer::Nothing, Delivery::CloseBefore)
    }

    /// Carries the request out and closes the connection without an answer: the client cannot know.
    pub fn lost_answer() -> Self {
        Self::new(Answer::Execute, Delivery::CloseBefore)
    }

    /// Carries the request out, answers, and closes the connection.
    pub fn close_after() -> Self {
        Self::new(Answer::Execute, Delivery::CloseAfter)
    }

    /// Does not carry the request out and resets the connection.
    pub fn reset() -> Self {
        Self::new(Answer::Nothing, Delivery::Reset)
    }

    /// Carries the request out, writes half of the answer, and closes the connection.
    pub fn half_frame() -> Self {
        Self::new(Answer::Execute, Delivery::HalfFrame)
    }

    /// Carries the request out and holds the answer until the next one of this connection went out.
    pub fn out_of_order() -> Self {
        Self::new(Answer::Execute, Delivery::OutOfOrder)
    }

    /// Carries the request out and answers with an opaque that nobody asked with; the right answer
    /// never comes.
    pub fn wrong_opaque() -> Self {
        Self::new(Answer::Execute, Delivery::WrongOpaque)
    }

    /// Writes an answer with an opaque that nobody asked with, then the right answer.
    pub fn stray_first() -> Self {
        Self::new(Answer::Execute, Delivery::StrayFirst)
    }

    /// Carries the request out and writes the answer with a first byte that is no magic.
    pub fn bad_magic() -> Self {
        Self::new(Answer::Execute, Delivery::BadMagic)
    }

    /// Carries the request out and writes an answer whose header announces a body of 4 GiB.
    pub fn absurd_length() -> Self {
        Self::new(Answer::Execute, Delivery::AbsurdLength)
    }

    /// The body of a `status` answer.
    pub fn body(mut self, bytes: impl Into<Bytes>) -> Self {
        if let Answer::Status { body, .. } = &mut self.answer {
            *body = bytes.into();
        }
        self
    }

    /// The extras of a `status` answer.
    pub fn extras(mut self, bytes: impl Into<Bytes>) -> Self {
        if let Answer::Status { extras, .. } = &mut self.answer {
            *extras = bytes.into();
        }
        self
    }

    /// The datatype bits of a `status` answer.
    pub fn datatype(mut self, bits: u8) -> Self {
        if let Answer::Status { datatype, .. } = &mut self.answer {
            *datatype = bits;
        }
        self
    }

    /// Waits before the answer (or the close). The request itself is carried out when it arrives,
    /// and later requests of the connection do not wait.
    pub fn after(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Says in a framing extra how long the server took.
    pub fn server_duration(mut self, duration: Duration) -> Self {
        self.server_duration = Some(duration);
        self
    }

    /// Says in a framing extra how long to stay away.
    pub fn throttle_duration(mut self, duration: Duration) -> Self {
        self.throttle_duration = Some(duration);
        self
    }

    /// Closes the connection after the answer, whatever it is.
    pub fn then_close(mut self) -> Self {
        self.delivery = Delivery::CloseAfter;
        self
    }

    /// Keeps the step for the next request with this opcode, bootstrap ones included.
    pub fn only(mut self, opcode: u8) -> Self {
        self.only = Some(opcode);
        self
    }

    fn takes(&self, op: u8) -> bool {
        match self.only {
            Some(only) => only == op,
            None => !opcode::is_bootstrap(op),
        }
    }
}

impl Default for Step {
    fn default() -> Self {
        Self::execute()
    }
}

/// The steps that wait for requests, first come first served. Clones share the queue.
///
/// A data request takes the first step that is not kept for another opcode; bootstrap requests only
/// take steps made with [`Step::only`]. With no step left the node carries requests out.
#[derive(Clone, Debug, Default)]
pub struct Script(Arc<Mutex<VecDeque<Step>>>);

impl Script {
    /// A script of these steps.
    pub fn new(steps: impl IntoIterator<Item = Step>) -> Self {
        Self(Arc::new(Mutex::new(steps.into_iter().collect())))
    }

    /// A script that answers `statuses` one after another.
    pub fn statuses(statuses: impl IntoIterator<Item = u16>) -> Self {
        Self::new(statuses.into_iter().map(Step::status))
    }

    /// Adds a step at the end.
    pub fn push(&self, step: Step) {
        self.steps().push_back(step);
    }

    /// Adds the same step `count` times.
    pub fn repeat(&self, step: &Step, count: usize) {
        self.steps()
            .extend(std::iter::repeat_n(step, count).cloned());
    }

    /// Forgets what is left.
    pub fn clear(&self) {
        self.steps().clear();
    }

    /// How many steps are left.
    pub fn remaining(&self) -> usize {
        self.steps().len()
    }

    pub(super) fn take(&self, op: u8) -> Option<Step> {
        let mut steps = self.steps();
        let at = steps.iter().position(|step| step.takes(op))?;
        steps.remove(at)
    }

    fn steps(&self) -> std::sync::MutexGuard<'_, VecDeque<Step>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What an operation of the node came to, before it is a frame.
#[derive(Clone, Debug, Default)]
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) extras: Bytes,
    pub(super) key: Bytes,
    pub(super) value: Bytes,
    pub(super) cas: u64,
    pub(super) datatype: u8,
}

impl Reply {
    pub(super) fn status(status: u16) -> Self {
        Self {
            status,
            ..Self::default()
        }
    }

    pub(super) fn ok() -> Self {
        Self::status(status::SUCCESS)
    }

    pub(super) fn value(value: impl Into<Bytes>) -> Self {
        Self {
            value: value.into(),
            ..Self::default()
        }
    }
}
