//! The rules of A6's hedging.

use std::sync::Arc;

use super::model::{Listed, bucket, hedges};
use super::script::{attempt, every_attempt_from, ms};
use super::simulator::{End, call};
use crate::AttemptKind::{self, Hedge, Initial, Retry};
use crate::failure::reason::{KV_LOCKED, KV_NOT_MY_VBUCKET, UNKNOWN};
use crate::policy::strategy::NeverRetry;
use crate::{
    AttemptOutcome, HedgePolicy, OnDeadline, RetryThrottle, Stage, StopReason,
    Transparent as Unseen, Verdict,
};

/// Four attempts, 200 ms apart.
fn four() -> HedgePolicy {
    hedges(4, 200)
}

/// R40
#[test]
fn the_first_goes_at_once_and_one_more_after_each_delay() {
    let silent = [every_attempt_from(1).never_answers()];
    let story = call().within(2000).hedged(&four(), &silent);
    assert_eq!(story.sent_ms(), [0, 200, 400, 600]);
    assert_eq!(story.kinds(), [Initial, Hedge, Hedge, Hedge]);
}

/// R40
#[test]
fn without_a_delay_all_go_at_once() {
    let silent = [every_attempt_from(1).never_answers()];
    let story = call().within(10).hedged(&hedges(3, 0), &silent);
    assert_eq!(story.sent_ms(), [0, 0, 0]);
}

/// R41
#[test]
fn the_first_that_works_ends_the_call() {
    let script = [attempt(1).never_answers(), attempt(2).after(50)];
    let story = call().hedged(&four(), &script);
    assert_eq!((story.end, story.at), (End::Worked(2), ms(250)));
    assert_eq!(story.sent_ms(), [0, 200]);
}

/// R41 R51
#[test]
fn the_first_whose_answer_begins_ends_the_call() {
    let script = [attempt(1).after(500), attempt(2).commits().after(50)];
    assert_eq!(call().hedged(&four(), &script).end, End::Worked(2));
}

/// R42
#[test]
fn a_fatal_failure_ends_the_hedged_call_at_once() {
    let script = [
        attempt(1).after(260),
        attempt(2).fails_fatally(UNKNOWN).after(50),
    ];
    let story = call().hedged(&four(), &script);
    assert_eq!((story.end, story.at), (End::Failed(2), ms(250)));
    assert_eq!(story.info.stopped(), Some(StopReason::Fatal));
}

/// R42 speaks of a server's status: what never left the client takes no attempt with it.
#[test]
fn a_final_failure_before_sending_leaves_others_in_flight() {
    for ends in [attempt(1), attempt(1).fails(UNKNOWN)] {
        let script = [
            ends.clone().after(550),
            attempt(2)
                .fails_fatally(UNKNOWN)
                .in_stage(Stage::Dispatch)
                .after(50),
        ];
        let story = call().hedged(&four(), &script);
        let (end, stopped) = match ends.verdict {
            Some(Verdict::Success) => (End::Worked(1), StopReason::Success),
            _ => (End::Failed(1), StopReason::Fatal),
        };
        assert_eq!((story.end, story.at), (end, ms(550)));
        assert_eq!(story.sent_ms(), [0, 200], "none is sent after it");
        assert_eq!(story.info.stopped(), Some(stopped));
    }
}

/// R45: another's stop came before it.
#[test]
fn a_final_failure_after_a_stop_has_its_own_reason() {
    let unsent = attempt(2).fails_fatally(UNKNOWN).in_stage(Stage::Dispatch);
    let script = [
        attempt(1).fails(UNKNOWN).after(450).do_not_come_back(),
        unsent.after(300),
        attempt(3).after(200),
    ];
    let story = call().hedged(&four(), &script);
    assert_eq!((story.end, story.at), (End::Worked(3), ms(600)));
    let stopped = story.info.records().map(|record| record.stopped);
    let stopped: Vec<_> = stopped.collect();
    let own = [StopReason::Pushback, StopReason::Fatal, StopReason::Success];
    assert_eq!(stopped, own.map(Some));
}

