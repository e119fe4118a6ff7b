//! The published parameters, one table per behaviour, through the real layers on paused time.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Request, Response};
use reattempt::backoff::{Jitter, Randomness};
use reattempt::{
    DeadlineLayer, Decision, PushbackLayer, RetryInfo, RetryLayer, RetryStrategy, RetryThrottle,
    RetryView, StopReason, ThrottleLayer,
};
use tokio::time::Instant;
use tower::{BoxError, ServiceBuilder, ServiceExt};

use super::*;
use crate::{HttpClassifier, HttpPushback};

/// How the service handles one attempt.
#[derive(Clone, Copy)]
enum Step {
    Says(u16),
    Asks(u16, &'static str),
    Hangs,
}
use Step::{Asks, Hangs, Says};

/// The result of one call.
struct CallResult {
    status: u16,
    /// When each attempt was sent, in milliseconds after the start of the call.
    sent: Vec<u128>,
    /// The quota when each attempt was sent.
    tokens: Vec<u32>,
    stopped: Option<StopReason>,
}

struct Client {
    quota: Arc<AwsQuota>,
    strategy: AwsStandard,
}

impl Client {
    /// Without jitter, as in the published tables.
    fn new(version: AwsVersion, tokens: u32) -> Self {
        Self {
            quota: Arc::new(AwsQuota::of(version, tokens)),
            strategy: AwsStandard::new(version).jitter(Jitter::None),
        }
    }

    fn strategy(mut self, change: impl FnOnce(AwsStandard) -> AwsStandard) -> Self {
        self.strategy = change(self.strategy);
        self
    }

