//! Counts of calls and attempts, as an observer of the recovery layers.

use std::sync::Arc;

use super::meter::{Counter, Label, LabelValue, Meter};
use super::table::Table;
use super::throttles::Throttles;
use super::{ATTEMPTS, HEALTH, HEDGES, Metrics, RESPONSES, STOPPED, THROTTLE};
use crate::failure::reason::UNKNOWN;
use crate::policy::health::{HealthCause, HealthChange, HealthEvent};
use crate::{
    AttemptKind, AttemptOutcome, AttemptRecord, CallContext, Failure, Observer, RetryInfo,
    RetryReason, Stage, StopReason,
};

/// At most this many sets of labels of [`ATTEMPTS`]; further reasons count as `UNKNOWN`.
const MOST_ATTEMPT_LABELS: usize = 500;
/// At most this many reasons of [`RESPONSES`]; further ones count as `UNKNOWN`.
const MOST_RESPONSE_LABELS: usize = 100;

/// What an attempt is counted as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Ended {
    kind: AttemptKind,
    outcome: AttemptOutcome,
    failure: Option<(RetryReason, Stage)>,
}

impl Ended {
    fn labels(&self) -> Vec<Label> {
        let mut labels = vec![
            ("kind", LabelValue::Static(self.kind.name())),
            ("outcome", LabelValue::Static(self.outcome.name())),
        ];
        if let Some((reason, stage)) = self.failure {
            labels.push(("reason", LabelValue::Static(reason.name())));
            labels.push(("stage", LabelValue::Static(stage.name())));
        }
        labels
    }
}

/// The counters of calls and attempts.
pub(super) struct Calls {
    /// Of the table, first attempts that succeeded or committed: most of them.
    first: [Arc<dyn Counter>; 2],
    attempts: Table<Ended, Arc<dyn Counter>>,
    /// By [`StopReason::to_byte`].
    stopped: [Arc<dyn Counter>; StopReason::ALL.len()],
    /// Won, lost, refused.
    hedges: [Arc<dyn Counter>; 3],
    throttles: Throttles,
    /// By the reason of the failure, or why the client gave up the response.
    responses: Table<&'static str, Arc<dyn Counter>>,
    health: Table<(HealthChange, HealthCause), Arc<dyn Counter>>,
}

impl Calls {
    pub(super) fn new(meter: &dyn Meter) -> Self {
        let labelled = |key, name| [(key, LabelValue::Static(name))];
        // What is known in advance begins at zero, so that a rate sees the first of it.
        let attempts = Table::new(MOST_ATTEMPT_LABELS);
        let count = |kind, outcome| {
            let ended = Ended {
                kind,
                outcome,
                failure: None,
            };
            attempts.get(&ended, || ended, attempt_counter(meter))
        };
        use AttemptKind::{Hedge, Initial, Retry, Transparent};
        use AttemptOutcome::{Cancelled, Committed, Success};
        for kind in [Initial, Retry, Hedge, Transparent] {
            for outcome in [Success, Committed, Cancelled] {
                count(kind, outcome);
            }
        }
        let responses = Table::new(MOST_RESPONSE_LABELS);
        for stopped in [StopReason::Deadline, StopReason::Fatal] {
            responses.get(&stopped.name(), || UNKNOWN.name(), response_counter(meter));
        }
        let health = Table::new(HealthChange::ALL.len() * HealthCause::ALL.len());
        for kind in health_kinds() {
            health.get(&kind, || kind, health_counter(meter));
        }
        Self {
            first: [Success, Committed].map(|outcome| count(Initial, outcome)),
            attempts,
            stopped: std::array::from_fn(|at| {
                let name = StopReason::ALL[at].name();
                meter.counter(&STOPPED, &labelled("reason", name))
            }),
            hedges: ["won", "lost", "refused"]
                .map(|result| meter.counter(&HEDGES, &labelled("result", result))),
            responses,
            health,
            throttles: Throttles::new(meter.gauge(&THROTTLE, &[])),
        }
    }
}

impl Metrics {
    /// A call ended.
    fn over(&self, stopped: StopReason) {
        let calls = &self.0.calls;
        calls.stopped[usize::from(stopped.to_byte() - 1)].increment();
        calls.throttles.call_ended();
    }

