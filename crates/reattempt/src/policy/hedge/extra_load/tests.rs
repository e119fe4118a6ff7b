use super::super::start;
use super::*;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Feeds first attempts that end a millisecond apart.
fn feed(delay: &ExtraLoad, from: u64, times: impl Iterator<Item = u64>) -> u64 {
    let mut at = from;
    for time in times {
        at += 1;
        let ended = start() + ms(at);
        delay.ended(&EndedAttempt::new(
            1,
            ended,
            ms(time),
            AttemptEnd::Succeeded,
        ));
    }
    at
}

fn view(at: u64) -> HedgeView<'static> {
    HedgeView {
        elapsed: ms(80),
        ..HedgeView::new(start() + ms(at))
    }
}

/// Eight of nine take 1 to 80 ms, one takes 200 to 280 ms, without an order.
fn mixed() -> impl Iterator<Item = u64> {
    let mut word = 1_u64;
    std::iter::repeat_with(move || {
        word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let ms = (word >> 40) % 90 + 1;
        if ms > 80 { 200 + 8 * (ms - 81) } else { ms }
    })
}

fn effort(delay: &ExtraLoad) -> f32 {
    delay.learned.lock().unwrap().effort.spent
}

#[test]
fn nothing_is_hedged_before_enough_is_known() {
    let delay = ExtraLoad::percent(10.0).unwrap();
    let at = feed(&delay, 0, 1..60);
    assert_eq!(delay.delay(&view(at)), None);
    let at = feed(&delay, at, 60..101);
    assert!(delay.delay(&view(at)).is_some());
}

#[test]
fn a_held_back_hedge_is_asked_about_later() {
    let delay = ExtraLoad::percent(1.0).unwrap();
    let at = feed(&delay, 0, (1..=100).cycle().take(200));
    let answers: Vec<_> = (0..50).map(|_| delay.admit(&view(at))).collect();
    let sent = answers
        .iter()
        .filter(|answer| **answer == HedgeAdmission::Send)
        .count();
    assert!((1..=4).contains(&sent), "{sent}");
    assert_eq!(answers[49], HedgeAdmission::After(ms(10)), "an eighth more");
    let young = HedgeView::new(start() + ms(at));
    assert_eq!(
        delay.admit(&young),
        HedgeAdmission::After(ms(1)),
        "no busy loop"
    );
}

#[test]
fn hedges_that_never_win_cost_the_effort() {
    let delay = ExtraLoad::percent(10.0).unwrap();
    let mut times = mixed();
    let mut at = feed(&delay, 0, times.by_ref().take(4096));
    let before = effort(&delay);
    for _ in 0..10_000 {
        delay.account.spend();
    }
    for _ in 0..8 {
        for _ in 0..20 {
            delay.ended(&EndedAttempt::new(
                2,
                start() + ms(at),
                ms(9),
                AttemptEnd::Lost,
            ));
        }
        at = feed(&delay, at, times.by_ref().take(512));
    }
    let after = effort(&delay);
    assert!(before >= CAUTIOUS && after < before, "{before} {after}");
}

#[test]
fn hedges_that_win_earn_the_whole_share() {
    let delay = ExtraLoad::percent(10.0).unwrap();
    let mut times = mixed();
    let mut at = 0;
    for _ in 0..24 {
        at = feed(&delay, at, times.by_ref().take(512));
        for _ in 0..20 {
            delay.ended(&EndedAttempt::new(
                2,
                start() + ms(at),
                ms(9),
                AttemptEnd::Succeeded,
            ));
        }
    }
    assert_eq!(effort(&delay), 1.0);
    let learned = delay.current().unwrap();
    // The same attempts exceed 80 and 200 ms: the shorter delay helps more.
    assert!((ms(75)..ms(85)).contains(&learned), "{learned:?}");
}

/// As slow as the share, or a little more of them: all are worth a hedge.
#[test]
fn slow_attempts_as_many_as_the_share_are_hedged() {
    for (slow, percent) in [(5, 5.0), (5, 6.0), (6, 6.0), (11, 10.0)] {
        let delay = ExtraLoad::percent(percent).unwrap();
        let mut word = 1_u64;
        let times = std::iter::repeat_with(|| {
            word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let roll = word >> 40;
            if roll % 100 < slow { 150 } else { 2 + roll % 8 }
        });
        feed(&delay, 0, times.take(2000));
        let learned = delay.current().unwrap();
        assert!(learned < ms(30), "{slow} of {percent}: {learned:?}");
    }
}

#[test]
fn a_call_that_was_dropped_is_no_trial() {
    let delay = ExtraLoad::percent(1.0).unwrap();
    delay.ended(&EndedAttempt::new(2, start(), ms(9), AttemptEnd::Dropped));
    assert_eq!(delay.lost.load(Ordering::Relaxed), 0);
}

#[test]
fn impossible_shares_are_refused() {
    for wrong in [0.0, 0.09, 50.1, -1.0, f64::NAN, f64::INFINITY] {
        assert!(ExtraLoad::percent(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn hostile_times_neither_panic_nor_hedge_at_once() {
    let delay = ExtraLoad::percent(1.0).unwrap();
    for at in 0..3000_u64 {
        let took = [Duration::ZERO, Duration::MAX, ms(1)][at as usize % 3];
        let ended = start() + ms(3000 - at);
        delay.ended(&EndedAttempt::new(1, ended, took, AttemptEnd::Lost));
        delay.ended(&EndedAttempt::new(1, ended, took, AttemptEnd::Failed));
        delay.admit(&view(at));
    }
    assert!(delay.current().is_some());
}

/// Two threads that count the 64th and the 128th attempt may come here in any order.
#[test]
fn marks_may_come_in_any_order() {
    let delay = ExtraLoad::percent(5.0).unwrap();
    let attempt = EndedAttempt::new(1, start() + ms(1), ms(1), AttemptEnd::Succeeded);
    delay.mark(128, &attempt);
    delay.mark(64, &attempt);
    let at = feed(&delay, 1, mixed().take(40_000));
    assert!(delay.delay(&view(at)).is_some(), "it still learns");
}

#[test]
fn attempts_sent_within_the_last_delay_are_not_seen() {
    let delay = ExtraLoad::percent(1.0).unwrap();
    let mut learned = delay.learned.lock().unwrap();
    assert_eq!(learned.seen(0.25e9, 1_000_000_000), 0.75);
    assert_eq!(learned.seen(4e9, 1_000_000_000), 0.5, "never less");
    let (curve, _) = delay.times.estimate(&mut learned.past);
    learned.estimated(&curve, false, 500, 500_000_000);
    assert_eq!(learned.seen(0.25e9, 1_000_000_000), 0.75);
    // After a change only those since the last estimate are known.
    learned.estimated(&curve, true, 1000, 1_000_000_000);
    assert_eq!(learned.seen(0.25e9, 1_500_000_000), 0.75);
    assert_eq!((learned.estimated_at, learned.known), (1000, 0.0));
}