    async fn call(&self, steps: &[Step]) -> CallResult {
        let steps: Vec<Step> = steps.into();
        let script = Arc::new(Mutex::new(steps.into_iter()));
        let seen = Arc::new(Mutex::new((Vec::new(), Vec::new())));
        let (quota, log, began) = (self.quota.clone(), seen.clone(), Instant::now());
        let service = ServiceBuilder::new()
            .layer(ThrottleLayer::new(self.quota.clone()))
            .layer(RetryLayer::new(
                HttpClassifier::new().retryable(AwsVersion::STATUSES),
                self.strategy.clone(),
            ))
            // One millisecond per attempt: an attempt that hangs is a timeout.
            .layer(DeadlineLayer::new(Duration::from_millis(1)))
            .layer(PushbackLayer::new(HttpPushback::amz()))
            .service_fn(move |_: Request<()>| {
                let step = script.lock().unwrap().next().expect("one attempt too many");
                let mut log = log.lock().unwrap();
                log.0.push(began.elapsed().as_millis());
                log.1.push(quota.tokens());
                async move {
                    let response = Response::builder();
                    Ok::<_, BoxError>(match step {
                        Says(status) => response.status(status).body(())?,
                        Asks(status, after) => {
                            let response = response.status(status);
                            response.header("x-amz-retry-after", after).body(())?
                        }
                        Hangs => std::future::pending().await,
                    })
                }
            });
        let mut request = Request::new(());
        let watch = RetryInfo::track(&mut request);
        let outcome = service.oneshot(request).await;
        let (sent, tokens) = std::mem::take(&mut *seen.lock().unwrap());
        CallResult {
            status: outcome.map_or(0, |response| response.status().as_u16()),
            sent,
            tokens,
            stopped: watch.info().stopped(),
        }
    }
}

async fn standard(version: AwsVersion, steps: &[Step]) -> (CallResult, u32) {
    let client = Client::new(version, AwsVersion::TOKENS);
    let result = client.call(steps).await;
    (result, client.quota.tokens())
}

/// 2.0: 1 s, 2 s; 500, 495, 490, then the last price is returned.
#[tokio::test(start_paused = true)]
async fn version_2_0_takes_5_and_gives_the_last_price_back() {
    let (result, left) = standard(AwsVersion::V2_0, &[Says(500), Says(502), Says(200)]).await;
    assert_eq!(result.status, 200);
    assert_eq!(result.sent, [0, 1000, 3000]);
    assert_eq!(result.tokens, [500, 495, 490]);
    assert_eq!(left, 495);
}

/// 2.0: a timeout costs 10.
#[tokio::test(start_paused = true)]
async fn version_2_0_takes_10_after_a_timeout() {
    let (result, left) = standard(AwsVersion::V2_0, &[Hangs, Says(503), Says(200)]).await;
    assert_eq!(result.tokens, [500, 490, 485]);
    assert_eq!(result.sent, [0, 1001, 3001]);
    assert_eq!(left, 490);
    let (result, left) = standard(AwsVersion::V2_0, &[Hangs, Says(200)]).await;
    assert_eq!((result.tokens, left), (vec![500, 490], 500));
}

/// 2.0 has the same price and back-off for throttling and other errors.
#[tokio::test(start_paused = true)]
async fn version_2_0_treats_throttling_as_the_rest() {
    let (result, left) = standard(AwsVersion::V2_0, &[Says(429), Says(429), Says(429)]).await;
    assert_eq!(result.status, 429);
    assert_eq!(result.stopped, Some(StopReason::Attempts));
    assert_eq!((result.sent, left), (vec![0, 1000, 3000], 490));
}

/// 2.1: 50 ms, 100 ms; 500, 486, 472, then the last price is returned.
#[tokio::test(start_paused = true)]
async fn version_2_1_takes_14_and_gives_the_last_price_back() {
    let (result, left) = standard(AwsVersion::V2_1, &[Says(500), Says(500), Says(200)]).await;
    assert_eq!(result.status, 200);
    assert_eq!(result.sent, [0, 50, 150]);
    assert_eq!(result.tokens, [500, 486, 472]);
    assert_eq!(left, 486);
}

/// 2.1: the price of a failed call is not returned.
#[tokio::test(start_paused = true)]
async fn version_2_1_ends_after_three_attempts() {
    let (result, left) = standard(AwsVersion::V2_1, &[Says(502); 3]).await;
    assert_eq!(result.stopped, Some(StopReason::Attempts));
    assert_eq!((result.sent, left), (vec![0, 50, 150], 472));
}

/// 2.1: a timeout counts as any other transient error.
#[tokio::test(start_paused = true)]
async fn version_2_1_takes_14_after_a_timeout_too() {
    let (result, left) = standard(AwsVersion::V2_1, &[Hangs, Says(200)]).await;
    assert_eq!((result.tokens, left), (vec![500, 486], 500));
}

/// 2.1: throttling costs 5 and starts at 1 s.
#[tokio::test(start_paused = true)]
async fn version_2_1_takes_5_and_waits_longer_after_throttling() {
    let (result, left) = standard(AwsVersion::V2_1, &[Says(429), Says(200)]).await;
    assert_eq!(
        (result.sent, result.tokens, left),
        (vec![0, 1000], vec![500, 495], 500)
    );
    // The back-off counts all retries so far; its base depends on the current failure.
    let (result, left) = standard(AwsVersion::V2_1, &[Says(500), Says(429), Says(200)]).await;
    assert_eq!(result.sent, [0, 50, 2050]);
    assert_eq!((result.tokens, left), (vec![500, 486, 481], 486));
}

/// 2.1: the growth of the back-off and its maximum.
#[tokio::test(start_paused = true)]
async fn the_back_off_doubles_up_to_its_longest() {
    let client = Client::new(AwsVersion::V2_1, 500).strategy(|s| s.max_attempts(5));
    let result = client.call(&[Says(500); 5]).await;
    assert_eq!(result.sent, [0, 50, 150, 350, 750]);
    assert_eq!(client.quota.tokens(), 444);

    let shorter = |s: AwsStandard| s.max_attempts(5).most_backoff(Duration::from_millis(200));
    let client = Client::new(AwsVersion::V2_1, 500).strategy(shorter);
    assert_eq!(
        client.call(&[Says(500); 5]).await.sent,
        [0, 50, 150, 350, 550]
    );

    let client = Client::new(AwsVersion::V2_0, 500).strategy(|s| s.max_attempts(8));
    assert_eq!(
        client.call(&[Says(500); 8]).await.sent,
        [0, 1000, 3000, 7000, 15_000, 31_000, 51_000, 71_000]
    );
}

/// 2.1 for DynamoDB: 25 ms and four attempts.
#[tokio::test(start_paused = true)]
async fn the_figures_for_dynamodb_can_be_said() {
    let client = Client::new(AwsVersion::V2_1, 500)
        .strategy(|s| s.max_attempts(4).initial(Duration::from_millis(25)));
    let result = client.call(&[Says(500); 4]).await;
    assert_eq!(result.sent, [0, 25, 75, 175]);
    assert_eq!(client.quota.tokens(), 458);
}

/// 2.1: a quota of 14 allows one retry, 20 as well, 0 none.
#[tokio::test(start_paused = true)]
async fn an_empty_quota_sends_nothing_again() {
    for (tokens, sent, left) in [(14, vec![0, 50], 0), (20, vec![0, 50], 6), (0, vec![0], 0)] {
        let client = Client::new(AwsVersion::V2_1, tokens).strategy(|s| s.max_attempts(5));
        let result = client.call(&[Says(500), Says(500)]).await;
        assert_eq!(
            (result.status, result.stopped),
            (500, Some(StopReason::Throttled))
        );
        assert_eq!((result.sent, client.quota.tokens()), (sent, left));
    }
    // A quota too small for one price may suffice for another.
    let client = Client::new(AwsVersion::V2_0, 7);
    let result = client.call(&[Hangs]).await;
    assert_eq!(result.stopped, Some(StopReason::Throttled));
    client.call(&[Says(503), Says(200)]).await;
    assert_eq!(client.quota.tokens(), 7);
}

/// 2.1: 30, 16, 2, then 16; and once more 2, then 16.
#[tokio::test(start_paused = true)]
async fn calls_that_work_fill_the_quota_again() {
    let client = Client::new(AwsVersion::V2_1, 30).strategy(|s| s.max_attempts(5));
    let result = client.call(&[Says(500), Says(502), Says(200)]).await;
    assert_eq!(
        (result.tokens, client.quota.tokens()),
        (vec![30, 16, 2], 16)
    );
    let result = client.call(&[Says(500), Says(200)]).await;
    assert_eq!((result.tokens, client.quota.tokens()), (vec![16, 2], 16));
    client.call(&[Says(200)]).await;
    assert_eq!(
        client.quota.tokens(),
        17,
        "one for a call that succeeds at once"
    );
    client.call(&[Says(404)]).await;
    assert_eq!(client.quota.tokens(), 17, "nothing for a failed call");
    for _ in 0..20 {
        client.call(&[Says(200)]).await;
    }
    assert_eq!(client.quota.tokens(), 30, "never above its capacity");
}

/// 2.1: 1500 is 1.5 s; 0 is the back-off; 10000 is the back-off plus 5 s; an invalid value is
/// ignored.
#[tokio::test(start_paused = true)]
async fn the_servers_delay_is_held_between_the_back_off_and_5_s_more() {
    for (asked, sent) in [
        ("1500", 1500),
        ("0", 50),
        ("50", 50),
        ("10000", 5050),
        ("99999999999999999999", 5050),
        ("soon", 50),
        ("1.5", 50),
        ("-3", 50),
        ("", 50),
    ] {
        let (result, left) = standard(AwsVersion::V2_1, &[Asks(500, asked), Says(200)]).await;
        assert_eq!((result.sent, left), (vec![0, sent], 500), "{asked:?}");
    }
    let steps = [Asks(429, "10000"), Asks(429, "0"), Says(200)];
    let (result, _) = standard(AwsVersion::V2_1, &steps).await;
    assert_eq!(
        result.sent,
        [0, 6000, 8000],
        "the back-off does not restart"
    );
}

/// Full jitter: any delay from zero to the back-off.
#[tokio::test(start_paused = true)]
async fn jitter_takes_any_part_of_the_back_off() {
    for (roll, sent) in [(0.0, vec![0, 0, 0]), (0.5, vec![0, 25, 75])] {
        let client = Client::new(AwsVersion::V2_1, 500)
            .strategy(|s| s.jitter(Jitter::Full).randomness(Randomness::Fixed(roll)));
        let result = client.call(&[Says(500), Says(500), Says(200)]).await;
        assert_eq!(result.sent, sent);
    }
}

#[cfg(feature = "tokio")]
#[tokio::test(start_paused = true)]
async fn a_body_that_ends_the_call_gives_the_price_back_as_well() {
    use std::convert::Infallible;

    use bytes::Bytes;
    use http_body_util::{BodyExt, Full};

    use crate::body::OutcomeBodyLayer;

    let quota = Arc::new(AwsQuota::new(AwsVersion::V2_1));
    let count = Arc::new(Mutex::new(0));
    let service = ServiceBuilder::new()
        .layer(ThrottleLayer::new(quota.clone()))
        .layer(RetryLayer::new(
            HttpClassifier::new().judge_bodies(),
            AwsStandard::new(AwsVersion::V2_1),
        ))
        .layer(OutcomeBodyLayer::new())
        .service_fn(move |_: Request<()>| {
            let mut count = count.lock().unwrap();
            *count += 1;
            let status = if *count == 1 { 503 } else { 200 };
            let response = Response::builder().status(status);
            std::future::ready(Ok::<_, Infallible>(
                response.body(Full::new(Bytes::from("x"))).unwrap(),
            ))
        });
    let answer = service.oneshot(Request::new(())).await.unwrap();
    assert_eq!(quota.tokens(), 486, "no result is known yet");
    answer.into_body().collect().await.unwrap();
    assert_eq!(quota.tokens(), 500);
}

#[test]
fn a_hedge_takes_the_price_of_a_retry() {
    let quota = AwsQuota::of(AwsVersion::V2_1, 15);
    assert!(quota.allows(None) && quota.spend(None));
    assert!(!quota.allows(None) && !quota.spend(None));
    assert_eq!((quota.tokens(), quota.milli_tokens()), (1, Some(1000)));
    quota.refund(None);
    assert_eq!(quota.tokens(), 15);
}

#[test]
fn the_headroom_is_zero_while_a_retry_is_refused() {
    let timeout = reattempt::Failure::new(HTTP_TIMEOUT, reattempt::Stage::InFlight);
    for (version, price) in [(AwsVersion::V2_0, 10), (AwsVersion::V2_1, 14)] {
        let headroom = |tokens| {
            let quota = AwsQuota::of(version, tokens);
            (quota.allows(Some(&timeout)), quota.milli_headroom())
        };
        assert_eq!(headroom(price), (true, Some(1000)));
        assert_eq!(headroom(price - 1), (false, Some(0)));
    }
}

#[test]
fn a_timeout_is_what_the_stack_says_of_one() {
    let elapsed = reattempt::Failure::new(HTTP_TIMEOUT, reattempt::Stage::InFlight);
    assert_eq!(AwsVersion::V2_0.price(&elapsed), 10);
    assert_eq!(AwsVersion::V2_1.price(&elapsed), 14);
}

/// A strategy that wraps it may forward only its decisions.
#[tokio::test(start_paused = true)]
async fn its_decisions_alone_end_after_its_attempts() {
    let failure = reattempt::Failure::new(HTTP_TIMEOUT, reattempt::Stage::Response);
    let now = Instant::now().into_std();
    let decided = |retries| {
        AwsStandard::new(AwsVersion::V2_1).decide(&RetryView::new(&failure, now).retries(retries))
    };
    assert!(matches!(decided(1), Decision::After(_)));
    assert!(matches!(decided(2), Decision::Exhausted));
}
