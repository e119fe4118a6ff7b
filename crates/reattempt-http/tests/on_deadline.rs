//! A retry whose delay would pass the deadline: a 503 with `Retry-After: 60` and half a second
//! left.

use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response, StatusCode};
use reattempt::strategy::{BestEffort, MaxAttempts, RetryOnce};
use reattempt::{
    DeadlineLayer, Elapsed, HedgeLayer, OnDeadline, PushbackLayer, RetryInfo, RetryLayer,
    RetryStrategy, RouteLayer, StopReason,
};
use reattempt_http::aws::{AwsStandard, AwsVersion};
use reattempt_http::policy::Options;
use reattempt_http::{HttpClassifier, HttpPolicies, HttpPushback};
use tokio::time::Instant;
use tower::{BoxError, Service, ServiceBuilder, ServiceExt};

const LEFT: Duration = Duration::from_millis(500);

async fn busy(_: Request<()>) -> Result<Response<()>, BoxError> {
    let answer = Response::builder().status(503).header("retry-after", "60");
    Ok(answer.body(())?)
}

#[derive(Debug, PartialEq)]
enum End {
    /// The server's response, without a wait.
    AtOnce(StatusCode),
    /// The deadline's error, at the deadline.
    TimedOut,
}

const FAILED: End = End::AtOnce(StatusCode::SERVICE_UNAVAILABLE);

/// Sends one call; the attempts are as many as were sent before anything had to wait.
async fn send<S>(client: S) -> (End, u32)
where
    S: Service<Request<()>, Response = Response<()>, Error = BoxError>,
{
    let mut request = Request::new(());
    let watch = RetryInfo::track(&mut request);
    let began = Instant::now();
    let outcome = client.oneshot(request).await;
    let info = watch.info();
    assert_eq!(info.stopped(), Some(StopReason::Deadline));
    let end = match outcome {
        Ok(answer) => {
            assert_eq!(began.elapsed(), Duration::ZERO);
            End::AtOnce(answer.status())
        }
        Err(error) => {
            assert!(error.is::<Elapsed>(), "{error}");
            assert_eq!(began.elapsed(), LEFT);
            End::TimedOut
        }
    };
    (end, info.attempts())
}

async fn with(strategy: impl RetryStrategy + 'static) -> (End, u32) {
    let client = ServiceBuilder::new()
        .layer(DeadlineLayer::new(LEFT))
        .layer(RetryLayer::new(HttpClassifier::new(), strategy))
        .layer(PushbackLayer::new(HttpPushback::new()))
        .service_fn(busy);
    send(client).await
}

#[tokio::test(start_paused = true)]
async fn the_servers_answer_is_returned_at_once_by_default() {
    assert_eq!(with(MaxAttempts::standard()).await, (FAILED, 1));
    assert_eq!(with(RetryOnce).await, (FAILED, 1));
    for &version in AwsVersion::ALL {
        let aws = AwsStandard::new(version);
        assert_eq!(with(aws.clone()).await, (FAILED, 1));
        let capped = aws.on_deadline(OnDeadline::Cap);
        assert_eq!(with(capped).await, (End::TimedOut, 1));
    }
    let capped = MaxAttempts::standard().on_deadline(OnDeadline::Cap);
    assert_eq!(with(capped).await, (End::TimedOut, 1));
    // RFC 0049's strategy, under any classifier.
    assert_eq!(with(BestEffort::new()).await, (End::TimedOut, 1));
}

async fn with_policy(members: &str, options: &Options) -> (End, u32) {
    let text = format!(r#"{{"default": {{"timeout": "0.5s", "retryAfter": {{}}, {members}}}}}"#);
    let table = HttpPolicies::parse_with(&text, options).unwrap().policies;
    let client = ServiceBuilder::new()
        .layer(RouteLayer::new(
            table.iter().next().map(Arc::clone).unwrap(),
        ))
        .layer(DeadlineLayer::no_timeout())
        .layer(RetryLayer::by_policy(HttpClassifier::new()))
        .layer(HedgeLayer::by_policy(HttpClassifier::new()))
        .layer(PushbackLayer::new(HttpPushback::new()))
        .service_fn(busy);
    send(client).await
}

/// The program's override, else the document, else the program's default, else giving up.
#[tokio::test(start_paused = true)]
async fn a_policy_gives_up_unless_it_or_the_program_caps() {
    use OnDeadline::{Cap, GiveUp};

    let usual = Options::new;
    for (said, options, timed_out) in [
        ("null", usual(), false),
        (r#""giveUp""#, usual(), false),
        (r#""cap""#, usual(), true),
        ("null", usual().default_on_deadline(Cap), true),
        (r#""giveUp""#, usual().default_on_deadline(Cap), false),
        (r#""cap""#, usual().default_on_deadline(GiveUp), true),
        (r#""cap""#, usual().on_deadline(GiveUp), false),
        (r#""giveUp""#, usual().on_deadline(Cap), true),
        (
            "null",
            usual().on_deadline(Cap).default_on_deadline(GiveUp),
            true,
        ),
    ] {
        let recoveries = [
            r#""retry": {"onDeadline": SAID}"#,
            r#""retry": {"preset": "aws-standard-2.0", "onDeadline": SAID}"#,
            r#""retry": {"preset": "aws-standard-2.1", "onDeadline": SAID}"#,
            r#""hedge": {"delay": "9s", "onDeadline": SAID}"#,
        ];
        for recovery in recoveries {
            let (end, attempts) = with_policy(&recovery.replace("SAID", said), &options).await;
            let expected = if timed_out { End::TimedOut } else { FAILED };
            assert_eq!((end, attempts), (expected, 1), "{recovery} {said}");
        }
    }
}
