use std::sync::{Arc, Mutex};
use std::time::Duration;

use reattempt::backoff::Backoff;
use reattempt::reason::{KV_ERROR_MAP_RETRY_INDICATED, KV_LOCKED};
use reattempt::strategy::{BestEffort, MaxAttempts};
use reattempt::{
    Backend, Call, CallContext, DeadlineLayer, Decision, Failure, HasCallContext, OnDeadline,
    RetryLayer, RetryStrategy, RetryView, Stage, Surface,
};
use tokio::time::Instant;
use tower::{ServiceBuilder, ServiceExt};

use crate::kv::{ErrorMap, ErrorMapStrategy, ErrorMaps, KvClassifier};
use crate::testing::{Answer, Lost, Request, map};

const CONSTANT: &str = r#"{"strategy": "constant", "interval": 25, "after": 10, "ceil": 5}"#;
const LINEAR: &str = r#"{"strategy": "linear", "interval": 10, "after": 60, "ceil": 35}"#;
const EXPONENTIAL: &str =
    r#"{"strategy": "exponential", "interval": 3, "after": 50, "ceil": 100, "max-duration": 0}"#;
const AT_ONCE: &str = r#"{"strategy": "constant", "after": 0, "interval": 0}"#;
const A_DAY: &str = r#"{"strategy": "constant", "after": 86400000, "interval": 0}"#;
const MORE_THAN_A_DAY: &str = r#"{"strategy": "constant", "after": 86400001, "interval": 0}"#;
const SHORT: &str = r#"{"strategy": "constant", "interval": 10, "after": 20, "max-duration": 50}"#;

fn specs() -> Arc<ErrorMap> {
    map(&[
        ("fff0", "auto-retry temp", CONSTANT),
        ("fff1", "auto-retry temp", LINEAR),
        ("fff2", "auto-retry temp", EXPONENTIAL),
        ("fff3", "auto-retry temp", SHORT),
        ("fff4", "retry-later", ""),
        ("fff5", "temp", ""),
        ("86", "auto-retry", CONSTANT),
        ("fff6", "auto-retry", AT_ONCE),
        ("fff7", "auto-retry", AT_ONCE),
        ("fff8", "auto-retry", A_DAY),
        ("fff9", "auto-retry", MORE_THAN_A_DAY),
    ])
}

/// The results of the calls, and how many milliseconds after the start each attempt was sent. A
/// deadline of 0 is none.
async fn sent(
    strategy: impl RetryStrategy + 'static,
    statuses: impl Fn(usize) -> u16 + Clone,
    deadline: u64,
) -> (Result<u16, Lost>, Vec<u64>) {
    let start = Instant::now();
    let sends = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&sends);
    let specs = specs();
    let service = ServiceBuilder::new()
        .layer(match deadline {
            0 => DeadlineLayer::no_timeout(),
            ms => DeadlineLayer::new(Duration::from_millis(ms)),
        })
        .layer(RetryLayer::new(KvClassifier::new(), strategy))
        .service_fn(move |call: Call<Request>| {
            let reporter = call.context().map(CallContext::reporter);
            if let Some(reporter) = reporter {
                reporter.backend(Backend::new("n1:11210"));
            }
            let mut sends = log.lock().unwrap();
            sends.push(u64::try_from(start.elapsed().as_millis()).unwrap());
            let answer = Answer::of(statuses(sends.len() - 1)).map(&specs);
            async move { Ok::<_, Lost>(answer) }
        });
    let outcome = service.oneshot(Call::new(Request::get(b"k"))).await;
    let sends = sends.lock().unwrap().clone();
    (outcome.map(|answer| answer.status), sends)
}

fn by_map() -> ErrorMapStrategy {
    ErrorMapStrategy::new(ErrorMaps::everywhere(specs()))
}

/// Returns the status for this many attempts, then success.
fn until(attempts: usize, status: u16) -> impl Fn(usize) -> u16 + Clone {
    move |n| if n + 1 < attempts { status } else { 0 }
}

