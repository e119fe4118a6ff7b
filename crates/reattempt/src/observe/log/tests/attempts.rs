//! The events of single attempts.

use super::*;
use crate::observe::LogObserver;
use crate::{AttemptKind, AttemptOutcome, AttemptRecord, CallContext, Observer, StopReason, clock};

#[test]
fn an_attempt_that_is_cut_off_is_logged_at_debug() {
    let (heard, _guard) = hears::<All>();
    let context = CallContext::default();
    let mut record = AttemptRecord::new(2, AttemptKind::Hedge, AttemptOutcome::Cancelled);
    record.stopped = Some(StopReason::NotReplayable);
    LogObserver.attempt_settled(&context, &record);
    assert_eq!(*heard.0.lock().unwrap(), [], "it was dropped");

    record.ended = Some(clock::now());
    LogObserver.attempt_settled(&context, &record);
    let heard = heard.0.lock().unwrap();
    let [(level, target, said)] = &heard[..] else {
        panic!("one event, not {heard:?}");
    };
    assert_eq!((*level, target.as_str()), (Level::DEBUG, "reattempt"));
    for part in ["attempt=2 ", "stopped=\"not_replayable\" ", "was cut off"] {
        assert!(said.contains(part), "{said}");
    }
}
