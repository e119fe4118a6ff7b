//! Every interleaving of reporters on one slot.

use loom::sync::Arc;
use loom::thread;

use super::*;

/// Runs a reporter of this attempt concurrently with an action of the recovery layer.
fn beside(
    slots: &Arc<AttemptSlots>,
    key: AttemptKey,
    report: fn(&AttemptSlots, AttemptKey),
    act: impl FnOnce(&AttemptSlots),
) {
    let shared = Arc::clone(slots);
    let other = thread::spawn(move || report(&shared, key));
    act(slots);
    other.join().unwrap();
}

#[test]
fn two_reports_of_one_attempt_are_both_kept() {
    loom::model(|| {
        let slots = Arc::new(AttemptSlots::default());
        let one = slots.begin(1);
        let pushback_and_stage = |slots: &AttemptSlots, key| {
            slots.pushback(key, ServerPushback::Stop);
            slots.stage(key, Stage::InFlight);
        };
        beside(&slots, one, pushback_and_stage, |slots| {
            slots.set(one, Flag::FORBIDDEN);
            assert!(slots.config_coming(one));
        });
        let found = slots.read(one);
        assert_eq!(found.pushback, Some(ServerPushback::Stop));
        assert_eq!(found.stage, Some(Stage::InFlight));
        assert!(found.forbidden && found.config_coming);
    });
}

#[test]
fn a_late_report_is_ignored_while_its_slot_is_reassigned() {
    loom::model(|| {
        let slots = Arc::new(AttemptSlots::default());
        let one = slots.begin(1);
        let late = |slots: &AttemptSlots, key| {
            slots.pushback(key, ServerPushback::Stop);
            slots.set(key, Flag::FORBIDDEN);
        };
        beside(&slots, one, late, |slots| {
            slots.set(one, Flag::OVER);
            let later = slots.begin(1 + SLOTS as u32);
            assert_eq!(
                (later.slot, slots.read(later)),
                (one.slot, AttemptReport::default())
            );
        });
        let later = AttemptKey {
            attempt: 1 + SLOTS as u32,
            slot: 1,
        };
        assert_eq!(slots.read(later), AttemptReport::default());
        assert!(slots.any_may_have_left(later.attempt), "it is in flight");
    });
}

#[test]
fn a_late_report_never_revives_a_finished_attempt() {
    loom::model(|| {
        let slots = Arc::new(AttemptSlots::default());
        let one = slots.begin(1);
        let stage = |slots: &AttemptSlots, key| slots.stage(key, Stage::InFlight);
        beside(&slots, one, stage, |slots| slots.set(one, Flag::OVER));
        assert!(!slots.any_may_have_left(1));
    });
}

#[test]
fn of_two_who_conclude_an_attempt_one_counts() {
    loom::model(|| {
        let slots = Arc::new(AttemptSlots::default());
        let one = slots.begin(1);
        slots.commit(one);
        let other = {
            let slots = Arc::clone(&slots);
            thread::spawn(move || slots.conclude(one, true))
        };
        let mine = slots.conclude(one, true);
        assert_ne!(mine, other.join().unwrap());
    });
}

#[test]
fn a_good_end_counts_once_before_or_after_the_commit() {
    loom::model(|| {
        let slots = Arc::new(AttemptSlots::default());
        let one = slots.begin(1);
        slots.follow(one);
        let end = {
            let slots = Arc::clone(&slots);
            thread::spawn(move || slots.conclude(one, true))
        };
        let open = slots.commit(one);
        assert_eq!(open, end.join().unwrap());
    });
}
