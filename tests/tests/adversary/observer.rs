//! Logs what an observer receives.

use std::sync::Arc;

use reattempt::{AttemptRecord, CallContext, Observer, RetryInfo, StopReason};

use crate::log::{Event, Observed};
use crate::world::World;

#[derive(Debug)]
pub(crate) struct Watcher(pub(crate) Arc<World>);

impl Watcher {
    fn note(&self, observed: Observed) {
        self.0.note(Event::Observed(observed));
    }
}

impl Observer for Watcher {
    fn attempt_sent(&self, context: &CallContext) {
        self.note(Observed::Sent(context.attempt(), context.kind()));
    }

    fn attempt_settled(&self, _: &CallContext, record: &AttemptRecord) {
        self.note(Observed::Settled(record.clone()));
    }

    fn hedge_refused(&self, _: &CallContext, stopped: StopReason) {
        self.note(Observed::Refused(stopped));
    }

    fn call_ended(&self, _: &CallContext, info: &RetryInfo) {
        self.note(Observed::Ended(info.clone()));
    }
}
