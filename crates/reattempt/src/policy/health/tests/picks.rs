//! Which backend is chosen, and how an ejected one returns.

use super::*;

fn after_failures(backends: usize, dead: usize) -> Lab {
    let mut lab = Lab::new(HealthPolicy::standard(), backends);
    lab.shares(100);
    lab.results(dead, 0, 5);
    assert_eq!(lab.ejected(), [dead]);
    lab
}

#[test]
fn equal_backends_get_equal_shares() {
    let shares = Lab::new(HealthPolicy::standard(), 3).shares(3000);
    assert!(
        shares.iter().all(|share| (900..1100).contains(share)),
        "{shares:?}"
    );
}

#[test]
fn the_less_loaded_of_two_is_chosen() {
    let lab = Lab::new(HealthPolicy::standard(), 2);
    let mut sent: Vec<_> = (0..100).map(|_| lab.send()).collect();
    let at_first = sent.iter().filter(|sent| sent.at() == 0).count();
    assert_eq!(at_first, 50, "nothing is known but what is in flight");
    for sent in sent.drain(..).filter(|sent| sent.at() == 0) {
        lab.pool.ended(sent, lab.now + MS, Outcome::Success, None);
    }
    for _ in 0..50 {
        sent.push(lab.send());
    }
    assert!(sent.iter().all(|sent| sent.at() == 0));
}

#[test]
fn a_backend_four_times_as_slow_gets_less() {
    let mut lab = Lab::new(HealthPolicy::standard(), 2);
    for _ in 0..200 {
        let sent = lab.send();
        let time = if sent.at() == 0 { MS } else { 4 * MS };
        lab.pass(time);
        lab.pool.ended(sent, lab.now, Outcome::Success, None);
    }
    let slow = (0..100).filter(|_| {
        let sent = lab.send();
        let at = sent.at();
        lab.pool.ended(sent, lab.now + MS, Outcome::Dropped, None);
        at == 1
    });
    assert_eq!(slow.count(), 0);
}

/// How many of these calls, one after another, hang at the second backend; the first one answers
/// after this time.
fn hanging(lab: &mut Lab, calls: usize, time: Duration) -> usize {
    let mut sent = Vec::new();
    for _ in 0..calls {
        let one = lab.send();
        lab.pass(time);
        if one.at() == 1 {
            sent.push(one);
        } else {
            lab.pool.ended(one, lab.now, Outcome::Success, None);
        }
    }
    sent.len()
}

#[test]
fn a_backend_that_has_not_answered_is_not_the_fastest() {
    let mut lab = Lab::new(HealthPolicy::standard(), 2);
    assert!(hanging(&mut lab, 100, MS) <= 2);
}

#[test]
fn a_failure_before_the_first_answer_makes_no_other_the_fastest() {
    let mut lab = Lab::new(HealthPolicy::standard(), 2);
    lab.lasts(0, MS, Outcome::Failure);
    assert!(hanging(&mut lab, 100, MS) <= 2);
}

#[test]
fn one_that_joins_before_the_first_answer_is_not_the_fastest() {
    let mut lab = Lab::new(HealthPolicy::standard(), 1);
    let first = lab.send();
    let newer = lab.pool.changed(&[Some(0), None], lab.now);
    let old = std::mem::replace(&mut lab.pool, newer);
    lab.pass(MS);
    old.ended(first, lab.now, Outcome::Success, None);
    assert!(hanging(&mut lab, 1000, 100 * MS) <= 2);
}

#[test]
fn further_attempts_go_to_untried_ones_and_then_round_again() {
    let lab = Lab::new(HealthPolicy::standard(), 3);
    let mut tried = Vec::new();
    for round in 0..6 {
        let sent = lab.try_send(&tried, false).unwrap();
        assert_eq!(sent.untried(), round < 2);
        if round < 3 {
            assert!(!tried.contains(&sent.at()));
        } else {
            assert_eq!(sent.at(), tried[0], "the least recently used");
        }
        tried.retain(|at| *at != sent.at());
        tried.push(sent.at());
    }
}

