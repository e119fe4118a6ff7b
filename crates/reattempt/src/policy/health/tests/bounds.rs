//! Whatever the order of outcomes, times and lists.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::health::member::Member;

#[derive(Clone, Copy, Debug)]
enum Step {
    Send {
        tried: u8,
        may_lose: bool,
    },
    End {
        which: u8,
        outcome: Outcome,
        hold: bool,
    },
    Pass(u16),
    Change {
        keep: u8,
        new: u8,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let outcome = prop::sample::select(vec![
        Outcome::Success,
        Outcome::Failure,
        Outcome::Failure,
        Outcome::Failure,
        Outcome::Dropped,
    ]);
    prop_oneof![
        6 => (any::<u8>(), any::<bool>())
            .prop_map(|(tried, may_lose)| Step::Send { tried, may_lose }),
        6 => (any::<u8>(), outcome, any::<bool>())
            .prop_map(|(which, outcome, hold)| Step::End { which, outcome, hold }),
        1 => (0_u16..3000).prop_map(Step::Pass),
        1 => (any::<u8>(), 0_u8..4).prop_map(|(keep, new)| Step::Change { keep, new }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// O8
    #[test]
    #[cfg_attr(miri, ignore = "slow: `.ci/miri` runs it")]
    fn the_ejected_share_is_bounded_and_in_flight_is_exact(
        percent in 0_u32..=100,
        failures in 1_u32..3,
        steps in prop::collection::vec(step(), 0..400),
    ) {
        let policy = HealthPolicy::standard()
            .max_ejection_percent(percent)
            .consecutive_failures(failures)
            .failure_percentage(FailurePercentageEjection {
                threshold: 10,
                enforcement_percentage: 100,
                minimum_hosts: 1,
                request_volume: 1,
            });
        let mut lab = Lab::new(policy, 5);
        // Pools of earlier lists, with what was sent from each.
        let mut pools: Vec<(Pool, Vec<Sent>)> = Vec::new();
        let mut flying: Vec<Sent> = Vec::new();
        for step in steps {
            match step {
                Step::Send { tried, may_lose } => {
                    let len = lab.pool.status(lab.now).len();
                    let tried: Vec<_> =
                        (0..len).filter(|at| tried >> (at % 8) & 1 == 1).collect();
                    let is_out = |one: &Arc<Member>| one.is_ejected() || one.should_be_ejected();
                    let none_is_up = |lab: &Lab| lab.pool.members.iter().all(is_out);
                    let none_was_up = none_is_up(&lab);
                    let sent = lab.try_send(&tried, may_lose);
                    prop_assert_eq!(sent.is_none(), len == 0);
                    if let Some(sent) = sent {
                        let ejected = lab.ejected().contains(&sent.at());
                        prop_assert!(!ejected || sent.is_probe() || none_was_up || none_is_up(&lab));
                        prop_assert!(!sent.is_probe() || may_lose);
                        flying.push(sent);
                    }
                }
                Step::End { which, outcome, hold } => {
                    let hold = hold.then_some(SECOND);
                    let earlier = pools.iter_mut().find(|(_, sent)| !sent.is_empty());
                    if let Some((pool, sent)) = earlier.filter(|_| which % 2 == 0) {
                        let sent = sent.swap_remove(usize::from(which) % sent.len());
                        pool.ended(sent, lab.now, outcome, hold);
                    } else if !flying.is_empty() {
                        let sent = flying.swap_remove(usize::from(which) % flying.len());
                        lab.pool.ended(sent, lab.now, outcome, hold);
                    }
                }
                Step::Pass(ms) => lab.pass(u32::from(ms) * MS),
                Step::Change { keep, new } => {
                    let len = lab.pool.status(lab.now).len();
                    let kept = (0..len).filter(|at| keep >> (at % 8) & 1 == 1).map(Some);
                    let list: Vec<_> = kept.chain((0..new).map(|_| None)).take(12).collect();
                    let pool = lab.pool.changed(&list, lab.now);
                    let old = std::mem::replace(&mut lab.pool, pool);
                    pools.push((old, std::mem::take(&mut flying)));
                }
            }
            let (ejected, all) = (lab.ejected().len(), lab.pool.status(lab.now).len());
            let most = (all * percent as usize).div_ceil(100);
            prop_assert!(ejected <= most, "{} of {}", ejected, all);
        }
        for (pool, sent) in pools {
            for sent in sent {
                pool.ended(sent, lab.now, Outcome::Success, None);
            }
        }
        for sent in flying {
            lab.pool.ended(sent, lab.now, Outcome::Success, None);
        }
        let status = lab.pool.status(lab.now);
        prop_assert!(status.iter().all(|one| one.in_flight == 0));
    }
}

fn extreme_time() -> impl Strategy<Value = Duration> {
    let all = [
        Duration::ZERO,
        Duration::from_nanos(1),
        MS,
        SECOND,
        Duration::from_nanos(u64::MAX),
        Duration::MAX,
    ];
    prop::sample::select(all.to_vec())
}

fn extreme_number() -> impl Strategy<Value = u32> {
    prop::sample::select(vec![0, 1, 2, 100, u32::MAX])
}

prop_compose! {
    fn extreme_policy()(
        times in prop::array::uniform5(extreme_time()),
        numbers in prop::array::uniform9(extreme_number()),
        percent in extreme_number(),
        consecutive in prop::option::of(extreme_number()),
    ) -> HealthPolicy {
        let [interval, base, max, slow_start, probes] = times;
        HealthPolicy::standard()
            .interval(interval)
            .base_ejection_time(base)
            .max_ejection_time(max)
            .slow_start(slow_start)
            .probe_interval(probes)
            .max_ejection_percent(percent)
            .consecutive_failures(consecutive)
            .success_rate(SuccessRateEjection {
                stdev_factor: numbers[0],
                enforcement_percentage: numbers[1],
                minimum_hosts: numbers[2],
                request_volume: numbers[3],
                minimum_gap: numbers[8],
            })
            .failure_percentage(FailurePercentageEjection {
                threshold: numbers[4],
                enforcement_percentage: numbers[5],
                minimum_hosts: numbers[6],
                request_volume: numbers[7],
            })
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// No step overflows, and a list that is not empty always has a backend.
    #[test]
    #[cfg_attr(miri, ignore = "slow: `.ci/miri` runs it")]
    fn extreme_policies_do_no_harm(
        policies in prop::collection::vec(extreme_policy(), 1..4),
        backends in 0_usize..4,
        steps in prop::collection::vec(
            (any::<u8>(), any::<bool>(), extreme_time(), prop::option::of(extreme_time())),
            0..100,
        ),
    ) {
        let live = LiveHealthPolicy::new(policies[0].clone());
        let mut lab = Lab::new(HealthPolicy::standard(), 0);
        lab.pool = Pool::new(&live, backends, lab.now);
        let breaker = CircuitBreaker::new(&live, lab.now);
        let outcomes = [Outcome::Success, Outcome::Failure, Outcome::Dropped];
        for (draw, may_lose, time, hold) in steps {
            let draw = usize::from(draw);
            live.set(policies[draw % policies.len()].clone());
            let sent = lab.try_send(&[draw % 5], may_lose);
            prop_assert_eq!(sent.is_none(), backends == 0);
            let trial = breaker.admit(lab.now);
            // Some of the times are longer than a clock runs.
            lab.pass(time.min(3600 * 24 * 365 * SECOND));
            let outcome = outcomes[draw % 3];
            if let Some(sent) = sent {
                lab.pool.ended(sent, lab.now, outcome, hold);
            }
            if let Ok(trial) = trial {
                breaker.ended(trial, lab.now, outcome);
            }
            let status = lab.pool.status(lab.now);
            prop_assert!(status.iter().all(|one| one.in_flight == 0));
            let _ = breaker.state(lab.now);
        }
    }
}

#[test]
fn the_load_of_any_number_in_flight_is_no_overflow() {
    let busy = Member::new(u64::MAX >> 28, 0);
    // One below none: 2^32 - 1 in flight.
    busy.over();
    assert!(Member::new(2, 0).load().is_less_than(busy.load()));
    assert!(!busy.load().is_less_than(Member::new(2, 0).load()));
}

#[test]
fn a_list_that_is_made_of_an_earlier_one_ejects_too() {
    let mut lab = Lab::new(HealthPolicy::standard(), 3);
    let shorter = lab.pool.changed(&[Some(0)], lab.now);
    lab.pool = lab.pool.changed(&[Some(0), Some(1), Some(2)], lab.now);
    drop(shorter);
    lab.results(1, 0, 5);
    assert_eq!(lab.ejected(), [1]);
}

/// A thread that was late may write that an earlier run of failures ejected nothing.
#[test]
fn a_refused_ejection_of_an_earlier_run_delays_no_later_one() {
    let member = Member::new(1, 0);
    member.begin_with(4);
    member.refused_after(5);
    let in_a_row = member.failed_again(None, 1).unwrap();
    assert!(member.is_due(in_a_row, 5));
    member.refused_after(in_a_row);
    let due = (6..=15).filter(|_| {
        let in_a_row = member.failed_again(None, 1).unwrap();
        member.is_due(in_a_row, 5)
    });
    assert_eq!(due.count(), 6, "from ten in a row on");
}
