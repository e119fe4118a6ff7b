//! Which stage counts: the classifier's or the reported one (RFC 0049, Introduction).

use super::model::attempts;
use super::script::every_attempt_from;
use super::simulator::call;
use crate::failure::reason::{KV_TEMPORARY_FAILURE, UNKNOWN};
use crate::{Stage, StopReason};

/// A late report by a transport does not make a write safe to repeat.
#[test]
fn a_servers_answer_is_final_whatever_was_reported_before_it() {
    for stage in [Stage::Dispatch, Stage::InFlight] {
        let script = [every_attempt_from(1).fails(UNKNOWN).found_at(stage)];
        let story = call().not_idempotent().retried(attempts(3), &script);
        assert_eq!(story.info.stopped(), Some(StopReason::NotIdempotent));
        let record = story.info.records().next().unwrap();
        assert_eq!(record.failure.unwrap().stage, Stage::Response);
    }
}

/// The local response of an attempt timeout or of load shedding has the stage that the attempt
/// reached.
#[test]
fn an_answer_of_this_side_is_in_the_stage_that_was_reported() {
    let own = || {
        every_attempt_from(1)
            .fails(KV_TEMPORARY_FAILURE)
            .answered_here()
    };
    let stage = |line| {
        let story = call().retried(attempts(1), &[line]);
        story.info.records().next().unwrap().failure.unwrap().stage
    };
    assert_eq!(stage(own()), Stage::InFlight, "nothing was reported");
    assert_eq!(stage(own().found_at(Stage::Dispatch)), Stage::Dispatch);
    assert_eq!(stage(own().found_at(Stage::Response)), Stage::Response);

    let write = |line| call().not_idempotent().retried(attempts(3), &[line]);
    let shed = every_attempt_from(1).fails(UNKNOWN).answered_here();
    let story = write(shed.clone().found_at(Stage::Dispatch));
    assert_eq!(story.sent.len(), 3, "it never left the client");
    assert_eq!(write(shed).sent.len(), 1, "it may have been carried out");
}