#[test]
fn failures_in_a_row_eject_at_once_and_an_answer_starts_anew() {
    let lab = Lab::new(HealthPolicy::standard(), 3);
    for _ in 0..10 {
        lab.results(1, 1, 0);
        lab.results(1, 0, 4);
    }
    assert_eq!(lab.ejected(), NONE);
    lab.results(1, 0, 1);
    assert_eq!(lab.ejected(), [1]);
}

/// All requests of a connection that a server ends never leave the client, at once.
#[test]
fn what_never_left_counts_by_share_and_not_in_a_row() {
    let mut lab = Lab::new(HealthPolicy::standard(), 3);
    (0..100).for_each(|_| lab.ends(0, Duration::ZERO, Outcome::NeverSent));
    assert_eq!(lab.ejected(), NONE);
    lab.results(1, 50, 0);
    lab.results(2, 50, 0);
    lab.look_after(SECOND);
    assert_eq!(lab.ejected(), [0]);
}

/// All requests in flight on a connection fail with it.
#[test]
fn what_one_connection_loses_is_one_failure_in_a_row() {
    let mut lab = Lab::new(HealthPolicy::standard(), 3);
    for _ in 0..4 {
        let all: Vec<_> = (0..10).map(|_| lab.send_to(0)).collect();
        lab.pass(MS);
        for sent in all {
            lab.pool.ended(sent, lab.now, Outcome::Lost, None);
            lab.pass(MS);
        }
    }
    assert_eq!(lab.ejected(), NONE);
    let (own, other) = (lab.send_to(0), lab.send_to(0));
    lab.pass(MS);
    lab.pool.ended(own, lab.now, Outcome::Lost, None);
    assert_eq!(lab.ejected(), [0], "the fifth");
    lab.pool.ended(other, lab.now, Outcome::Lost, None);
    // By share each counts.
    let mut lab = Lab::new(HealthPolicy::standard(), 3);
    let all: Vec<_> = (0..50).map(|_| lab.send_to(0)).collect();
    lab.pass(MS);
    for sent in all {
        lab.pool.ended(sent, lab.now, Outcome::Lost, None);
    }
    lab.results(1, 50, 0);
    lab.results(2, 50, 0);
    lab.look_after(SECOND);
    assert_eq!(lab.ejected(), [0]);
}

#[test]
fn what_is_lost_after_another_failure_counts_if_sent_later() {
    let mut lab = Lab::new(HealthPolicy::standard(), 3);
    lab.results(0, 0, 3);
    let before = lab.send_to(0);
    lab.pass(2 * MS);
    lab.results(0, 0, 1);
    lab.pass(2 * MS);
    lab.pool.ended(before, lab.now, Outcome::Lost, None);
    assert_eq!(lab.ejected(), NONE);
    lab.ends(0, MS, Outcome::Lost);
    assert_eq!(lab.ejected(), [0]);
}

/// As attempts that were sent together and reach their limits one after another.
#[test]
fn what_is_lost_at_different_times_counts_each() {
    let mut lab = Lab::new(HealthPolicy::standard(), 3);
    let all: Vec<_> = (0..5).map(|_| lab.send_to(0)).collect();
    for sent in all {
        lab.pass(21 * MS);
        lab.pool.ended(sent, lab.now, Outcome::Lost, None);
    }
    assert_eq!(lab.ejected(), [0]);
}

#[test]
fn long_silences_in_a_row_eject() {
    let mut lab = Lab::new(HealthPolicy::standard(), 3);
    let drops = |lab: &Lab, time| {
        (0..5).for_each(|_| lab.ends(1, time, Outcome::Dropped));
        lab.ejected()
    };
    assert_eq!(drops(&lab, SECOND), NONE, "what is usual is not known");
    lab = Lab::new(HealthPolicy::standard(), 3);
    lab.shares(100);
    assert_eq!(drops(&lab, 4 * MS), NONE);
    assert_eq!(drops(&lab, 50 * MS), [1]);
}