/// R42
#[test]
fn a_final_failure_before_sending_ends_a_call_alone() {
    let unsent = attempt(1).fails_fatally(UNKNOWN).in_stage(Stage::Dispatch);
    let script = [unsent.after(210), attempt(2).ready_after(50)];
    let story = call().hedged(&four(), &script);
    assert_eq!((story.end, story.at), (End::Failed(1), ms(210)));
    assert_eq!(story.info.stopped(), Some(StopReason::Fatal));
}

/// R43
#[test]
fn a_non_fatal_failure_sends_the_next_and_restarts_the_delay() {
    let script = [
        every_attempt_from(2).never_answers(),
        attempt(1).fails(UNKNOWN).after(30),
    ];
    let story = call().within(1000).hedged(&four(), &script);
    assert_eq!(story.sent_ms(), [0, 30, 230, 430]);
}

/// R43
#[test]
fn a_first_attempt_that_fails_at_once_sends_the_next() {
    let script = [attempt(1).fails(UNKNOWN), attempt(2).after(5)];
    let story = call().hedged(&four(), &script);
    assert_eq!((story.end, story.sent_ms()), (End::Worked(2), vec![0, 0]));
}

/// R44
#[test]
fn the_servers_delay_takes_the_place_of_the_timer() {
    let script = [
        attempt(1).fails(UNKNOWN).after(10).come_back_in(1000),
        every_attempt_from(2).never_answers(),
    ];
    let story = call().within(3000).hedged(&four(), &script);
    assert_eq!(story.sent_ms(), [0, 1010, 1210, 1410]);
}

/// R44
#[test]
fn of_two_pushbacks_the_latest_counts() {
    for (second, third) in [(300, 520), (2000, 2220)] {
        let script = [
            attempt(1).fails(UNKNOWN).after(210).come_back_in(1000),
            attempt(2).fails(UNKNOWN).after(20).come_back_in(second),
            every_attempt_from(3).never_answers(),
        ];
        let story = call().within(3000).hedged(&four(), &script);
        assert_eq!(story.sent_ms(), [0, 200, third, third + 200]);
    }
}

/// R43, R44
#[test]
fn a_failure_without_pushback_ends_the_wait_of_another() {
    let script = [
        attempt(1).fails(UNKNOWN).after(210).come_back_in(1000),
        attempt(2).fails(UNKNOWN).after(20),
        every_attempt_from(3).never_answers(),
    ];
    let story = call().within(900).hedged(&four(), &script);
    assert_eq!(story.sent_ms(), [0, 200, 220, 420]);
}

/// R43
#[test]
fn two_failures_at_one_instant_send_two_hedges() {
    let script = [
        every_attempt_from(3).never_answers(),
        attempt(1).fails(UNKNOWN).after(250),
        attempt(2).fails(UNKNOWN).after(150),
    ];
    let story = |max| call().within(1000).hedged(&hedges(max, 100), &script);
    assert_eq!(story(6).sent_ms(), [0, 100, 200, 250, 250, 350]);
    assert_eq!(story(5).sent_ms(), [0, 100, 200, 250, 250]);
    assert_eq!(story(4).sent_ms(), [0, 100, 200, 250], "one was left");
}

/// R43, R44
#[test]
fn a_pushback_keeps_the_hedge_of_a_failure_at_its_instant() {
    let fails = |number| attempt(number).fails(UNKNOWN);
    let plain_first = [
        every_attempt_from(3).never_answers(),
        fails(1).after(210),
        fails(2).after(10).come_back_in(60_000),
    ];
    let story = call().within(100_000).hedged(&four(), &plain_first);
    assert_eq!(story.sent_ms(), [0, 200, 210, 60_210]);
    let plain_last = [
        every_attempt_from(3).never_answers(),
        fails(1).after(210).come_back_in(60_000),
        fails(2).after(10),
    ];
    let story = call().within(100_000).hedged(&four(), &plain_last);
    assert_eq!(story.sent_ms(), [0, 200, 210, 410], "the last one counts");
}

