use proptest::prelude::*;

use std::time::Duration;

use super::*;
use crate::call::state::{is_silent, tag};

#[derive(Clone, Copy, Debug)]
enum Report {
    Pushback(ServerPushback),
    Unreadable,
    Stage(Stage),
    Forbid,
    InDoubt,
    CircuitOpen(bool),
    OwnAnswer,
    UntriedBackend,
    Followed,
    Config,
    Over,
    Commit,
    Conclude(bool),
}

fn report() -> impl Strategy<Value = Report> {
    let most = VALUE_MASK;
    prop_oneof![
        (0..=most)
            .prop_map(|us| Report::Pushback(ServerPushback::After(Duration::from_micros(us)))),
        (1..=most / 1000).prop_map(|millis| Report::Pushback(ServerPushback::TooLong { millis })),
        prop::sample::select(vec![
            Report::Pushback(ServerPushback::After(Duration::from_micros(most))),
            Report::Pushback(ServerPushback::Stop),
            Report::Unreadable,
        ]),
        prop::sample::select(vec![
            Report::Stage(Stage::Dispatch),
            Report::Stage(Stage::InFlight),
            Report::Stage(Stage::Response),
        ]),
        prop::sample::select(vec![
            Report::Forbid,
            Report::InDoubt,
            Report::CircuitOpen(true),
            Report::CircuitOpen(false),
            Report::OwnAnswer,
            Report::UntriedBackend,
            Report::Followed,
            Report::Config,
        ]),
        prop::sample::select(vec![
            Report::Over,
            Report::Commit,
            Report::Conclude(true),
            Report::Conclude(false),
        ]),
    ]
}

proptest! {
    /// Compares any sequence of reports with one plain value per attempt.
    #[test]
    #[cfg_attr(miri, ignore = "slow: `.ci/miri` runs it")]
    fn a_report_changes_its_own_finding_of_its_own_attempt(
        reports in prop::collection::vec((0_usize..3, report()), 0..40),
    ) {
        let slots = AttemptSlots::default();
        let keys = [1, 2, 3].map(|attempt| slots.begin(attempt));
        let mut plain = [AttemptReport::default(); 3];
        let (mut over, mut committed) = ([false; 3], [false; 3]);
        let (mut several, mut read) = ([false; 3], [false; 3]);
        for (at, report) in reports {
            let (key, found) = (keys[at], &mut plain[at]);
            match report {
                Report::Pushback(word) => {
                    slots.pushback(key, word);
                    (found.pushback, found.pushback_unreadable) = (Some(word), false);
                }
                Report::Unreadable => {
                    slots.pushback_unreadable(key);
                    (found.pushback, found.pushback_unreadable) = (None, true);
                }
                Report::Stage(stage) => {
                    slots.stage(key, stage);
                    found.stage = Some(stage);
                }
                Report::Forbid => {
                    slots.set(key, Flag::FORBIDDEN);
                    found.forbidden = true;
                }
                Report::InDoubt => {
                    slots.set(key, Flag::IN_DOUBT);
                    found.in_doubt = true;
                }
                Report::CircuitOpen(is_open) => {
                    if is_open {
                        slots.set(key, Flag::CIRCUIT_OPEN);
                    } else {
                        slots.sent_again(key);
                        (found.own_answer, found.stage) = (false, None);
                    }
                    found.circuit_open = is_open;
                }
                Report::OwnAnswer => {
                    slots.set(key, Flag::OWN_ANSWER);
                    found.own_answer = true;
                }
                Report::UntriedBackend => {
                    slots.put(key, Flag::UNTRIED_BACKEND, true);
                    found.untried_backend = true;
                }
                Report::Followed => {
                    slots.follow(key);
                    several[at] |= found.followed;
                    (found.followed, read[at]) = (true, false);
                }
                Report::Config => {
                    prop_assert_eq!(slots.config_coming(key), !over[at]);
                    found.config_coming = true;
                }
                Report::Over => {
                    slots.set(key, Flag::OVER);
                    over[at] = true;
                }
                Report::Commit => {
                    prop_assert_eq!(slots.commit(key), !read[at]);
                    committed[at] |= !read[at];
                }
                Report::Conclude(is_good) => {
                    let was_open = std::mem::take(&mut committed[at]);
                    if is_good && !was_open && found.followed && !several[at] {
                        (found.followed, read[at]) = (false, true);
                    }
                    prop_assert_eq!(slots.conclude(key, is_good), was_open);
                }
            }
            prop_assert_eq!(keys.map(|key| slots.read(key)), plain);
            let left = (0..3).any(|at| !over[at] && plain[at].stage != Some(Stage::Dispatch));
            prop_assert_eq!(slots.any_may_have_left(3), left);
        }
    }
}

