//! Allocations per call and the size of each case's future, pinned to the byte: neither depends on
//! the load of the machine.

use reattempt_benches::{
    allocations_per_call, balance, cases, http_calls, kv, learned, throttles, typical, with_timers,
};

/// Tokio's timer, inline in the future of tower's timeout; its size depends on tokio's features,
/// which other packages of a build may enable.
const TIMER: usize = size_of::<tokio::time::Sleep>();

/// Case, allocations per call in the steady state, bytes of its future. A change here is a
/// decision: justify it in the commit.
#[cfg(target_pointer_width = "64")]
const PINS: [(&str, u64, usize); 14] = [
    ("bare", 0, 24),
    ("bare-call", 0, 24),
    ("call", 0, 24),
    ("route", 0, 24),
    ("throttle", 0, 24),
    ("deadline", 0, 80),
    ("retry", 0, 88),
    ("hedge", 0, 104),
    ("hedge-learned", 0, 104),
    ("pushback", 0, 64),
    ("config-poll", 0, 48),
    ("retry+throttle+deadline", 0, 144),
    ("stack", 0, 232),
    ("tower", 0, TIMER + 72),
];

/// The same for key-value responses; only the last three are calls.
#[cfg(target_pointer_width = "64")]
const KV_PINS: [(&str, u64, usize); 11] = [
    ("kv-answer", 0, 0),
    ("kv-success", 0, 0),
    ("kv-known-final", 0, 0),
    ("kv-known-retried", 0, 0),
    ("kv-retried-by-map", 0, 0),
    ("kv-not-in-map", 0, 0),
    ("kv-decision-by-map", 0, 0),
    ("kv-decision-otherwise", 0, 0),
    ("kv-client", 0, 24),
    ("kv-stack", 0, 272),
    ("kv-preset", 0, 368),
];

/// The same for HTTP calls, of which the request and the response allocate twice. With the single
/// layers the context takes six allocations and the copy of the head two, with the preset the
/// context that the transport gets takes three; a body that is kept takes one.
#[cfg(target_pointer_width = "64")]
const HTTP_CALL_PINS: [(&str, u64, usize); 8] = [
    ("http-get, bare", 2, 1),
    ("http-put, bare", 2, 1),
    ("http-get, tower", 4, TIMER + 296),
    ("http-put, tower", 4, TIMER + 296),
    ("http-get, six", 10, 544),
    ("http-put, six", 11, 544),
    ("http-get, preset", 5, 416),
    ("http-put, preset", 6, 416),
];

/// The same for backends.
#[cfg(target_pointer_width = "64")]
const BALANCE_PINS: [(&str, u64, usize); 6] = [
    ("instant", 0, 0),
    ("pick", 0, 0),
    ("pick+end", 0, 0),
    ("round-robin", 0, 40),
    ("backends", 0, 112),
    ("backends-streams", 0, 216),
];

#[cfg(target_pointer_width = "64")]
#[test]
fn allocations_and_future_sizes_are_as_pinned() {
    let found = |cases: Vec<cases::Case>| -> Vec<_> {
        let of = |case: cases::Case| {
            (
                case.name,
                allocations_per_call(case.run, total).0,
                case.future,
            )
        };
        with_timers(|| cases.into_iter().map(of).collect())
    };
    assert_eq!(found(cases::all()), PINS);
    assert_eq!(found(kv::all()), KV_PINS);
    assert_eq!(found(balance::all()), BALANCE_PINS);
    assert_eq!(found(http_calls::all()), HTTP_CALL_PINS);
    // A pending hedge's delay is in memory of the thread.
    for (name, allocations, _) in found(learned::all()) {
        assert_eq!(allocations, 0, "{name}");
    }
    // What a failing call or a pending hedge needs is in memory of the thread.
    for (name, allocations, _) in found(typical::all()) {
        assert_eq!(allocations, 0, "{name}");
    }
    // A throttle and an admission allocate nothing for a call that succeeds.
    for (name, allocations, _) in found(throttles::all()) {
        assert_eq!(allocations, 0, "{name}");
    }
}

/// The first call of a thread allocates its state. With a throttle below a deadline, which shares
/// the state already, it allocates a second one for its options.
#[test]
fn a_threads_first_call_allocates_its_state() {
    with_timers(|| {
        for case in cases::all() {
            let first = |calls| {
                std::thread::scope(|scope| {
                    let handle = tokio::runtime::Handle::current();
                    let run = move || {
                        let _guard = handle.enter();
                        allocation_counter::measure(|| {
                            (case.run)(calls);
                        })
                        .count_total
                    };
                    scope.spawn(run).join().expect("a case that works")
                })
            };
            let more = first(1) - first(0);
            let most = match case.name {
                "retry+throttle+deadline" | "stack" => 2,
                _ => 1,
            };
            assert!(more <= most, "{}: {more} allocations", case.name);
        }
    });
}

/// `reattempt::telemetry`
#[test]
fn a_counted_call_allocates_nothing() {
    let case = reattempt_benches::observed::counted();
    let (allocations, _) = with_timers(|| allocations_per_call(case.run, total));
    assert_eq!(allocations, 0);
}

/// Allocations and bytes, freed or not.
fn total(work: &mut dyn FnMut()) -> (u64, u64) {
    let counted = allocation_counter::measure(work);
    (counted.count_total, counted.bytes_total)
}