/// R26 R43 R46
#[test]
fn each_hedge_that_follows_a_failure_asks_the_throttle() {
    let script = [
        attempt(1).fails(UNKNOWN).after(210),
        attempt(2).fails(UNKNOWN).after(10).come_back_in(60_000),
    ];
    let tokens = bucket(4, 0);
    let story = call().throttled_by(&tokens).hedged(&four(), &script);
    assert_eq!((story.end, story.at), (End::Failed(2), ms(210)));
    assert_eq!(story.info.stopped(), Some(StopReason::Throttled));
    // The answers are taken from the end of the list.
    let throttle = Arc::new(Listed::new(vec![true, false, true]));
    let script = [
        every_attempt_from(3).never_answers(),
        attempt(1).fails(UNKNOWN).after(210),
        attempt(2).fails(UNKNOWN).after(10),
    ];
    let story = call().within(300).throttled_by(&throttle);
    let story = story.hedged(&four(), &script);
    assert_eq!(story.sent_ms(), [0, 200, 210]);
    assert_eq!(story.info.refused(StopReason::Throttled), 1);
}

/// R45
#[test]
fn a_stop_sends_no_more_and_keeps_attempts_in_flight() {
    let script = [
        attempt(1).after(550),
        attempt(2).fails(UNKNOWN).after(10).do_not_come_back(),
    ];
    let story = call().hedged(&four(), &script);
    assert_eq!((story.end, story.at), (End::Worked(1), ms(550)));
    assert_eq!(story.sent_ms(), [0, 200]);
}

/// R45
#[test]
fn a_stop_with_nothing_in_flight_ends_the_call() {
    let story = call().hedged(&four(), &[attempt(1).fails(UNKNOWN).do_not_come_back()]);
    assert_eq!((story.end, story.at), (End::Failed(1), ms(0)));
    assert_eq!(story.info.stopped(), Some(StopReason::Pushback));
}

/// R45
#[test]
fn a_stop_also_refuses_attempts_being_prepared() {
    let script = [
        attempt(1).fails(UNKNOWN).after(210).do_not_come_back(),
        attempt(2).ready_after(50),
    ];
    let story = call().hedged(&four(), &script);
    assert_eq!((story.end, story.sent_ms()), (End::Failed(1), vec![0]));
    assert_eq!(story.at, ms(210), "its service is not waited for");
    assert_eq!(story.info.stopped(), Some(StopReason::Pushback));
}

/// R46
#[test]
fn the_throttle_refuses_a_hedge_when_it_is_due() {
    let tokens = bucket(4, 1);
    let script = [
        attempt(1).never_answers(),
        attempt(2).fails(UNKNOWN).after(150),
        every_attempt_from(3).never_answers(),
    ];
    let story = call()
        .within(1000)
        .throttled_by(&tokens)
        .hedged(&four(), &script);
    assert_eq!(
        story.sent_ms(),
        [0, 200],
        "the second failure drained it to half"
    );
    assert_eq!(
        (story.end, tokens.milli_tokens()),
        (End::TimedOut, Some(2000))
    );
}

/// R46
#[test]
fn the_first_is_always_sent() {
    let story = call()
        .throttled_by(&bucket(4, 4))
        .hedged(&four(), &[attempt(1).after(900)]);
    assert_eq!((story.end, story.sent_ms()), (End::Worked(1), vec![0]));
}

/// R46
#[test]
fn a_refused_hedge_is_used_up() {
    let (tokens, script) = (bucket(4, 2), [attempt(1).after(500), attempt(2).after(300)]);
    let call = call().throttled_by(&tokens);
    let story = call.hedged(&hedges(2, 100), &script);
    assert_eq!((story.end, story.sent_ms()), (End::Worked(1), vec![0]));
    assert_eq!(story.info.refused(StopReason::Throttled), 1);
}

/// R26 R46
#[test]
fn the_last_failure_is_returned_at_once_if_its_hedge_is_refused() {
    let story = call()
        .throttled_by(&bucket(4, 1))
        .hedged(&four(), &[attempt(1).fails(UNKNOWN)]);
    assert_eq!((story.end, story.at), (End::Failed(1), ms(0)));
    assert_eq!(story.info.stopped(), Some(StopReason::Throttled));
    let last = story.info.records().last().unwrap();
    assert_eq!(
        (last.stopped, last.delay),
        (Some(StopReason::Throttled), None),
        "its record has the reason"
    );
}