#[test]
fn only_attempts_that_were_sent_may_have_left() {
    for sent in 1..=20 {
        let slots = AttemptSlots::default();
        for attempt in 1..sent {
            slots.set(slots.begin(attempt), Flag::OVER);
        }
        let last = slots.begin(sent);
        assert!(slots.any_may_have_left(sent), "{sent}");
        slots.set(last, Flag::OVER);
        assert!(!slots.any_may_have_left(sent), "{sent}");
    }
}

#[cfg(feature = "tokio")]
#[test]
fn a_pushback_is_forgotten_and_nothing_else() {
    let slots = AttemptSlots::default();
    let one = slots.begin(1);
    slots.stage(one, Stage::InFlight);
    slots.set(one, Flag::FORBIDDEN);
    let before = slots.read(one);
    slots.forget_pushback(one);
    assert_eq!(slots.read(one), before);
    slots.pushback(one, ServerPushback::Stop);
    slots.forget_pushback(one);
    assert_eq!(slots.read(one), before);
    slots.pushback_unreadable(one);
    slots.forget_pushback(one);
    assert_eq!(slots.read(one), before);
}

#[test]
fn an_attempt_that_ends_twice_is_over() {
    let slots = AttemptSlots::default();
    let one = slots.begin(1);
    slots.set(one, Flag::FORBIDDEN);
    for _ in 0..2 {
        assert!(slots.end(one).forbidden);
        assert!(slots.is_over(one.slot));
    }
}

#[test]
fn any_report_but_that_of_the_end_breaks_the_silence() {
    for word in [0, tag(1), tag(7), tag(7) | Flag::OVER.0] {
        assert!(is_silent(word), "{word:x}");
        for report in [Flag::COMMITTED.0, Flag::FORBIDDEN.0, STAGE, 1] {
            assert!(!is_silent(word | report), "{word:x} {report:x}");
        }
    }
}

#[test]
fn reports_are_read_back() {
    let slots = AttemptSlots::default();
    let three = slots.begin(3);
    let after = ServerPushback::After(Duration::from_millis(250));
    slots.pushback(three, after);
    slots.stage(three, Stage::InFlight);
    assert!(slots.config_coming(three));
    let found = slots.read(three);
    assert_eq!(found.pushback, Some(after));
    assert_eq!(found.stage, Some(Stage::InFlight));
    assert!(found.config_coming && !found.forbidden);
    slots.pushback(three, ServerPushback::Stop);
    assert_eq!(slots.read(three).pushback, Some(ServerPushback::Stop));
}

#[test]
fn a_late_writer_of_a_dead_attempt_is_ignored() {
    let slots = AttemptSlots::default();
    let one = slots.begin(1);
    slots.set(one, Flag::OVER);
    let later = slots.begin(1 + SLOTS as u32);
    assert_eq!(one.slot, later.slot);
    slots.pushback(one, ServerPushback::Stop);
    slots.set(one, Flag::FORBIDDEN);
    slots.commit(later);
    assert!(!slots.config_coming(one) && !slots.conclude(one, true));
    assert_eq!(slots.read(later), AttemptReport::default());
    assert_eq!(slots.read(one), AttemptReport::default());
    assert!(slots.conclude(later, true));
}

