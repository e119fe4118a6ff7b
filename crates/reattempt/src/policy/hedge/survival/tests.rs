use super::*;

const MS: u64 = 1_000_000;

/// The same order of uniform numbers every time.
struct Uniform(u64);

impl Uniform {
    fn next(&mut self) -> f64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.next()).ln()
    }
}

fn of(times: impl Iterator<Item = u64>) -> Curve {
    let (survival, mut past) = (Survival::new(), Past::new());
    for time in times {
        survival.count(time, true);
    }
    survival.estimate(&mut past).0
}

#[test]
fn a_route_takes_less_than_four_kibibytes() {
    assert!(size_of::<Survival>() + 512 < 4096);
    assert!(size_of::<super::super::ExtraLoad>() < 4096);
    assert!(size_of::<super::super::Percentile>() < 4096);
}

#[test]
fn every_time_has_a_bucket_that_holds_it() {
    for nanos in [0, 1, 63] {
        assert_eq!(bucket(nanos), 0);
    }
    for nanos in [1 << 40, 1 << 63, u64::MAX - 1024, u64::MAX - 1023, u64::MAX] {
        assert_eq!(bucket(nanos), BUCKETS - 1);
    }
    let mut nanos = 64;
    while nanos < 1 << 37 {
        let at = bucket(nanos);
        assert!(
            (edge(at)..edge(at + 1)).contains(&(nanos as f32)),
            "{nanos}"
        );
        nanos += nanos / 11 + 1;
    }
}

#[test]
fn a_quantile_lies_within_a_bucket_of_its_time() {
    let curve = of((1..=1000).map(|ms| ms * MS));
    for (share, ms) in [(0.5, 500.0), (0.1, 900.0), (0.01, 990.0)] {
        let found = curve.exceeded_by(share) / MS as f32;
        assert!((found / ms - 1.0).abs() < 0.02, "{found} for {ms}");
    }
}

#[test]
fn attempts_cut_short_do_not_count_as_fast() {
    let mut uniform = Uniform(1);
    let (survival, mut past) = (Survival::new(), Past::new());
    for _ in 0..1000 {
        let takes = uniform.exponential(100e6) as u64;
        // A third of them is cancelled early.
        match (uniform.next() * 3.0) as u32 {
            0 => survival.count(takes / 3, false),
            _ => survival.count(takes, true),
        };
    }
    // Cancelling what would have taken long at a third of its time is no independent censoring,
    // so the exact share is not known; but a count of ended attempts alone puts it at 10.5 %, and
    // one that takes cancelled attempts for ended ones at 7.5 %.
    let (curve, _) = survival.estimate(&mut past);
    let tail = curve.exceeded_by(0.1) / 1e6;
    assert!(tail > 230.0, "{tail}");
}

#[test]
fn independent_cancelling_leaves_the_tail_unbiased() {
    let mut uniform = Uniform(2);
    let (survival, mut past) = (Survival::new(), Past::new());
    for _ in 0..1000 {
        let (takes, cut) = (uniform.exponential(100e6), uniform.exponential(150e6));
        if cut < takes {
            survival.count(cut as u64, false);
        } else {
            survival.count(takes as u64, true);
        }
    }
    let tail = survival.estimate(&mut past).0.exceeded_by(0.1) / 1e6;
    assert!((tail / 230.3 - 1.0).abs() < 0.15, "{tail} instead of 230");
}

#[test]
fn an_independent_second_attempt_wins_as_often_as_chance_says() {
    let mut uniform = Uniform(3);
    let times: Vec<u64> = (0..1000)
        .map(|_| uniform.exponential(10e6) as u64)
        .collect();
    let curve = of(times.into_iter());
    // Without memory, the rest of the first attempt is as long as the second.
    let wins = curve.wins_after(10e6);
    assert!((wins - 0.5).abs() < 0.07, "{wins}");
    let atoms = of((0..1000).map(|at| if at % 20 == 0 { 100 * MS } else { 10 * MS }));
    assert!(atoms.wins_after(20e6) > 0.9);
    assert!(atoms.wins_after(98e6) < 0.1);
}

#[test]
fn a_route_that_changes_forgets_what_it_was() {
    let mut uniform = Uniform(4);
    let (survival, mut past) = (Survival::new(), Past::new());
    let mut changes = Vec::new();
    for call in 0..40_000_u64 {
        let mean = if call < 20_000 { 10e6 } else { 30e6 };
        let counted = survival.count(uniform.exponential(mean) as u64, true);
        if counted % 512 == 0 && survival.estimate(&mut past).1 {
            changes.push(call);
        }
    }
    let first = changes[0];
    assert!((20_000..22_048).contains(&first), "{changes:?}");
    assert!(changes.iter().all(|call| *call < 23_000), "{changes:?}");
    let tail = survival.estimate(&mut past).0.exceeded_by(0.02) / 1e6;
    assert!((tail / 117.4 - 1.0).abs() < 0.05, "{tail}");
}

#[test]
fn the_past_stays_bounded() {
    let (survival, mut past) = (Survival::new(), Past::new());
    for _ in 0..200_000_u64 {
        if survival.count(MS, true) % 512 == 0 {
            survival.estimate(&mut past);
        }
    }
    let kept = total(&past.0);
    assert!(
        (MOST_PAST - EPOCH..=MOST_PAST + EPOCH).contains(&kept),
        "{kept}"
    );
}

/// A calm route is estimated once a third of the past is new.
#[test]
fn the_past_is_as_long_however_seldom_it_is_estimated() {
    for every in [1024, 8192] {
        let (survival, mut past) = (Survival::new(), Past::new());
        for n in 1..=500_000_u64 {
            let slow = n % 20 == 0;
            survival.count(if slow { 1_000_000 } else { 0 }, true);
            if n % every == 0 {
                survival.estimate(&mut past);
            }
        }
        let kept = total(&past.0);
        assert!(kept <= MOST_PAST + 4 * EPOCH, "{kept}");
        assert!(kept >= MOST_PAST - 4 * EPOCH, "{kept}");
        let slow = ended_and_cut(past.0[bucket(1_000_000)]).0;
        let share = f64::from(slow) / f64::from(kept);
        assert!((0.047..0.053).contains(&share), "{share}");
    }
}

/// Words have two halves.
#[test]
fn more_attempts_than_a_bucket_holds_stay_on_their_side() {
    let (survival, mut past) = (Survival::new(), Past::new());
    for _ in 0..MOST {
        survival.count(MS, true);
    }
    survival.estimate(&mut past);
    survival.count(MS, true);
    let (curve, _) = survival.estimate(&mut past);
    assert_eq!(curve.attempts(), MOST as f32);
}