/// R46 R47
#[test]
fn a_failure_after_refused_hedges_was_stopped_by_the_throttle() {
    let first_only = [attempt(1).fails(UNKNOWN).after(900)];
    let story = call()
        .throttled_by(&bucket(4, 2))
        .hedged(&four(), &first_only);
    assert_eq!((story.end, story.sent_ms()), (End::Failed(1), vec![0]));
    assert_eq!(story.info.stopped(), Some(StopReason::Throttled));
    let last = story.info.records().last().unwrap();
    assert_eq!(last.stopped, Some(StopReason::Throttled));
}

/// R46 R47
#[test]
fn a_hedge_that_went_out_makes_up_for_one_that_was_held_back() {
    // The answers are taken from the end.
    let throttle = Arc::new(Listed::new(vec![true, false]));
    let script = [
        attempt(1).fails(UNKNOWN).after(900),
        attempt(2).fails(UNKNOWN).after(10),
    ];
    let story = call()
        .throttled_by(&throttle)
        .hedged(&hedges(3, 200), &script);
    assert_eq!((story.end, story.sent_ms()), (End::Failed(1), vec![0, 400]));
    assert_eq!(story.info.stopped(), Some(StopReason::Attempts));
}

/// R47
#[test]
fn when_all_failed_the_last_failure_to_arrive_is_returned() {
    let script = [
        attempt(1).fails(UNKNOWN).after(300),
        attempt(2).fails(UNKNOWN).after(250),
        attempt(3).fails(UNKNOWN).after(100),
    ];
    let story = call().hedged(&hedges(3, 200), &script);
    assert_eq!((story.end, story.at), (End::Failed(2), ms(450)));
    assert_eq!(story.sent_ms(), [0, 200, 300]);
    assert_eq!(story.info.stopped(), Some(StopReason::Attempts));
}

/// R48
#[test]
fn the_deadline_ends_all() {
    let silent = [every_attempt_from(1).never_answers()];
    let story = call().within(300).hedged(&four(), &silent);
    assert_eq!((story.end, story.at), (End::TimedOut, ms(300)));
    assert_eq!(story.sent_ms(), [0, 200]);
}

/// R48
#[test]
fn no_hedge_is_sent_at_or_after_the_deadline() {
    let silent = [attempt(1).after(500), every_attempt_from(2).never_answers()];
    let story = call().asked_within(200).hedged(&four(), &silent);
    assert_eq!((story.end, story.sent_ms()), (End::Worked(1), vec![0]));
}

/// R48
#[test]
fn a_delay_that_does_not_fit_waits_for_the_deadline_or_gives_up() {
    let script = [attempt(1).fails(UNKNOWN).after(10).come_back_in(400)];
    let capped = call().within(300).hedged(&four(), &script);
    assert_eq!((capped.end, capped.at), (End::TimedOut, ms(300)));
    let asked = call().asked_within(300).hedged(&four(), &script);
    assert_eq!((asked.end, asked.at), (End::Failed(1), ms(10)));
    let gives_up = four().on_deadline(OnDeadline::GiveUp);
    let gave_up = call().within(300).hedged(&gives_up, &script);
    assert_eq!((gave_up.end, gave_up.at), (End::Failed(1), ms(10)));
    let last = gave_up.info.records().last().unwrap();
    assert_eq!(last.delay, None, "the call does not wait");
}

/// R48
#[test]
fn beside_another_only_a_delay_that_fits_is_recorded() {
    let recorded = |delay| {
        let failed = attempt(1).fails(UNKNOWN).after(210);
        let script = [
            failed.come_back_in(delay),
            every_attempt_from(2).never_answers(),
        ];
        let story = call().within(500).hedged(&four(), &script);
        let record = story.info.records().next().unwrap();
        (record.number, record.delay)
    };
    assert_eq!(recorded(289), (1, Some(ms(289))));
    assert_eq!(recorded(290), (1, None), "it ends with the deadline");
    assert_eq!(recorded(291), (1, None));
}