#[test]
fn an_attempt_in_flight_keeps_its_slot_while_others_follow() {
    let slots = AttemptSlots::default();
    let one = slots.begin(1);
    slots.pushback(one, ServerPushback::Stop);
    for n in 2..200 {
        let key = slots.begin(n);
        assert_eq!(slots.read(key), AttemptReport::default());
        slots.set(key, Flag::OVER);
        assert!(slots.any_may_have_left(n), "{n}");
    }
    assert_eq!(slots.read(one).pushback, Some(ServerPushback::Stop));
    slots.commit(one);
    assert!(slots.conclude(one, true));
    slots.set(one, Flag::OVER);
    assert!(!slots.any_may_have_left(199));
}

#[test]
fn the_slot_of_an_attempt_that_is_over_is_taken_and_no_other() {
    let slots = AttemptSlots::default();
    let keys: Vec<_> = (1..=SLOTS as u32).map(|n| slots.begin(n)).collect();
    keys.iter().for_each(|key| slots.set(*key, Flag::FORBIDDEN));
    slots.set(keys[7], Flag::OVER);
    let next = slots.begin(1 + SLOTS as u32);
    assert_eq!(next.slot, keys[7].slot);
    let kept = keys.iter().filter(|key| slots.read(**key).forbidden);
    assert_eq!(kept.count(), SLOTS - 1);
}

#[test]
fn concurrent_attempts_do_not_mix() {
    let slots = AttemptSlots::default();
    let keys: Vec<_> = (1..=SLOTS as u32).map(|n| slots.begin(n)).collect();
    slots.set(keys[4], Flag::FORBIDDEN);
    let forbidden = keys.iter().filter(|key| slots.read(**key).forbidden);
    assert!(forbidden.eq([&keys[4]]));
}

#[test]
fn a_huge_pushback_saturates() {
    let slots = AttemptSlots::default();
    let one = slots.begin(1);
    slots.pushback(one, ServerPushback::After(Duration::MAX));
    assert_eq!(
        slots.read(one).pushback,
        Some(ServerPushback::After(Duration::from_micros(VALUE_MASK)))
    );
}

#[test]
fn the_latest_pushback_counts_even_if_unreadable() {
    let slots = AttemptSlots::default();
    let one = slots.begin(1);
    for word in [
        ServerPushback::After(Duration::from_secs(1)),
        ServerPushback::Stop,
    ] {
        slots.pushback(one, word);
        slots.pushback_unreadable(one);
        let found = slots.read(one);
        assert_eq!((found.pushback, found.pushback_unreadable), (None, true));
        slots.pushback(one, word);
        let found = slots.read(one);
        assert_eq!(
            (found.pushback, found.pushback_unreadable),
            (Some(word), false)
        );
    }
}

#[test]
fn a_committed_attempt_is_concluded_once() {
    let slots = AttemptSlots::default();
    let one = slots.begin(1);
    assert!(!slots.conclude(one, false), "not committed yet");
    assert!(slots.commit(one));
    assert!(slots.conclude(one, true));
    assert!(!slots.conclude(one, true));
}

#[test]
fn a_response_that_was_read_before_the_commit_is_not_open() {
    let slots = AttemptSlots::default();
    let one = slots.begin(1);
    slots.follow(one);
    assert!(!slots.conclude(one, true), "not committed yet");
    assert!(!slots.commit(one));
    #[cfg(feature = "tokio")]
    assert!(!slots.is_end_awaited(1));
    // The attempt is sent once more, and gets another response.
    slots.follow(one);
    assert!(slots.commit(one));
    #[cfg(feature = "tokio")]
    assert!(slots.is_end_awaited(1));
    assert!(slots.conclude(one, false));
}

#[test]
fn of_several_followers_no_early_end_counts() {
    let slots = AttemptSlots::default();
    let one = slots.begin(1);
    slots.follow(one);
    slots.follow(one);
    assert!(
        !slots.conclude(one, true),
        "perhaps that of an earlier step"
    );
    assert!(slots.commit(one));
    let two = slots.begin(2);
    slots.follow(two);
    assert!(!slots.conclude(two, false));
    assert!(slots.commit(two), "a bad end is not this one's");
}
