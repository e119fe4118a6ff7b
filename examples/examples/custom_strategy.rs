//! A custom strategy: extends another one by data that the application attached to the call.
//!
//! RFC 0049's own example: requests of robots are not retried. Run with
//! `cargo run -p reattempt-examples --example custom_strategy`.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use reattempt::strategy::BestEffort;
use reattempt::{
    Call, CallContext, DeadlineLayer, Decision, Failure, HasCallContext, RetryInfo, RetryLayer,
    RetryStrategy, RetryView, Stage, Verdict, classify_fn, reason,
};
use tower::{BoxError, Service, ServiceBuilder, ServiceExt};

/// The kind of client, set by the web layer.
#[derive(Clone, Copy, PartialEq)]
enum Asker {
    Person,
    Robot,
}

/// Best effort for people, no retries for robots.
#[derive(Debug, Default)]
struct PeopleFirst(BestEffort);

impl RetryStrategy for PeopleFirst {
    fn decide(&self, view: &RetryView<'_>) -> Decision {
        match view.context.data::<Asker>() {
            Some(Asker::Robot) => Decision::Stop,
            _ => self.0.decide(view),
        }
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
        .layer(DeadlineLayer::new(std::time::Duration::from_secs(2)))
        .map_err(BoxError::from)
        .layer(RetryLayer::new(classifier, PeopleFirst::default()))
        .service_fn(server);

    for (asker, who) in [(Asker::Person, "person"), (Asker::Robot, "robot")] {
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
        assert_eq!(info.attempts(), if asker == Asker::Person { 3 } else { 1 });
    }
    Ok(())
}