/// R48
#[test]
fn a_service_that_is_ready_only_at_the_deadline_is_not_called() {
    let script = [
        attempt(1).fails(UNKNOWN).after(10).come_back_in(10),
        attempt(2).ready_after(10),
    ];
    let story = call().within(30).hedged(&four(), &script);
    assert_eq!((story.end, story.at), (End::TimedOut, ms(30)));
    assert_eq!(story.info.stopped(), Some(StopReason::Deadline));
    let asked = call().asked_within(30).hedged(&four(), &script);
    assert_eq!((asked.end, asked.sent_ms()), (End::Failed(1), vec![0]));
}

/// R49
#[test]
fn a_layer_that_forbids_more_freezes_the_hedging() {
    let second = attempt(2).fails(UNKNOWN).after(10);
    for second in [second.clone().forbids_another(), second.asks_for_too_long()] {
        let story = call().hedged(&four(), &[attempt(1).after(550), second]);
        assert_eq!((story.end, story.sent_ms()), (End::Worked(1), vec![0, 200]));
    }
}

/// R33
#[test]
fn the_servers_delay_adds_no_hedge() {
    let script = [every_attempt_from(1).fails(UNKNOWN).come_back_in(1)];
    assert_eq!(call().hedged(&four(), &script).end, End::Failed(4));
}

/// C6
#[test]
fn a_reason_that_always_retries_takes_the_next_hedge_uncounted() {
    let script = [
        every_attempt_from(1).fails(KV_NOT_MY_VBUCKET),
        attempt(4).never_answers(),
        every_attempt_from(5).never_answers(),
    ];
    let story = call().within(1000).hedged(&hedges(2, 100), &script);
    assert_eq!(story.kinds(), [Initial, Retry, Retry, Retry, Hedge]);
    assert_eq!(story.sent_ms(), [0, 1, 11, 61, 161]);
}

/// C33
#[test]
fn a_configuration_that_moved_the_key_nudges_the_retry() {
    let script = [
        every_attempt_from(1).fails(KV_NOT_MY_VBUCKET),
        attempt(3).fails(KV_NOT_MY_VBUCKET).key_moves_after(20),
        attempt(4).fails(KV_NOT_MY_VBUCKET).key_moves_after(900),
        attempt(5),
    ];
    let story = call().hedged(&hedges(1, 0), &script);
    assert_eq!(
        story.sent_ms(),
        [0, 1, 11, 31, 131],
        "the later configuration is too late"
    );
    let delays = story.info.records().filter_map(|record| record.delay);
    assert!(delays.eq([ms(1), ms(10), ms(20), ms(100)]));
}

/// C6 R43
#[test]
fn a_retry_and_a_hedge_due_together_are_both_sent() {
    let script = [
        attempt(1).fails(UNKNOWN).unseen(Unseen::Once).after(30),
        attempt(2).fails(UNKNOWN).after(20),
        every_attempt_from(3).never_answers(),
    ];
    let story = call().within(1000).hedged(&hedges(3, 10), &script);
    assert_eq!(
        story.kinds(),
        [Initial, Hedge, Hedge, AttemptKind::Transparent]
    );
    let other_order = [
        attempt(1).fails(UNKNOWN).after(30),
        attempt(2).fails(UNKNOWN).unseen(Unseen::Once).after(20),
        every_attempt_from(3).never_answers(),
    ];
    let story = call().within(1000).hedged(&hedges(3, 10), &other_order);
    assert_eq!(
        story.kinds(),
        [Initial, Hedge, Hedge, AttemptKind::Transparent]
    );
}

/// R61 R63
#[test]
fn two_retries_due_together_are_both_sent() {
    let script = [
        attempt(1)
            .fails(UNKNOWN)
            .unseen(Unseen::Unlimited)
            .after(20),
        attempt(2)
            .fails(UNKNOWN)
            .unseen(Unseen::Unlimited)
            .after(10),
        every_attempt_from(3).never_answers(),
    ];
    let story = call().within(100).hedged(&hedges(2, 10), &script);
    assert_eq!(
        story.kinds(),
        [
            Initial,
            Hedge,
            AttemptKind::Transparent,
            AttemptKind::Transparent
        ]
    );
    assert_eq!(story.sent_ms(), [0, 10, 20, 20]);
}