/// C26 C27
#[tokio::test(start_paused = true)]
async fn a_constant_specification_waits_after_then_the_interval() {
    let (outcome, sends) = sent(by_map(), until(4, 0xfff0), 10_000).await;
    assert_eq!(outcome, Ok(0));
    assert_eq!(sends, [0, 10, 35, 60], "no ceiling for a constant interval");
}

/// C26 C27
#[tokio::test(start_paused = true)]
async fn a_linear_specification_grows_up_to_its_ceiling() {
    let (_, sends) = sent(by_map(), until(6, 0xfff1), 10_000).await;
    assert_eq!(sends, [0, 60, 70, 90, 120, 155], "no ceiling for after");
}

/// C26 C27
#[tokio::test(start_paused = true)]
async fn an_exponential_specification_is_the_interval_to_the_power() {
    let (_, sends) = sent(by_map(), until(7, 0xfff2), 10_000).await;
    assert_eq!(sends, [0, 50, 53, 62, 89, 170, 270]);
}

/// C26: the first retry at once, as `after` says.
#[tokio::test(start_paused = true)]
async fn an_interval_of_zero_is_one_millisecond() {
    let (_, sends) = sent(by_map(), until(5, 0xfff6), 10_000).await;
    assert_eq!(sends, [0, 0, 1, 2, 3]);
}

/// C26: two of them restart each other's count.
#[tokio::test(start_paused = true)]
async fn two_statuses_in_turn_are_not_retried_at_the_networks_speed() {
    let in_turn = |n: usize| [0xfff6, 0xfff7, 0xfff6, 0xfff7, 0][n];
    let (_, sends) = sent(by_map(), in_turn, 10_000).await;
    assert_eq!(sends, [0, 0, 1, 2, 3]);
}

/// C26: as of pushback.
#[tokio::test(start_paused = true)]
async fn without_a_deadline_no_delay_is_longer_than_a_day() {
    const DAY: u64 = 86_400_000;
    let (outcome, sends) = sent(by_map(), until(2, 0xfff8), 0).await;
    assert_eq!((outcome, sends), (Ok(0), vec![0, DAY]));
    let (outcome, sends) = sent(by_map(), until(2, 0xfff9), 0).await;
    assert_eq!((outcome, sends), (Ok(0xfff9), vec![0]));
    let (outcome, sends) = sent(by_map(), until(2, 0xfff9), 2 * DAY).await;
    assert_eq!((outcome, sends), (Ok(0), vec![0, DAY + 1]));
}

/// C28
#[tokio::test(start_paused = true)]
async fn max_duration_bounds_the_retries_and_includes_after() {
    let (outcome, sends) = sent(by_map(), |_| 0xfff3, 10_000).await;
    assert_eq!(outcome, Ok(0xfff3), "the failure itself, at once");
    assert_eq!(sends, [0, 20, 30, 40, 50]);
    let (outcome, sends) = sent(by_map(), |_| 0xfff3, 35).await;
    assert_eq!(outcome, Err(Lost::Elapsed), "the smaller limit applies");
    assert_eq!(sends, [0, 20, 30]);
}

/// C28 C29: the time starts at the first failure with the status; earlier failures with other
/// statuses do not count.
#[tokio::test(start_paused = true)]
async fn max_duration_counts_from_the_first_failure_with_the_status() {
    // Six temporary failures take 1 + 2 + 4 + 8 + 16 + 32 = 63 ms.
    let (outcome, sends) = sent(by_map(), |n| if n < 6 { 0x86 } else { 0xfff3 }, 10_000).await;
    assert_eq!(outcome, Ok(0xfff3));
    assert_eq!(sends[6..], [63, 83, 93, 103, 113]);
}