    #[cold]
    fn ended(&self, context: &CallContext, record: &AttemptRecord) {
        let calls = &self.0.calls;
        let failure = record
            .failure
            .filter(|_| record.outcome != AttemptOutcome::Cancelled);
        let ended = Ended {
            kind: record.kind,
            outcome: match record.outcome {
                // Both are `failed`.
                AttemptOutcome::Fatal => AttemptOutcome::Retry,
                outcome => outcome,
            },
            failure: failure.map(|failure| (failure.reason, failure.stage)),
        };
        let other = || Ended {
            failure: ended.failure.map(|(_, stage)| (UNKNOWN, stage)),
            ..ended
        };
        let make = attempt_counter(&*self.0.meter);
        calls.attempts.get(&ended, other, make).increment();
        if record.kind == AttemptKind::Hedge {
            let won = match record.outcome {
                AttemptOutcome::Success | AttemptOutcome::Committed => true,
                // The server's final answer, such as "not found", is the call's.
                AttemptOutcome::Fatal => {
                    record.stopped.is_some() && failure.is_some_and(|failure| failure.is_answer())
                }
                _ => false,
            };
            calls.hedges[usize::from(!won)].increment();
        }
        if failure.is_some() {
            calls.throttles.used(context);
        }
    }
}

/// Counts calls and attempts. A call that succeeds at once adds to two counters.
impl Observer for Metrics {
    fn sees_sent(&self) -> bool {
        false
    }

    fn first_succeeded(&self, _: &CallContext, committed: bool) {
        self.0.calls.first[usize::from(committed)].increment();
        self.over(if committed {
            StopReason::Committed
        } else {
            StopReason::Success
        });
    }

    fn attempt_settled(&self, context: &CallContext, record: &AttemptRecord) {
        self.ended(context, record);
    }

    fn call_ended(&self, _: &CallContext, info: &RetryInfo) {
        if let Some(stopped) = info.stopped() {
            self.over(stopped);
        }
    }

    fn hedge_refused(&self, context: &CallContext, _: StopReason) {
        let calls = &self.0.calls;
        calls.hedges[2].increment();
        // What refuses is in use.
        calls.throttles.used(context);
    }

    fn sees_response(&self) -> bool {
        true
    }

    fn response_failed(
        &self,
        context: &CallContext,
        stopped: StopReason,
        failure: Option<&Failure>,
    ) {
        let reason = failure.map_or(stopped.name(), |failure| failure.reason.name());
        let (calls, make) = (&self.0.calls, response_counter(&*self.0.meter));
        let counter = calls.responses.get(&reason, || UNKNOWN.name(), make);
        counter.increment();
        if failure.is_some() {
            calls.throttles.used(context);
        }
    }

    fn health_changed(&self, event: &HealthEvent) {
        let kind = (event.change, event.cause);
        let make = health_counter(&*self.0.meter);
        self.0.calls.health.get(&kind, || kind, make).increment();
    }
}

fn attempt_counter(meter: &dyn Meter) -> impl Fn(&Ended) -> Arc<dyn Counter> + '_ {
    |ended| meter.counter(&ATTEMPTS, &ended.labels())
}

fn response_counter(meter: &dyn Meter) -> impl Fn(&&'static str) -> Arc<dyn Counter> + '_ {
    |reason| meter.counter(&RESPONSES, &[("reason", LabelValue::Static(reason))])
}

type HealthKind = (HealthChange, HealthCause);

fn health_counter(meter: &dyn Meter) -> impl Fn(&HealthKind) -> Arc<dyn Counter> + '_ {
    |(change, cause)| {
        let change = ("change", LabelValue::Static(change.name()));
        let cause = ("cause", LabelValue::Static(cause.name()));
        meter.counter(&HEALTH, &[change, cause])
    }
}

/// The changes of health, each with the causes that it may have.
fn health_kinds() -> impl Iterator<Item = HealthKind> {
    use HealthCause::{Answered, ByHand, FailedTrial, FailurePercentage, FailuresInARow};
    use HealthCause::{FewerAllowed, SuccessRate, Time};
    let of = |change| -> &[HealthCause] {
        match change {
            HealthChange::Ejected => &[FailuresInARow, SuccessRate, FailurePercentage],
            HealthChange::Opened => &[FailuresInARow, FailurePercentage, FailedTrial, ByHand],
            HealthChange::Returned => &[Time, Answered, FewerAllowed],
            HealthChange::Closed => &[Answered, ByHand],
        }
    };
    let changes = HealthChange::ALL.iter().copied();
    changes.flat_map(move |change| of(change).iter().map(move |cause| (change, *cause)))
}
