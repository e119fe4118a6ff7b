use super::*;

const MS: u64 = 1_000_000;

/// Asks for a hedge with every call; returns when one was sent.
fn all_slow(rate: u64, seconds: u64, share: f32) -> Vec<u64> {
    let window = Window::new();
    let mut sent = Vec::new();
    for call in 0..rate * seconds {
        let now = call * 1000 * MS / rate;
        if call % 16 == 0 {
            window.tick(now, call);
        }
        if window.take(now, call, share, 100.0).is_ok() {
            sent.push(now);
        }
    }
    sent
}

#[test]
fn no_second_has_more_than_its_share_and_the_spare() {
    for (share, rate) in [(0.01, 1000), (0.05, 1000), (0.1, 5000), (0.02, 20_000)] {
        let sent = all_slow(rate, 10, share);
        let most = sent.iter().map(|from| {
            sent.iter()
                .filter(|at| (*from..from + 1000 * MS).contains(at))
                .count()
        });
        let most = most.max().unwrap() as f32 / rate as f32;
        assert!(most <= share + 0.015, "{most} of {share} at {rate}");
        assert!(
            sent.len() as f32 >= 8.0 * share * rate as f32,
            "it is not stuck"
        );
    }
}

#[test]
fn the_fuller_a_second_the_longer_must_a_call_have_waited() {
    let (window, share, rate) = (Window::new(), 0.1, 1000);
    let mut refused = Vec::new();
    for call in 0..2 * rate {
        let now = call * MS;
        window.tick(now, call);
        // A hundred in the second before, and then more than their share.
        let usual = call < rate && call % 10 == 0;
        let more = call >= rate && call % 4 == 0;
        if usual || more {
            if let Err(patience) = window.take(now, call, share, 1.0) {
                refused.push(patience);
            }
        }
    }
    assert!(refused.len() > 50, "{}", refused.len());
    assert!(refused.iter().all(|patience| (1.0..1.5).contains(patience)));
    let now = 2 * rate * MS;
    let longest = refused.iter().copied().fold(1.0, f32::max);
    assert_eq!(window.take(now, 2 * rate, share, longest), Ok(()));
}

#[test]
fn few_calls_may_have_four_hedges_a_second() {
    let sent = all_slow(10, 10, 0.01);
    let first = sent.iter().filter(|at| **at < 1000 * MS).count();
    assert_eq!(first, 4);
    assert!(sent.len() >= 30, "each second again");
}

#[test]
fn a_refused_hedge_takes_nothing() {
    let window = Window::new();
    for _ in 0..1000 {
        let _ = window.take(0, 0, 0.01, 1.0);
    }
    let own = &window.slots[usize::from(window.tick(0, 0)) % SLOTS];
    assert_eq!(
        u32::from(Slot::unpack(own.load(Ordering::Relaxed)).hedges),
        LEAST
    );
}

#[test]
fn threads_together_take_no_more_than_one() {
    let window = Window::new();
    let taken: usize = std::thread::scope(|scope| {
        let take = || {
            (0..100)
                .filter(|_| window.take(0, 0, 0.01, 1.0).is_ok())
                .count()
        };
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(take)).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .sum()
    });
    assert!((1..=LEAST as usize).contains(&taken), "{taken}");
}
