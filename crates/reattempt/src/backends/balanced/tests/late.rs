//! Responses whose status comes at their end.

use super::*;
use crate::AttemptReporter;
use crate::failure::reason::UNKNOWN;

const BUSY: Failure = Failure::new(KV_TEMPORARY_FAILURE, Stage::Response);

/// A response that begins, whose caller says how it ends; or a failure.
#[derive(Clone, Copy)]
enum Does {
    Follow,
    /// A layer in between reads it to its end.
    Read,
    /// No layer says how it ends.
    Leave,
    Fail,
}

type Ended = Result<AttemptReporter, &'static str>;
type Judges = fn(Result<&AttemptReporter, &&'static str>, &CallContext) -> Verdict;

const NOT_SENT: &str = "the connection was refused";

fn judge(outcome: Result<&AttemptReporter, &&'static str>, _: &CallContext) -> Verdict {
    match outcome {
        Ok(_) => Verdict::Committed,
        Err(&NOT_SENT) => Verdict::Fatal(Failure::new(KV_TEMPORARY_FAILURE, Stage::Dispatch)),
        Err(_) => Verdict::Fatal(BUSY),
    }
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
            Does::Read => {
                let reporter = reporter.follow();
                reporter.finish(&Verdict::Success);
                Ok(reporter)
            }
            Does::Leave => Ok(reporter),
            Does::Fail => Err("failed"),
        })
    }
}

/// A service of such responses.
trait Streams: Service<Call<()>, Response = AttemptReporter, Error = &'static str> + Clone {}

impl<S> Streams for S where
    S: Service<Call<()>, Response = AttemptReporter, Error = &'static str> + Clone
{
}

/// Sends a call through the service, below a retry layer.
async fn through(service: impl Streams, call: Call<()>) -> Ended {
    let strategy = MaxAttempts::new(3, Backoff::constant(Duration::ZERO));
    let retries = RetryLayer::new(judge as Judges, strategy);
    retries.layer(service).oneshot(call).await
}

fn one() -> Backends<Stream, Judges> {
    let policy = policy().max_ejection_percent(100);
    Backends::new([("one", Stream(Does::Follow))], policy, judge as Judges)
}

async fn call(balanced: &Backends<Stream, Judges>, does: Does) -> Ended {
    balanced.insert("one", Stream(does));
    through(balanced.clone(), Call::new(())).await
}

async fn fails(balanced: &Backends<Stream, Judges>, times: usize) {
    for _ in 0..times {
        assert!(call(balanced, Does::Fail).await.is_err());
    }
}

fn is_ejected(balanced: &Backends<Stream, Judges>) -> bool {
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
        reporter.finish(&Verdict::Retry(BUSY));
        reporter.finish(&Verdict::Retry(BUSY));
    }
    assert!(is_ejected(&balanced));
}