/// C28 C29: failures that alternate are bounded by the deadline alone.
#[tokio::test(start_paused = true)]
async fn max_duration_restarts_after_another_failure() {
    let codes = |n| if n == 3 { 0x86 } else { 0xfff3 };
    let (outcome, sends) = sent(by_map(), codes, 10_000).await;
    assert_eq!(outcome, Ok(0xfff3));
    assert_eq!(sends[..4], [0, 20, 30, 40]);
    let again: Vec<_> = sends[4..].iter().map(|at| at - sends[4]).collect();
    assert_eq!(again, [0, 20, 30, 40, 50]);
    let (outcome, sends) = sent(by_map(), |n| [0xfff3, 0x86][n % 2], 10_000).await;
    assert_eq!(outcome, Err(Lost::Elapsed));
    assert!(sends.last() > Some(&9_000), "{sends:?}");
}

/// Decisions that no specification makes are left to the other strategy, for all failures.
#[test]
fn the_other_strategy_decides_the_deadline_and_which_failure() {
    #[derive(Debug)]
    struct First;
    impl RetryStrategy for First {
        fn decide(&self, _: &RetryView<'_>) -> Decision {
            Decision::Stop
        }
        fn on_deadline(&self) -> Option<OnDeadline> {
            Some(OnDeadline::GiveUp)
        }
        fn holds(&self) -> bool {
            true
        }
        fn surface(&self, _: &Failure, _: &Failure) -> Surface {
            Surface::Held
        }
    }
    let failure = Failure::new(KV_LOCKED, Stage::Response);
    let plain = by_map();
    assert_eq!(
        (plain.on_deadline(), plain.holds()),
        (Some(OnDeadline::Cap), false)
    );
    assert_eq!(plain.surface(&failure, &failure), Surface::New);
    let first = by_map().otherwise(First);
    assert_eq!(
        (first.on_deadline(), first.holds()),
        (Some(OnDeadline::GiveUp), true)
    );
    assert_eq!(first.surface(&failure, &failure), Surface::Held);
    let open = by_map().otherwise(MaxAttempts::standard());
    assert_eq!(open.on_deadline(), Some(OnDeadline::Cap));
}

/// A specification has no maximum of attempts: no server makes its retries faster.
#[test]
fn a_specification_is_a_lower_bound_of_a_pushback() {
    let ms = Duration::from_millis;
    let by_map = by_map().otherwise(MaxAttempts::standard());
    let asked = |reason, asked| {
        let failure = Failure::new(reason, Stage::Response);
        by_map.delay_asked(&failure, ms(asked), ms(20))
    };
    assert_eq!(asked(KV_LOCKED, 1), ms(1));
    assert_eq!(asked(KV_ERROR_MAP_RETRY_INDICATED, 1), ms(20));
    assert_eq!(asked(KV_ERROR_MAP_RETRY_INDICATED, 30), ms(30));
}

/// C7: a maximum of attempts gives up at the deadline elsewhere, but not in this protocol.
#[tokio::test(start_paused = true)]
async fn any_strategy_waits_for_the_deadline_by_default() {
    let attempts = || MaxAttempts::new(9, Backoff::constant(Duration::from_millis(20)));
    let began = Instant::now();
    let ended = || began.elapsed().as_millis();
    let (outcome, sends) = sent(attempts(), |_| 0x86, 30).await;
    assert_eq!((outcome, sends), (Err(Lost::Elapsed), vec![0, 20]));
    assert_eq!(ended(), 30);
    let by_map = by_map().otherwise(attempts());
    let (outcome, sends) = sent(by_map, |_| 0x86, 30).await;
    assert_eq!((outcome, sends), (Err(Lost::Elapsed), vec![0, 20]));
    assert_eq!(ended(), 60);
    let gives_up = attempts().on_deadline(OnDeadline::GiveUp);
    let (outcome, sends) = sent(gives_up, |_| 0x86, 30).await;
    assert_eq!((outcome, sends), (Ok(0x86), vec![0, 20]));
    assert_eq!(ended(), 80);
}