/// One hangs behind hedges that win before four times the usual time has passed.
#[test]
fn short_silences_eject_one_that_never_answers() {
    let mut lab = Lab::new(HealthPolicy::standard(), 3);
    let mut drops = |lasts: Duration, answers: bool| {
        lab.results(1, 1, 0);
        (0..100).find(|_| {
            lab.results(0, 1, 0);
            lab.results(2, 1, 0);
            lab.lasts(1, lasts, Outcome::Dropped);
            if answers {
                lab.results(1, 1, 0);
            }
            lab.look_after(500 * MS);
            !lab.ejected().is_empty()
        })
    };
    assert_eq!(drops(3 * MS, true), None, "it answers others");
    assert_eq!(drops(MS / 2, false), None, "it may be about to answer");
    let ejected = drops(3 * MS, false).expect("it is ejected");
    assert!(
        (20..30).contains(&ejected),
        "{ejected}: after ten intervals"
    );
}

/// Attempts at backend 1 that lose to hedges after three times the usual time, in turn.
fn lost_hedges(lab: &mut Lab, number: u32) {
    (0..number).for_each(|_| lab.lasts(1, 3 * MS, Outcome::Dropped));
}

#[test]
fn silence_begins_after_an_answer_a_return_and_a_pause() {
    let healthy = || {
        let mut lab = Lab::new(HealthPolicy::standard(), 3);
        lab.shares(100);
        lab.look_after(2 * SECOND);
        lab
    };
    // An hour without calls.
    let mut lab = healthy();
    lost_hedges(&mut lab, 1);
    lab.pass(3600 * SECOND);
    lost_hedges(&mut lab, 5);
    assert_eq!(lab.ejected(), NONE, "the pause");

    // An attempt that was sent long before the last answer.
    let mut lab = healthy();
    (0..3).for_each(|at| lab.results(at, 1, 0));
    let usual = 2 * SECOND;
    for _ in 0..200 {
        let sent = lab.send();
        lab.pool
            .ended(sent, lab.now + usual, Outcome::Success, None);
        lab.pass(SECOND);
    }
    let before = lab.send_to(1);
    lab.pass(6 * SECOND);
    lab.results(1, 1, 0);
    lab.look_after(SECOND);
    lab.pool.ended(before, lab.now, Outcome::Dropped, None);
    (0..5).for_each(|_| lab.lasts(1, 300 * MS, Outcome::TimedOut));
    assert_eq!(lab.ejected(), NONE, "the answer");

    // One that was ejected while it was started anew.
    let mut lab = healthy();
    let pass = |lab: &mut Lab| {
        lab.pass(SECOND);
        lab.results(0, 1, 0);
        lab.results(2, 1, 0);
    };
    for _ in 0..8 {
        lost_hedges(&mut lab, 1);
        pass(&mut lab);
    }
    lab.results(1, 0, 5);
    assert_eq!(lab.ejected(), [1]);
    (0..6).for_each(|_| pass(&mut lab));
    assert_eq!(lab.ejected(), NONE, "its time is over");
    lost_hedges(&mut lab, 1);
    assert_eq!(lab.ejected(), NONE, "the return");
}

/// An attempt's limit is often shorter than four times what an answer takes.
#[test]
fn attempts_past_their_limit_eject_also_after_a_short_silence() {
    let mut lab = Lab::new(HealthPolicy::standard(), 3);
    lab.shares(100);
    for (time, ejected) in [(MS / 2, &NONE[..]), (2 * MS, &[1])] {
        (0..5).for_each(|_| lab.ends(1, time, Outcome::TimedOut));
        assert_eq!(lab.ejected(), ejected, "{time:?}");
    }
}

#[test]
fn one_that_hangs_more_often_than_it_answers_is_ejected() {
    let mut lab = Lab::new(HealthPolicy::standard(), 3);
    lab.shares(100);
    lab.look_after(SECOND);
    for _ in 0..10 {
        lab.results(1, 3, 0);
        (0..4).for_each(|_| lab.ends(1, 90 * MS, Outcome::Dropped));
    }
    assert_eq!(lab.ejected(), NONE);
    lab.look_after(SECOND);
    assert_eq!(lab.ejected(), [1]);
}

