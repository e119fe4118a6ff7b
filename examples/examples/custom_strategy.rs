//! A custom strategy: extends another one by data that the application attached to the call, asks
//! another service before it decides, and is overridden by single calls.
//!
//! RFC 0049's own example: requests of robots are not retried. Run with
//! `cargo run -p reattempt-examples --example custom_strategy`.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use reattempt::strategy::{BestEffort, NeverRetry, StrategyError};
use reattempt::{
    Call, CallContext, ClientErrorLayer, DeadlineLayer, Decision, Failure, HasCallContext,
    OnDeadline, RetryInfo, RetryLayer, RetryStrategy, RetryView, Stage, Verdict, classify_fn,
    reason,
};
use tower::{BoxError, Service, ServiceBuilder, ServiceExt};

/// The kind of client, set by the web layer.
#[derive(Clone, Copy, PartialEq)]
enum Asker {
    Person,
    Robot,
    Partner,
}

/// Best effort for people, no retries for robots, and for partners as many as their quota allows.
#[derive(Debug, Default)]
struct PeopleFirst {
    people: BestEffort,
    partners: Quota,
}

/// A quota that another service knows: a partner may retry once.
#[derive(Clone, Debug, Default)]
struct Quota(Arc<AtomicU32>);

impl Quota {
    async fn ask(self) -> Result<Option<Duration>, StrategyError> {
        tokio::time::sleep(Duration::from_millis(5)).await;
        let used = self.0.fetch_add(1, Ordering::Relaxed);
        Ok((used == 0).then_some(Duration::from_millis(10)))
    }
}

impl RetryStrategy for PeopleFirst {
    fn decide(&self, view: &RetryView<'_>) -> Decision {
        match view.data::<Asker>() {
            Some(Asker::Robot) => Decision::Stop,
            // The call waits for the answer, and blocks nothing else.
            Some(Asker::Partner) => Decision::Defer(Box::pin(self.partners.clone().ask())),
            _ => self.people.decide(view),
        }
    }

    // As `BestEffort` alone would. Its other methods are the trait's defaults.
    fn on_deadline(&self) -> Option<OnDeadline> {
        RetryStrategy::on_deadline(&self.people)
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let classifier = classify_fn(
        |outcome: Result<&&'static str, &Infallible>, _: &CallContext| match outcome {
            Ok(&"busy") => {
                Verdict::Retry(Failure::new(reason::KV_TEMPORARY_FAILURE, Stage::Response))
            }
            _ => Verdict::Success,
        },
    );
    // A server that is busy twice before it responds.
    let calls = Arc::new(AtomicU32::new(0));
    let server = {
        let calls = Arc::clone(&calls);
        move |_: Call<&'static str>| {
            let busy = calls.fetch_add(1, Ordering::Relaxed) % 3 < 2;
            async move { Ok::<_, Infallible>(if busy { "busy" } else { "42" }) }
        }
    };
    let mut client = ServiceBuilder::new()
        .layer(DeadlineLayer::new(Duration::from_secs(2)))
        .layer(ClientErrorLayer)
        .layer(RetryLayer::new(classifier, PeopleFirst::default()))
        .service_fn(server);

    for (asker, who, attempts) in [
        (Asker::Person, "person", 3),
        (Asker::Robot, "robot", 1),
        (Asker::Partner, "partner", 2),
    ] {
        calls.store(0, Ordering::Relaxed);
        let mut request = Call::new("answer");
        request.context_mut().set_data(asker);
        let watch = RetryInfo::track(&mut request);
        let answer = client.ready().await?.call(request).await?;
        let info = watch.info();
        println!(
            "{who}: {answer} after {} attempt(s), {:?}",
            info.attempts(),
            info.stopped()
        );
        assert_eq!(info.attempts(), attempts);
    }

    // What a single call sets overrides policies and layers.
    calls.store(0, Ordering::Relaxed);
    let mut request = Call::new("answer");
    request.context_mut().set_strategy(Arc::new(NeverRetry));
    let answer = client.ready().await?.call(request).await?;
    println!("without retries: {answer}");
    assert_eq!(answer, "busy");
    Ok(())
}