/// C29
#[tokio::test(start_paused = true)]
async fn another_status_restarts_the_count() {
    let codes = [0xfff0, 0xfff0, 0xfff1, 0xfff0, 0x07, 0xfff0, 0];
    let (outcome, sends) = sent(by_map(), move |n| codes[n], 10_000).await;
    assert_eq!(outcome, Ok(0));
    // 10 and 25 for the first status; 60 for the other; 10 again; not-my-vbucket's own delay; 10
    // again.
    assert_eq!(sends[..5], [0, 10, 35, 95, 105]);
    assert_eq!(sends[6] - sends[5], 10);
}

/// C29
#[tokio::test(start_paused = true)]
async fn a_status_that_is_not_retryable_fails_at_once() {
    let codes = [0xfff0, 0xfff5];
    let (outcome, sends) = sent(by_map(), move |n| codes[n], 10_000).await;
    assert_eq!((outcome, sends), (Ok(0xfff5), vec![0, 10]));
}

/// C30
#[tokio::test(start_paused = true)]
async fn any_other_strategy_uses_its_own_numbers() {
    let (_, sends) = sent(BestEffort::new(), until(5, 0xfff0), 10_000).await;
    assert_eq!(sends, [0, 1, 3, 7, 15]);
}

/// C16: a specification for a known status is not used either.
#[tokio::test(start_paused = true)]
async fn what_has_no_specification_is_left_to_another_strategy() {
    for status in [0x86, 0xfff4] {
        let (_, sends) = sent(by_map(), until(4, status), 10_000).await;
        assert_eq!(sends, [0, 1, 3, 7], "{status:x}");
    }
    let once = || by_map().otherwise(MaxAttempts::new(2, Backoff::controlled()));
    let (outcome, sends) = sent(once(), |_| 0x86, 10_000).await;
    assert_eq!((outcome, sends), (Ok(0x86), vec![0, 1]));
    let (_, sends) = sent(once(), until(4, 0xfff0), 10_000).await;
    assert_eq!(sends.len(), 4, "it ends a call with its own failures only");
}

/// C22
#[tokio::test(start_paused = true)]
async fn the_specification_is_that_of_the_node_that_answered() {
    let maps = ErrorMaps::new();
    maps.insert(Backend::new("n2:11210"), specs());
    let (_, sends) = sent(ErrorMapStrategy::new(maps.clone()), until(3, 0xfff0), 1000).await;
    assert_eq!(sends, [0, 1, 3], "another node's map does not apply");
    maps.insert(Backend::new("n1:11210"), specs());
    let (_, sends) = sent(ErrorMapStrategy::new(maps.clone()), until(3, 0xfff0), 1000).await;
    assert_eq!(sends, [0, 10, 35]);
    maps.remove(&Backend::new("n1:11210"));
    assert!(maps.of(Some(&Backend::new("n1:11210"))).is_none());
}

#[test]
fn nodes_with_equal_maps_share_one() {
    let maps = ErrorMaps::new();
    let node = |number| Backend::new(format!("n{number}:11210"));
    (0..3).for_each(|number| maps.insert(node(number), specs()));
    let of = |number| maps.of(Some(&node(number))).unwrap();
    assert!(Arc::ptr_eq(&of(0), &of(1)) && Arc::ptr_eq(&of(1), &of(2)));
    let other = ErrorMap::parse(br#"{"version":2,"revision":9,"errors":{}}"#).unwrap();
    maps.insert(node(1), other);
    assert_eq!(of(1).revision(), 9);
    assert!(Arc::ptr_eq(&of(0), &of(2)), "the others keep theirs");
}

/// Servers name their nodes.
#[test]
fn only_the_nodes_that_were_inserted_last_keep_their_maps() {
    let maps = ErrorMaps::new();
    let node = |number| Backend::new(format!("n{number}:11210"));
    (0..256).for_each(|number| maps.insert(node(number), specs()));
    maps.insert(node(0), specs());
    (256..300).for_each(|number| maps.insert(node(number), specs()));
    let kept: Vec<u32> = (0..300)
        .filter(|number| maps.of(Some(&node(*number))).is_some())
        .collect();
    assert_eq!(kept.len(), 256);
    assert_eq!(kept[..2], [0, 45], "the first one came again");
}