#[test]
fn an_ejected_backend_gets_no_call_while_there_are_others() {
    let mut lab = after_failures(3, 1);
    assert_eq!(lab.shares(500)[1], 0);
    // Not as a further attempt either, as long as a healthy one is there.
    let sent = lab.try_send(&[0, 2], false).unwrap();
    assert_eq!((sent.at(), sent.untried()), (0, false));
}

#[test]
fn of_three_one_is_ejected_at_most() {
    let ejected = |backends| {
        let lab = Lab::new(HealthPolicy::standard(), backends);
        (0..backends).for_each(|at| lab.results(at, 0, 5));
        lab.ejected().len()
    };
    assert_eq!([2, 3, 4, 6, 9].map(ejected), [1, 1, 2, 2, 3]);
}

#[test]
fn if_all_are_ejected_all_are_used() {
    let policy = HealthPolicy::standard().max_ejection_percent(100);
    let mut lab = Lab::new(policy, 3);
    (0..3).for_each(|at| lab.results(at, 0, 5));
    assert_eq!(lab.ejected(), [0, 1, 2]);
    let mut tried = Vec::new();
    for round in 0..3 {
        let sent = lab.try_send(&tried, false).unwrap();
        assert_eq!(sent.untried(), round < 2);
        tried.push(sent.at());
        lab.pool.ended(sent, lab.now, Outcome::Dropped, None);
    }
    assert_eq!(lab.try_send(&tried, false).unwrap().at(), tried[0]);
    // The first that answers is back.
    let sent = lab.send();
    let at = sent.at();
    lab.pass(MS);
    lab.pool.ended(sent, lab.now, Outcome::Success, None);
    assert!(!lab.ejected().contains(&at));
}

#[test]
fn only_an_attempt_that_may_lose_is_a_probe_and_one_at_a_time() {
    let mut lab = after_failures(3, 1);
    assert!(
        !lab.try_send(&[], true).unwrap().is_probe(),
        "not before its time"
    );
    lab.pass(SECOND + MS);
    assert!(!lab.try_send(&[0], false).unwrap().is_probe());
    assert!(
        !lab.try_send(&[1], true).unwrap().is_probe(),
        "the call tried it"
    );
    let probe = lab.try_send(&[0], true).unwrap();
    assert_eq!(
        (probe.at(), probe.is_probe(), probe.untried()),
        (1, true, true)
    );
    assert!(
        !lab.try_send(&[0], true).unwrap().is_probe(),
        "one is in flight"
    );
    lab.pool.ended(probe, lab.now, Outcome::Failure, None);
    assert_eq!(lab.ejected(), [1]);
    assert!(
        !lab.try_send(&[0], true).unwrap().is_probe(),
        "not at once again"
    );
    lab.pass(SECOND);
    let probe = lab.try_send(&[0], true).unwrap();
    lab.pass(MS);
    lab.pool.ended(probe, lab.now, Outcome::Success, None);
    assert_eq!(lab.ejected(), NONE, "long before its time is over");
}

#[test]
fn one_that_has_pushed_back_gets_no_probe_meanwhile() {
    let mut lab = Lab::new(HealthPolicy::standard(), 3);
    lab.shares(100);
    let hold = Some(3 * SECOND);
    for _ in 0..5 {
        let sent = lab.send_to(1);
        lab.pool.ended(sent, lab.now + MS, Outcome::Failure, hold);
    }
    assert_eq!(lab.ejected(), [1]);
    lab.pass(2 * SECOND);
    assert!(!lab.try_send(&[0], true).unwrap().is_probe());
    lab.pass(SECOND + 2 * MS);
    assert!(lab.try_send(&[0], true).unwrap().is_probe());
}