/// R16
#[test]
fn a_hedge_whose_service_is_not_ready_never_holds_up_the_others() {
    let script = [
        every_attempt_from(1).never_answers().ready_after(0),
        attempt(2).never_answers().ready_after(700),
        attempt(3).after(50),
    ];
    let story = call().within(1000).hedged(&four(), &script);
    assert_eq!(story.end, End::Worked(3));
}

/// R51 R52
#[test]
fn a_request_that_cannot_be_copied_is_not_hedged_on_failure() {
    let story = call()
        .not_replayable()
        .hedged(&four(), &[attempt(1).fails(UNKNOWN)]);
    assert_eq!((story.end, story.sent_ms()), (End::Failed(1), vec![0]));
    assert_eq!(story.info.stopped(), Some(StopReason::NotReplayable));
}

/// R51 R52
#[test]
fn gates_before_the_copy_say_why_no_hedge_follows() {
    let once = hedges(1, 200);
    let stop = attempt(1).fails(UNKNOWN).do_not_come_back();
    let cases = [
        (call(), four(), stop, StopReason::Pushback),
        (
            call(),
            once,
            attempt(1).fails(UNKNOWN),
            StopReason::Attempts,
        ),
        (
            call().not_idempotent(),
            four(),
            attempt(1).fails(UNKNOWN),
            StopReason::NotIdempotent,
        ),
    ];
    for (call, policy, line, stopped) in cases {
        let story = call.not_replayable().hedged(&policy, &[line]);
        assert_eq!(story.info.stopped(), Some(stopped));
    }
}

/// R51 R52
#[test]
fn no_service_is_waited_for_that_could_send_no_copy() {
    let two = hedges(2, 200);
    let script = [
        attempt(1).fails(UNKNOWN).after(300),
        attempt(2).ready_after(10_000),
    ];
    let story = call().not_replayable().hedged(&two, &script);
    assert_eq!((story.end, story.at), (End::Failed(1), ms(300)));
    assert_eq!(story.info.stopped(), Some(StopReason::NotReplayable));
}

/// R21 R51
#[test]
fn an_attempt_that_is_cut_off_is_a_loser_and_no_failure() {
    let tokens = bucket(4, 0);
    let script = [
        attempt(1).after(300),
        attempt(2).fails_fatally(UNKNOWN).after(10).breaks_off(),
    ];
    let story = call().throttled_by(&tokens).hedged(&four(), &script);
    assert_eq!((story.end, story.sent_ms()), (End::Worked(1), vec![0, 200]));
    assert_eq!(tokens.milli_tokens(), Some(4000));
    let record = story.info.records().next().unwrap();
    assert_eq!(
        (record.outcome, record.stopped),
        (AttemptOutcome::Cancelled, Some(StopReason::NotReplayable))
    );
}

/// R47 R51
#[test]
fn the_failure_of_the_attempt_that_went_on_is_returned() {
    let tokens = bucket(4, 0);
    let script = [
        attempt(1).fails(UNKNOWN).after(300),
        attempt(2).fails(UNKNOWN).after(10).breaks_off(),
    ];
    let story = call().throttled_by(&tokens).hedged(&four(), &script);
    assert_eq!((story.end, story.at), (End::Failed(1), ms(300)));
    assert_eq!(tokens.milli_tokens(), Some(3000));
    assert_eq!(story.info.stopped(), Some(StopReason::NotReplayable));
}

/// R46
#[test]
fn a_refused_hedge_leaves_the_next_one_planned() {
    // The answers are taken from the end of the list.
    let throttle = Arc::new(Listed::new(vec![true, false]));
    let silent = [every_attempt_from(1).never_answers()];
    let story = call()
        .within(1000)
        .throttled_by(&throttle)
        .hedged(&hedges(3, 200), &silent);
    assert_eq!(story.sent_ms(), [0, 400]);
}