#[tokio::test(start_paused = true)]
async fn an_end_that_answers_the_request_is_a_success() {
    let answer = Failure::new(UNKNOWN, Stage::Response);
    for (end, is_success) in [
        (Verdict::Success, true),
        (Verdict::Fatal(answer), true),
        (Verdict::Fatal(BUSY), false),
    ] {
        let balanced = one();
        fails(&balanced, 4).await;
        call(&balanced, Does::Follow).await.unwrap().finish(&end);
        fails(&balanced, 1).await;
        assert_eq!(is_ejected(&balanced), !is_success, "{end:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_response_that_a_layer_below_read_is_a_success() {
    let balanced = one();
    fails(&balanced, 4).await;
    call(&balanced, Does::Read).await.unwrap();
    fails(&balanced, 1).await;
    assert!(!is_ejected(&balanced));
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

/// A layer that follows a redirect from the first service to the second.
fn redirect(first: &impl Streams, second: &impl Streams) -> impl Streams {
    let (first, second) = (first.clone(), second.clone());
    tower::service_fn(move |call: Call<()>| {
        let (first, second) = (first.clone(), second.clone());
        async move {
            first.oneshot(call.clone()).await?;
            second.oneshot(call).await
        }
    })
}

#[tokio::test(start_paused = true)]
async fn a_step_does_not_learn_from_the_end_of_the_next() {
    let (first, second) = (one(), one());
    for _ in 0..5 {
        let service = redirect(&first, &second);
        let reporter = through(service, Call::new(())).await.unwrap();
        reporter.finish(&Verdict::Retry(BUSY));
    }
    assert!(!is_ejected(&first) && is_ejected(&second));
}

/// The same where the second step is sent to a service without health.
#[tokio::test(start_paused = true)]
async fn a_step_does_not_learn_from_an_end_elsewhere() {
    let first = one();
    for _ in 0..5 {
        let service = redirect(&first, &Stream(Does::Follow));
        let reporter = through(service, Call::new(())).await.unwrap();
        reporter.finish(&Verdict::Retry(BUSY));
    }
    assert!(!is_ejected(&first));
}

/// The first response is read to its end by a task while the second begins.
#[tokio::test(start_paused = true)]
async fn a_late_end_of_a_step_is_not_the_end_of_the_next() {
    let (first, second) = (one(), one());
    let (of_first, of_second) = (first.clone(), second.clone());
    let redirects = tower::service_fn(move |call: Call<()>| {
        let (first, second) = (of_first.clone(), of_second.clone());
        async move {
            let redirect = first.oneshot(call.clone()).await?;
            let response = second.oneshot(call).await;
            redirect.finish(&Verdict::Success);
            response
        }
    });
    for _ in 0..5 {
        let mut call = Call::new(());
        let watch = RetryInfo::track(&mut call);
        let reporter = through(redirects.clone(), call).await.unwrap();
        reporter.finish(&Verdict::Retry(BUSY));
        let info = watch.info();
        assert_eq!(info.records().last().unwrap().failure, Some(BUSY));
    }
    assert!(!is_ejected(&first) && is_ejected(&second));
}

#[tokio::test(start_paused = true)]
async fn a_step_whose_response_is_left_has_answered() {
    let first = one();
    for _ in 0..3 {
        fails(&first, 4).await;
        assert!(!is_ejected(&first));
        first.insert("one", Stream(Does::Follow));
        let service = redirect(&first, &Stream(Does::Follow));
        drop(through(service, Call::new(())).await.unwrap());
    }
}

/// What a layer does with a response before the recovery layer sees it.
#[derive(Clone, Copy, Debug)]
enum Between {
    Fails,
    /// After it has read the response to its failure.
    Reads,
    /// With a response of its own.
    Answers,
    /// In a later step.
    FailsLater,
    /// In a later step that is not sent.
    NotSent,
}

/// How many calls fail until their backend is ejected.
async fn calls_until_ejected(between: Between) -> Option<usize> {
    let backends = one();
    let of_layer = backends.clone();
    let layer = tower::service_fn(move |call: Call<()>| {
        let inner = of_layer.clone().oneshot(call.clone());
        async move {
            let reporter = inner.await?;
            match between {
                Between::Fails => {}
                Between::Reads => reporter.finish(&Verdict::Retry(BUSY)),
                Between::Answers => reporter.own_answer(),
                Between::FailsLater => reporter.in_doubt(),
                Between::NotSent => return Err(NOT_SENT),
            }
            Err("it does not return the response")
        }
    });
    for calls in 0..10 {
        if is_ejected(&backends) {
            return Some(calls);
        }
        assert!(through(layer.clone(), Call::new(())).await.is_err());
    }
    None
}

#[tokio::test(start_paused = true)]
async fn a_response_that_fails_above_counts_once() {
    assert_eq!(calls_until_ejected(Between::Fails).await, Some(5));
    assert_eq!(calls_until_ejected(Between::Reads).await, Some(5));
    assert_eq!(calls_until_ejected(Between::Answers).await, None);
    assert_eq!(calls_until_ejected(Between::FailsLater).await, None);
    assert_eq!(calls_until_ejected(Between::NotSent).await, None);
}

#[tokio::test(start_paused = true)]
async fn without_a_recovery_layer_the_end_counts_too() {
    let balanced = one();
    for _ in 0..5 {
        assert!(!is_ejected(&balanced));
        let mut call = Call::new(());
        let _watch = RetryInfo::track(&mut call);
        drop(call.context_mut().begin());
        let reporter = balanced.clone().oneshot(call).await.unwrap();
        reporter.finish(&Verdict::Retry(BUSY));
        reporter.finish(&Verdict::Retry(BUSY));
    }
    assert!(is_ejected(&balanced));
}

/// No layer began the call, so that nothing joins its response and its backend.
#[tokio::test(start_paused = true)]
async fn a_call_that_no_layer_began_counts_by_its_head() {
    let balanced = one();
    for _ in 0..5 {
        fails(&balanced, 4).await;
        balanced.insert("one", Stream(Does::Follow));
        let reporter = balanced.clone().oneshot(Call::new(())).await.unwrap();
        reporter.finish(&Verdict::Retry(BUSY));
    }
    assert!(!is_ejected(&balanced));
}