#[test]
fn the_rescue_of_a_call_is_no_probe() {
    let mut lab = after_failures(4, 1);
    lab.pass(SECOND + MS);
    lab.results(0, 0, 1);
    assert!(!lab.try_send(&[0], true).unwrap().is_probe());
    lab.results(0, 1, 0);
    assert!(lab.try_send(&[0], true).unwrap().is_probe());
}

#[test]
fn one_that_returns_gets_its_share_little_by_little() {
    let mut lab = after_failures(3, 1);
    lab.pass(SECOND + MS);
    let probe = lab.try_send(&[0], true).unwrap();
    lab.pool.ended(probe, lab.now + MS, Outcome::Success, None);
    let by_second: Vec<_> = (0..7).map(|_| lab.shares(1000)[1]).collect();
    assert!(by_second[0] < 120, "{by_second:?}");
    assert!((100..300).contains(&by_second[2]), "{by_second:?}");
    assert!(
        by_second[5..]
            .iter()
            .all(|share| (280..390).contains(share)),
        "{by_second:?}"
    );
}

#[test]
fn what_was_sent_before_it_returned_does_not_eject_it() {
    let mut lab = Lab::new(HealthPolicy::standard(), 3);
    lab.shares(100);
    let old: Vec<_> = (0..50).map(|_| lab.send_to(1)).collect();
    lab.results(1, 0, 5);
    assert_eq!(lab.ejected(), [1]);
    lab.pass(SECOND + MS);
    let probe = lab.try_send(&[0], true).unwrap();
    assert!(probe.is_probe());
    lab.pass(MS);
    lab.pool.ended(probe, lab.now, Outcome::Success, None);
    assert_eq!(lab.ejected(), NONE);
    lab.pass(MS);
    for sent in old {
        lab.pool.ended(sent, lab.now, Outcome::Failure, None);
    }
    assert_eq!(lab.ejected(), NONE);
    lab.look_after(SECOND);
    assert_eq!(lab.ejected(), NONE, "nor by their share");
    let status = lab.pool.status(lab.now);
    assert!(status.iter().all(|one| one.in_flight == 0));
    lab.results(1, 0, 5);
    assert_eq!(lab.ejected(), [1], "later ones do");
}

#[test]
fn one_that_returns_by_time_is_ejected_by_its_first_failure() {
    let mut lab = after_failures(3, 1);
    lab.look_after(7 * SECOND);
    assert_eq!(lab.ejected(), NONE);
    lab.results(1, 0, 1);
    assert_eq!(lab.ejected(), [1]);
}

#[test]
fn pushback_keeps_load_away_as_long_as_it_says() {
    let mut lab = Lab::new(HealthPolicy::standard(), 2);
    lab.shares(10);
    lab.pushes_back(0, SECOND);
    assert_eq!(lab.shares(900)[0], 0);
    lab.look_after(SECOND);
    assert!(lab.shares(900)[0] > 300);
    // No longer than a minute, and not at all if all ask for it.
    for at in [0, 1] {
        lab.pushes_back(at, Duration::MAX);
    }
    assert!(lab.shares(900)[0] > 300);
    lab.pushes_back(0, Duration::MAX);
    lab.look_after(61 * SECOND);
    assert!(lab.shares(900)[0] > 300);
}

/// How many of these calls, all of which stay in flight, are sent to this backend.
fn left_in_flight(lab: &Lab, calls: usize, at: usize) -> usize {
    (0..calls).filter(|_| lab.send().at() == at).count()
}

#[test]
fn pushback_adds_to_what_an_answer_takes() {
    let mut lab = Lab::new(HealthPolicy::standard(), 2);
    for _ in 0..64 {
        lab.lasts(1, 100 * MS, Outcome::Success);
        lab.lasts(0, 10 * MS, Outcome::Success);
    }
    let sent = lab.send_to(0);
    lab.pass(10 * MS);
    let hold = Some(120 * MS);
    lab.pool.ended(sent, lab.now, Outcome::Success, hold);
    // 130 ms are more than 100, however many are in flight at the other one.
    assert_eq!(left_in_flight(&lab, 50, 1), 50);
    lab.pass(31 * MS);
    let to_first = left_in_flight(&lab, 50, 0);
    assert!(
        (15..=45).contains(&to_first),
        "when it is drawn: {to_first}"
    );
}

