use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use super::trial::Trial;
use crate::health::Outcome;
use crate::poll::polled_after_completion;
use crate::{CallContext, Classify, Stage, Verdict};

pin_project! {
    /// The future of [`Circuit`](super::Circuit).
    ///
    /// # Panics
    ///
    /// When it is polled after it returned the outcome.
    pub struct CircuitFuture<F, Res, Err, C> {
        #[pin]
        state: State<F, Res, Err, C>,
    }

    impl<F, Res, Err, C> PinnedDrop for CircuitFuture<F, Res, Err, C> {
        fn drop(this: Pin<&mut Self>) {
            if let StateProj::Sent { context: Some(context), trial, .. } =
                this.project().state.project()
            {
                if let Some(trial) = trial {
                    trial.ended(context.dropped());
                }
                // As below: a layer may give this step up, and send the attempt on.
                if context.report().stage.is_none() {
                    context.reporter().stage(Stage::InFlight);
                }
            }
        }
    }
}

pin_project! {
    #[project = StateProj]
    #[project_replace = StateOwned]
    enum State<F, Res, Err, C> {
        Sent { #[pin] future: F, trial: Option<Trial>, classifier: C, context: Option<CallContext> },
        Refused { outcome: Result<Res, Err> },
        Done,
    }
}

impl<F, Res, Err, C> CircuitFuture<F, Res, Err, C> {
    pub(super) const fn sent(
        future: F,
        trial: Option<Trial>,
        classifier: C,
        context: Option<CallContext>,
    ) -> Self {
        let state = State::Sent {
            future,
            trial,
            classifier,
            context,
        };
        Self { state }
    }

    pub(super) const fn refused(outcome: Result<Res, Err>) -> Self {
        let state = State::Refused { outcome };
        Self { state }
    }
}

impl<F, Res, Err, C> Future for CircuitFuture<F, Res, Err, C>
where
    F: Future<Output = Result<Res, Err>>,
    C: Classify<Res, Err>,
{
    type Output = Result<Res, Err>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        if let StateProj::Sent {
            future,
            trial,
            classifier,
            context,
        } = state.as_mut().project()
        {
            let outcome = ready!(future.poll(cx));
            let context = context.get_or_insert_default();
            let verdict = classifier.classify(outcome.as_ref(), context);
            let report = context.report();
            match trial {
                Some(trial) if report.own_answer && context.is_own_success(&verdict) => {
                    trial.ended(Outcome::Nothing);
                }
                // Another breaker, below, did not send it, and no earlier step was sent.
                Some(trial)
                    if report.circuit_open && !report.in_doubt && verdict.failure().is_some() =>
                {
                    trial.ended(Outcome::Nothing);
                }
                Some(trial) if report.followed && verdict == Verdict::Committed => {
                    trial.begun(context);
                }
                Some(trial) => trial.ended(Outcome::of(&verdict)),
                None => {}
            }
            let was_sent = verdict
                .failure()
                .is_none_or(|it| it.stage > Stage::Dispatch);
            if was_sent && report.stage.is_none() {
                // For a later step of the same attempt, which may be refused.
                context.reporter().stage(Stage::InFlight);
            }
            state.set(State::Done);
            return Poll::Ready(outcome);
        }
        match state.project_replace(State::Done) {
            StateOwned::Refused { outcome } => Poll::Ready(outcome),
            StateOwned::Sent { .. } | StateOwned::Done => polled_after_completion("CircuitFuture"),
        }
    }
}

impl<F, Res, Err, C> fmt::Debug for CircuitFuture<F, Res, Err, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CircuitFuture")
            .field("is_refused", &matches!(self.state, State::Refused { .. }))
            .finish_non_exhaustive()
    }
}
