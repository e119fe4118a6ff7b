//! Responses whose status comes at their end.

use super::*;
use crate::AttemptReporter;
use crate::failure::reason::UNKNOWN;

const BUSY: Failure = Failure::new(KV_TEMPORARY_FAILURE, Stage::Response);

/// A response that begins, whose caller says how it ends; or a failure.
#[derive(Clone, Copy)]
enum Does {
    Follow,
    /// No layer says how it ends.
    Leave,
    Fail,
}

type Ended = Result<AttemptReporter, &'static str>;
type Judges = fn(Result<&AttemptReporter, &&'static str>, &CallContext) -> Verdict;

fn judge(outcome: Result<&AttemptReporter, &&'static str>, _: &CallContext) -> Verdict {
    outcome.map_or(Verdict::Fatal(BUSY), |_| Verdict::Committed)
}

#[derive(Clone)]
struct Stream(Does);

impl Service<Call<()>> for Stream {
    type Response = AttemptReporter;
    type Error = &'static str;
    type Future = std::future::Ready<Ended>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, call: Call<()>) -> Self::Future {
        let reporter = call.context().unwrap().reporter();
        std::future::ready(match self.0 {
            Does::Follow => Ok(reporter.follow()),
            Does::Leave => Ok(reporter),
            Does::Fail => Err("failed"),
        })
    }
}

fn one() -> Balanced<Stream, Judges> {
    let policy = policy().max_ejection_percent(100);
    Balanced::new([("one", Stream(Does::Follow))], policy, judge as Judges)
}

async fn call(balanced: &Balanced<Stream, Judges>, does: Does) -> Ended {
    balanced.insert("one", Stream(does));
    let strategy = MaxAttempts::new(3, Backoff::constant(Duration::ZERO));
    let service = RetryLayer::new(judge as Judges, strategy).layer(balanced.clone());
    service.oneshot(Call::new(())).await
}

async fn fails(balanced: &Balanced<Stream, Judges>, times: usize) {
    for _ in 0..times {
        assert!(call(balanced, Does::Fail).await.is_err());
    }
}

fn is_ejected(balanced: &Balanced<Stream, Judges>) -> bool {
    let status = balanced.status()[0].1;
    assert_eq!(status.in_flight, 0);
    status.is_ejected()
}

#[tokio::test(start_paused = true)]
async fn a_backend_is_ejected_by_the_ends_of_its_responses() {
    let balanced = one();
    for _ in 0..5 {
        assert!(!is_ejected(&balanced));
        let reporter = call(&balanced, Does::Follow).await.unwrap();
        reporter.finish(Err((&BUSY, true)));
        reporter.finish(Err((&BUSY, true)));
    }
    assert!(is_ejected(&balanced));
}

#[tokio::test(start_paused = true)]
async fn an_end_that_answers_the_request_is_a_success() {
    let answer = Failure::new(UNKNOWN, Stage::Response);
    for (end, is_success) in [
        (Ok(()), true),
        (Err((&answer, false)), true),
        (Err((&BUSY, false)), false),
    ] {
        let balanced = one();
        fails(&balanced, 4).await;
        call(&balanced, Does::Follow).await.unwrap().finish(end);
        fails(&balanced, 1).await;
        assert_eq!(is_ejected(&balanced), !is_success, "{end:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_response_that_is_dropped_is_neither() {
    let balanced = one();
    fails(&balanced, 4).await;
    for _ in 0..100 {
        drop(call(&balanced, Does::Follow).await);
    }
    assert!(!is_ejected(&balanced));
    fails(&balanced, 1).await;
    assert!(is_ejected(&balanced));
}

#[tokio::test(start_paused = true)]
async fn a_response_that_no_layer_follows_is_a_success() {
    let balanced = one();
    for _ in 0..5 {
        fails(&balanced, 4).await;
        drop(call(&balanced, Does::Leave).await);
    }
    assert!(!is_ejected(&balanced));
}