#[test]
fn a_short_pushback_attracts_no_load() {
    let mut lab = Lab::new(HealthPolicy::standard(), 4);
    for _ in 0..64 {
        for (at, took) in [(0, 10), (1, 40), (2, 40), (3, 40)] {
            lab.lasts(at, took * MS, Outcome::Success);
        }
    }
    lab.pushes_back(0, 20 * MS);
    let to_first = left_in_flight(&lab, 400, 0);
    assert!((50..=120).contains(&to_first), "{to_first}");
}

#[test]
fn if_all_have_pushed_back_the_one_that_is_free_first_is_used() {
    let mut lab = Lab::new(HealthPolicy::standard(), 2);
    lab.shares(100);
    for (at, hold) in [(0, 60 * SECOND), (1, 5 * MS)] {
        lab.pushes_back(at, hold);
    }
    assert_eq!(left_in_flight(&lab, 100, 1), 100);
}

#[test]
fn a_slow_start_sends_nothing_to_one_that_has_pushed_back() {
    let mut lab = after_failures(2, 1);
    lab.look_after(7 * SECOND);
    assert_eq!(lab.ejected(), NONE);
    lab.pushes_back(0, 60 * SECOND);
    assert_eq!(lab.shares(900), [0, 900]);
}

/// Even so it would answer sooner, but it has a tenth of its share.
#[test]
fn one_that_has_pushed_back_keeps_its_slow_start() {
    let mut lab = after_failures(2, 1);
    lab.look_after(7 * SECOND);
    for _ in 0..64 {
        for (at, took) in [(0, 40), (1, 1)] {
            lab.ends(at, took * MS, Outcome::Success);
        }
    }
    lab.pushes_back(1, 5 * MS);
    let to_second = left_in_flight(&lab, 200, 1);
    assert!(to_second < 40, "{to_second}");
}

#[test]
fn beside_one_that_has_pushed_back_the_others_are_compared() {
    let mut lab = Lab::new(HealthPolicy::standard(), 3);
    lab.shares(100);
    lab.pushes_back(2, 60 * SECOND);
    let _busy: Vec<_> = (0..200).map(|_| lab.send_to(1)).collect();
    assert_eq!(lab.shares(150), [150, 0, 0]);
}

/// The longest pushback of each of these counts.
fn held(lab: &Lab, backends: std::ops::Range<usize>) {
    for at in backends {
        for hold in [3 * SECOND, MS] {
            lab.pushes_back(at, hold);
        }
    }
}

#[test]
fn those_without_pushback_get_all_within_the_share() {
    let mut lab = Lab::new(HealthPolicy::standard(), 5);
    held(&lab, 0..2);
    lab.pass(SECOND);
    let shares = lab.shares(900);
    assert_eq!(shares[..2], [0, 0], "{shares:?}");
}

/// Five clients of many that are over their own limits must not leave all load to one backend.
#[test]
fn pushbacks_take_no_more_backends_out_than_failures_may() {
    let mut lab = Lab::new(HealthPolicy::standard(), 5);
    held(&lab, 0..4);
    lab.pass(SECOND);
    let shares = lab.shares(900);
    assert!(shares.iter().all(|share| *share > 50), "{shares:?}");
    assert!(shares[4] < 500, "{shares:?}");
    // One whose slow start has begun does not leave its load to those.
    let mut lab = Lab::new(HealthPolicy::standard(), 5);
    lab.results(4, 0, 5);
    lab.look_after(7 * SECOND);
    held(&lab, 0..4);
    let to_last = left_in_flight(&lab, 900, 4);
    assert!(to_last > 300, "{to_last}");
    // One that is ejected is out too.
    let mut lab = Lab::new(HealthPolicy::standard(), 5);
    lab.results(4, 0, 5);
    held(&lab, 0..2);
    lab.pass(SECOND);
    let shares = lab.shares(900);
    assert!(shares[..4].iter().all(|share| *share > 50), "{shares:?}");
    assert_eq!(shares[4], 0);
}

