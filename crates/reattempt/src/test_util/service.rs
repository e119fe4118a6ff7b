//! The scripted service itself.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use crate::{AttemptReporter, Call, HasCallContext};
use tokio::time::Sleep;
use tower_service::Service;

use super::log::{Log, Note};
use super::script::{Readiness, Step};
use super::{Answer, Fault};

/// The request's payload; counts its clones.
#[derive(Debug)]
pub struct Payload(Arc<Log>);

impl Clone for Payload {
    fn clone(&self) -> Self {
        self.0.request_cloned();
        Self(Arc::clone(&self.0))
    }
}

/// A delay that arms no timer if it is zero, and never ends if it is `None`.
#[derive(Debug)]
enum Wait {
    Over,
    Forever,
    Until(Pin<Box<Sleep>>),
}

impl Wait {
    fn of(delay: Option<Duration>) -> Self {
        match delay {
            None => Self::Forever,
            Some(Duration::ZERO) => Self::Over,
            Some(delay) => Self::Until(Box::pin(tokio::time::sleep(delay))),
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self {
            Self::Over => Poll::Ready(()),
            Self::Forever => Poll::Pending,
            Self::Until(sleep) => sleep.as_mut().poll(cx),
        }
    }
}

#[derive(Debug)]
enum State {
    Idle,
    GettingReady(Readiness, Wait),
    Ready(u64),
}

/// The scripted service. Accepts any request type that carries a context.
#[derive(Debug)]
pub struct Probe {
    log: Arc<Log>,
    steps: Arc<Mutex<Vec<Step>>>,
    readiness: Arc<[Readiness]>,
    state: State,
}

/// A service with these steps.
#[must_use]
pub fn probe(steps: impl IntoIterator<Item = Step>) -> Probe {
    Probe {
        log: Log::new(),
        steps: Arc::new(Mutex::new(steps.into_iter().collect())),
        readiness: Arc::new([]),
        state: State::Idle,
    }
}

impl Probe {
    /// Sets the script of its readiness.
    #[must_use]
    pub fn ready(mut self, readiness: impl IntoIterator<Item = Readiness>) -> Self {
        self.readiness = readiness.into_iter().collect();
        self
    }

    /// What it observed.
    #[must_use]
    pub fn log(&self) -> Arc<Log> {
        Arc::clone(&self.log)
    }

    /// A request whose clones are counted.
    #[must_use]
    pub fn request(&self) -> Call<Payload> {
        Call::new(Payload(Arc::clone(&self.log)))
    }

    /// An instance for the bottom of a stack, not counted as a clone.
    #[must_use]
    pub fn inner(&self) -> Self {
        Self {
            log: Arc::clone(&self.log),
            steps: Arc::clone(&self.steps),
            readiness: Arc::clone(&self.readiness),
            state: State::Idle,
        }
    }
}

impl Clone for Probe {
    fn clone(&self) -> Self {
        self.log.service_cloned();
        self.inner()
    }
}

impl<Req: HasCallContext> Service<Req> for Probe {
    type Response = Answer;
    type Error = Fault;
    type Future = ProbeFuture;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        if let State::Idle = self.state {
            let nth = self.log.getting_ready();
            let said = self.readiness.iter().find(|said| said.nth == nth);
            let said = said.copied().unwrap_or(super::readiness(nth));
            self.state = State::GettingReady(said, Wait::of(said.after));
        }
        if let State::GettingReady(said, wait) = &mut self.state {
            ready!(wait.poll(cx));
            if said.breaks {
                return Poll::Ready(Err(Fault::Broken));
            }
            self.state = State::Ready(self.log.now());
        }
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Req) -> ProbeFuture {
        // Before it is cloned: without a recovery layer the clone is another call.
        let reporter = request.context_mut().reporter();
        let context = request.context_mut().clone();
        let (said, claimed) = (reporter.attempt(), context.is_claimed());
        let number = self.log.called(context);
        match std::mem::replace(&mut self.state, State::Idle) {
            State::Ready(since) => assert_eq!(
                since,
                self.log.now(),
                "attempt {number} held its readiness during a delay"
            ),
            state => panic!("attempt {number} was sent to an instance that was {state:?}"),
        }
        assert!(
            said == number || !claimed,
            "the context of attempt {number} has the number {said}"
        );
        let mut steps = self.steps.lock().unwrap_or_else(PoisonError::into_inner);
        let at = steps.iter().position(|step| step.number == number);
        let at = at.unwrap_or_else(|| panic!("attempt {number} is not in the script: {steps:?}"));
        let step = steps.swap_remove(at);
        step.report_sent(&reporter);
        ProbeFuture {
            wait: Wait::of(step.after),
            step,
            reporter,
            log: Arc::clone(&self.log),
            ended: false,
        }
    }
}

/// The future of a [`Probe`].
#[derive(Debug)]
pub struct ProbeFuture {
    log: Arc<Log>,
    step: Step,
    wait: Wait,
    reporter: AttemptReporter,
    ended: bool,
}

impl Future for ProbeFuture {
    type Output = Result<Answer, Fault>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let number = self.step.number;
        assert!(
            !self.ended,
            "attempt {number} was polled after it had ended"
        );
        ready!(self.wait.poll(cx));
        self.ended = true;
        let this = &mut *self;
        this.step.report_ended(&this.reporter);
        let answer = Answer {
            attempt: number,
            verdict: self.step.verdict,
            _note: Note {
                log: Arc::clone(&self.log),
                attempt: number,
            },
        };
        Poll::Ready(if self.step.as_answer {
            Ok(answer)
        } else {
            Err(Fault::Server(answer))
        })
    }
}

impl Drop for ProbeFuture {
    fn drop(&mut self) {
        self.log.future_gone(self.step.number, self.ended);
    }
}
