//! What a scripted node does with one request.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;

use reattempt_couchbase::kv::{Opcode, Status};

use super::session::is_bootstrap;
use crate::lock::lock;

/// What the node does with one request. The default executes it and responds.
#[derive(Clone, Debug)]
pub struct Step {
    pub(super) answer: Answer,
    pub(super) delivery: Delivery,
    pub(super) delay: Duration,
    pub(super) server_duration: Option<Duration>,
    pub(super) throttle_duration: Option<Duration>,
    pub(super) only: Option<Opcode>,
}

/// The source of the response.
#[derive(Clone, Debug)]
pub(super) enum Answer {
    /// Execute the request.
    Execute,
    /// Do not execute; respond with this.
    Status {
        status: Status,
        body: Bytes,
        datatype: u8,
        extras: Bytes,
    },
    /// Do not execute; respond with 0x07 and the configuration.
    NotMyVbucket,
    /// Do not execute; write these bytes.
    Raw(Bytes),
    /// Do not execute or respond.
    Nothing,
}

/// How the response is delivered.
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

    /// Executes the request and responds.
    pub fn execute() -> Self {
        Self::new(Answer::Execute, Delivery::Plain)
    }

    /// Responds with a status without executing the request.
    pub fn status(status: Status) -> Self {
        let answer = Answer::Status {
            status,
            body: Bytes::new(),
            datatype: 0,
            extras: Bytes::new(),
        };
        Self::new(answer, Delivery::Plain)
    }

    /// Responds that another node owns the vbucket, with the current configuration as body. For an
    /// empty body use `status(Status::NOT_MY_VBUCKET)`.
    pub fn not_my_vbucket() -> Self {
        Self::new(Answer::NotMyVbucket, Delivery::Plain)
    }

    /// Writes these bytes instead of a response.
    pub fn raw(bytes: impl Into<Bytes>) -> Self {
        Self::new(Answer::Raw(bytes.into()), Delivery::Plain)
    }

    /// Neither executes the request nor responds.
    pub fn hang() -> Self {
        Self::new(Answer::Nothing, Delivery::Plain)
    }

    /// Closes the connection without executing the request or responding.
    pub fn close_before() -> Self {
        Self::new(Answer::Nothing, Delivery::CloseBefore)
    }

    /// Executes the request and closes the connection without a response.
    pub fn lost_answer() -> Self {
        Self::new(Answer::Execute, Delivery::CloseBefore)
    }

    /// Executes the request, responds, and closes the connection.
    pub fn close_after() -> Self {
        Self::new(Answer::Execute, Delivery::CloseAfter)
    }

    /// Resets the connection without executing the request.
    pub fn reset() -> Self {
        Self::new(Answer::Nothing, Delivery::Reset)
    }

    /// Executes the request, writes half of the response, and closes the connection.
    pub fn half_frame() -> Self {
        Self::new(Answer::Execute, Delivery::HalfFrame)
    }

    /// Executes the request and holds the response until the next one on this connection was sent.
    pub fn out_of_order() -> Self {
        Self::new(Answer::Execute, Delivery::OutOfOrder)
    }

    /// Executes the request and responds with an unknown opaque; the correct response never
    /// follows.
    pub fn wrong_opaque() -> Self {
        Self::new(Answer::Execute, Delivery::WrongOpaque)
    }

    /// Writes a response with an unknown opaque, then the correct response.
    pub fn stray_first() -> Self {
        Self::new(Answer::Execute, Delivery::StrayFirst)
    }

    /// Executes the request and writes the response with an invalid magic byte.
    pub fn bad_magic() -> Self {
        Self::new(Answer::Execute, Delivery::BadMagic)
    }

    /// Executes the request and writes a response whose header states a body of 4 GiB.
    pub fn absurd_length() -> Self {
        Self::new(Answer::Execute, Delivery::AbsurdLength)
    }

    /// Sets the body of a `status` response.
    pub fn body(mut self, bytes: impl Into<Bytes>) -> Self {
        if let Answer::Status { body, .. } = &mut self.answer {
            *body = bytes.into();
        }
        self
    }

    /// Sets the extras of a `status` response.
    pub fn extras(mut self, bytes: impl Into<Bytes>) -> Self {
        if let Answer::Status { extras, .. } = &mut self.answer {
            *extras = bytes.into();
        }
        self
    }

    /// Sets the datatype bits of a `status` response.
    pub fn datatype(mut self, bits: u8) -> Self {
        if let Answer::Status { datatype, .. } = &mut self.answer {
            *datatype = bits;
        }
        self
    }

    /// Waits before the response or the close. The request is executed when it arrives, and later
    /// requests on the connection do not wait.
    pub fn after(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Adds a framing extra with the server duration.
    pub fn server_duration(mut self, duration: Duration) -> Self {
        self.server_duration = Some(duration);
        self
    }

    /// Adds a framing extra with the throttle duration.
    pub fn throttle_duration(mut self, duration: Duration) -> Self {
        self.throttle_duration = Some(duration);
        self
    }

    /// Closes the connection after the response.
    pub fn then_close(mut self) -> Self {
        self.delivery = Delivery::CloseAfter;
        self
    }

    /// Reserves the step for the next request with this opcode, including bootstrap requests.
    pub fn only(mut self, opcode: Opcode) -> Self {
        self.only = Some(opcode);
        self
    }

    fn takes(&self, op: Opcode) -> bool {
        match self.only {
            Some(only) => only == op,
            None => !is_bootstrap(op),
        }
    }
}

impl Default for Step {
    fn default() -> Self {
        Self::execute()
    }
}

/// The remaining steps, used in order. Clones share the queue.
///
/// A data request uses the first step that is not reserved for another opcode; bootstrap requests
/// use only steps made with [`Step::only`]. Without a step the node executes the request.
#[derive(Clone, Debug, Default)]
pub struct Script(Arc<Mutex<VecDeque<Step>>>);

impl Script {
    /// Creates a script of these steps.
    pub fn new(steps: impl IntoIterator<Item = Step>) -> Self {
        Self(Arc::new(Mutex::new(steps.into_iter().collect())))
    }

    /// Creates a script that responds with `statuses` in order.
    pub fn statuses(statuses: impl IntoIterator<Item = Status>) -> Self {
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

    /// Removes the remaining steps.
    pub fn clear(&self) {
        self.steps().clear();
    }

    /// The number of remaining steps.
    pub fn remaining(&self) -> usize {
        self.steps().len()
    }

    pub(super) fn take(&self, op: Opcode) -> Option<Step> {
        let mut steps = self.steps();
        let at = steps.iter().position(|step| step.takes(op))?;
        steps.remove(at)
    }

    fn steps(&self) -> std::sync::MutexGuard<'_, VecDeque<Step>> {
        lock(&self.0)
    }
}