/// One of two may be ejected: it is back before the other one fails, and no attempt has asked it.
#[test]
fn an_ejected_backend_is_asked_while_all_others_fail() {
    let lab = Lab::new(HealthPolicy::standard(), 2);
    lab.results(0, 0, 5);
    assert_eq!(lab.ejected(), [0]);
    lab.results(1, 0, 4);
    let again = lab.try_send(&[1], false).unwrap();
    assert_eq!(
        (again.at(), again.untried()),
        (1, false),
        "it may be chance"
    );
    lab.pool.ended(again, lab.now, Outcome::Failure, None);
    let again = lab.try_send(&[1], false).unwrap();
    assert_eq!(again.at(), 0);
    lab.pool.ended(again, lab.now, Outcome::Success, None);
    assert_eq!(lab.ejected(), NONE, "it answered");
    lab.results(1, 0, 5);
    assert_eq!(lab.ejected(), [1]);
}

/// First attempts too, because they have no other way to find out.
#[test]
fn all_are_used_while_those_that_are_left_should_be_ejected() {
    let mut lab = Lab::new(HealthPolicy::standard().max_ejection_percent(1), 3);
    lab.results(0, 0, 5);
    lab.results(1, 0, 5);
    let shares = lab.shares(300);
    assert_eq!(shares[0], 0, "{shares:?}");
    let mut lab = Lab::new(HealthPolicy::standard().max_ejection_percent(1), 3);
    (0..3).for_each(|at| lab.results(at, 0, 5));
    assert_eq!(lab.ejected(), [0]);
    let shares = lab.shares(300);
    // The ejected one answers, returns, and begins with a tenth of its share.
    assert!(shares[0] > 3, "{shares:?}");
    assert!(shares[1..].iter().all(|share| *share > 10), "{shares:?}");
}

#[test]
fn an_estimate_that_nothing_renews_is_forgotten() {
    let mut lab = Lab::new(HealthPolicy::standard().consecutive_failures(None), 2);
    lab.shares(100);
    lab.ends(0, SECOND, Outcome::Dropped);
    assert_eq!(lab.shares(900)[0], 0);
    for _ in 0..12 {
        lab.look_after(SECOND);
        lab.shares(1);
    }
    assert!(lab.shares(900)[0] > 300);
}

/// A stream whose head is late may last for hours.
#[test]
fn an_estimate_is_forgotten_also_with_an_attempt_in_flight() {
    let mut lab = Lab::new(HealthPolicy::standard().consecutive_failures(None), 2);
    lab.shares(100);
    let (stream, sent) = (lab.send_to(0), lab.send_to(0));
    lab.pool
        .ended(sent, lab.now + SECOND, Outcome::Dropped, None);
    assert_eq!(lab.shares(900)[0], 0);
    for _ in 0..12 {
        lab.look_after(SECOND);
        lab.shares(1);
    }
    assert!(lab.pool.status(lab.now)[0].latency < Some(3 * MS));
    lab.pool.ended(stream, lab.now, Outcome::Dropped, None);
}

#[test]
fn an_empty_list_has_no_backend() {
    let lab = Lab::new(HealthPolicy::standard(), 0);
    assert!(lab.try_send(&[], false).is_none());
    assert!(lab.try_send(&[3], true).is_none());
}

#[test]
fn a_new_backend_joins_with_the_latency_of_the_others() {
    let mut lab = Lab::new(HealthPolicy::standard(), 2);
    lab.shares(2000);
    lab.pool = lab.pool.changed(&[Some(0), Some(1), None], lab.now);
    let first = lab.shares(500)[2];
    assert!((1..80).contains(&first), "{first}");
    lab.pass(6 * SECOND);
    let later = lab.shares(900)[2];
    assert!((250..350).contains(&later), "{later}");
}