/// R47
#[test]
fn an_attempt_being_prepared_keeps_the_call_alive() {
    let hedge = [
        attempt(1).fails(UNKNOWN).after(10),
        attempt(2).ready_after(50),
    ];
    let story = call().hedged(&hedges(2, 0), &hedge);
    assert_eq!((story.end, story.at), (End::Worked(2), ms(50)));
    // The hedge is ready before the retry of the first attempt.
    let lines = [
        attempt(1).fails(UNKNOWN).unseen(Unseen::Once),
        attempt(2).fails(UNKNOWN).ready_after(50),
        attempt(3),
    ];
    let story = call().hedged(&hedges(2, 10), &lines);
    assert_eq!(story.kinds(), [Initial, Hedge, AttemptKind::Transparent]);
    assert_eq!(
        (story.end, story.sent_ms()),
        (End::Worked(3), vec![0, 10, 50])
    );
}

/// R31 R44: the server's delay is exact, also if an always-retry reason requests the next attempt.
#[test]
fn the_servers_delay_holds_for_a_reason_that_always_retries() {
    let script = [attempt(1).fails(KV_NOT_MY_VBUCKET).come_back_in(400)];
    let hedged = call().hedged(&hedges(1, 10), &script);
    assert_eq!(hedged.sent_ms(), [0, 400]);
    assert_eq!(call().retried(NeverRetry, &script).sent_ms(), [0, 400]);
}

/// R44 R61: a refused stream is sent again, and the server's delay is kept.
#[test]
fn a_transparent_retry_leaves_another_attempts_pushback_alone() {
    let script = [
        every_attempt_from(3).never_answers(),
        attempt(1).fails(UNKNOWN).come_back_in(5000).after(110),
        attempt(2).fails(UNKNOWN).unseen(Unseen::Once).after(20),
    ];
    let policy = hedges(4, 100);
    let story = call().within(9000).hedged(&policy, &script);
    assert_eq!(story.sent_ms(), [0, 100, 120, 5110, 5210]);
    assert_eq!(
        story.kinds(),
        [Initial, Hedge, AttemptKind::Transparent, Hedge, Hedge]
    );
}

/// R40 R60: one backend that is never reached does not delay hedges.
#[test]
fn attempts_that_never_leave_do_not_starve_the_hedges() {
    let script = [
        attempt(1).never_answers(),
        every_attempt_from(2)
            .fails(UNKNOWN)
            .unseen(Unseen::Unlimited),
    ];
    let policy = hedges(3, 200);
    let story = call().within(1500).hedged(&policy, &script);
    let hedges = story.kinds().iter().filter(|kind| **kind == Hedge).count();
    assert_eq!(hedges, 2);
}

/// By default a non-idempotent call has one attempt in flight at a time; a service config may
/// change that.
#[test]
fn only_idempotent_calls_are_hedged_by_default() {
    let every = four().hedge_non_idempotent();
    let silent = [every_attempt_from(1).never_answers()];
    let write = || call().not_idempotent().within(2000);
    assert_eq!(write().hedged(&four(), &silent).sent_ms(), [0]);
    assert_eq!(write().hedged(&every, &silent).sent_ms().len(), 4, "A6");
    let read = call().within(2000).hedged(&four(), &silent);
    assert_eq!(read.sent_ms(), [0, 200, 400, 600]);

    let lost = [every_attempt_from(1).after(10).fails(UNKNOWN)];
    let story = write().hedged(&four(), &lost);
    assert_eq!((story.sent_ms(), story.at), (vec![0], ms(10)));
    assert_eq!(story.info.stopped(), Some(StopReason::NotIdempotent));
}

/// The failure had no effect, so another attempt may follow; it is the only one in flight.
#[test]
fn after_a_failure_that_is_safe_another_one_follows_alone() {
    let script = [attempt(1).after(10).fails(KV_LOCKED), attempt(2).after(900)];
    let story = call().not_idempotent().hedged(&four(), &script);
    assert_eq!((story.end, story.at), (End::Worked(2), ms(910)));
    assert_eq!(story.sent_ms(), [0, 10]);
}
