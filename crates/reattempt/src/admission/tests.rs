use std::sync::Arc;
use std::time::Duration;

use tower::{Layer, ServiceBuilder, ServiceExt};

use super::*;
use crate::backoff::{Backoff, Randomness};
use crate::failure::reason::{KV_LOCKED, KV_TEMPORARY_FAILURE, UNKNOWN};
use crate::strategy::MaxAttempts;
use crate::test_util::{Answer, Fault, Payload, Probe, Step, attempt, listen, ms, probe, verdict};
use crate::{AttemptReporter, ClientError, ClientErrorLayer, DeadlineLayer};
use crate::{Call, CallContext, RetryInfo, RetryLayer, RetryThrottle, ThrottleLayer, TokenBucket};
use crate::{Failure, OnDeadline, Stage, Verdict};

type Verdicts = fn(Result<&Answer, &ClientError<Fault>>, &CallContext) -> Verdict;

fn judge(outcome: Result<&Answer, &ClientError<Fault>>, context: &CallContext) -> Verdict {
    match outcome {
        Ok(answer) => verdict(Ok(answer), context),
        Err(ClientError::Transport(fault)) => verdict(Err(fault), context),
        Err(other) => panic!("{other:?}"),
    }
}

/// Refuses whenever the formula allows it.
fn strict() -> Arc<Admission> {
    Arc::new(Admission::default().randomness(Randomness::Fixed(0.0)))
}

/// The same, of a server that accepted none of the latest calls.
fn closed() -> Arc<Admission> {
    let admission = strict();
    (0..10).for_each(|_| admission.ended(Criticality::CRITICAL, false));
    for number in 0..3 {
        let admitted = admission.admit(Criticality::new(number));
        assert!(admitted.is_ok(), "one a second of each");
    }
    admission
}

fn two() -> MaxAttempts {
    MaxAttempts::new(2, Backoff::constant(ms(10)))
}

fn retry() -> RetryLayer<Verdicts> {
    RetryLayer::new(judge as Verdicts, two())
}

async fn run(
    admission: &Arc<Admission>,
    probe: &Probe,
    request: Call<Payload>,
) -> Result<Answer, ClientError<Fault>> {
    ServiceBuilder::new()
        .layer(AdmissionLayer::new(Arc::clone(admission)))
        .layer(DeadlineLayer::new(ms(500)))
        .layer(retry())
        .layer(ClientErrorLayer)
        .service(probe.inner())
        .oneshot(request)
        .await
}

/// What a call with these attempts adds to (requests, accepts).
async fn adds(steps: impl IntoIterator<Item = Step>) -> (u64, u64) {
    let admission = strict();
    let probe = probe(steps);
    let _ = run(&admission, &probe, probe.request()).await;
    admission.seen()
}

#[tokio::test(start_paused = true)]
async fn a_call_counts_once_by_what_became_of_it() {
    let busy = |n| attempt(n).fails(KV_TEMPORARY_FAILURE);
    assert_eq!(adds([attempt(1)]).await, (1, 1));
    assert_eq!(adds([busy(1), attempt(2)]).await, (1, 1), "by its end");
    assert_eq!(adds([busy(1), busy(2)]).await, (1, 0));
    let answer = attempt(1).fails_fatally(UNKNOWN);
    assert_eq!(adds([answer]).await, (1, 1), "the server's own answer");
    let overload = attempt(1).fails_fatally(KV_TEMPORARY_FAILURE);
    assert_eq!(adds([overload]).await, (1, 0));
    assert_eq!(adds([attempt(1).hangs()]).await, (1, 0), "the deadline");
    let answered_first = [attempt(1).fails(KV_LOCKED).as_answer(), attempt(2).hangs()];
    assert_eq!(adds(answered_first).await, (1, 0), "the deadline");
    assert_eq!(
        adds([attempt(1).commits()]).await,
        (1, 1),
        "the response began"
    );
}

/// What a call with these attempts and this back-off, which the deadline cuts off, adds to an
/// admission that ignores an overload.
async fn adds_ignoring(steps: impl IntoIterator<Item = Step>, backoff: Duration) -> (u64, u64) {
    let admission = Admission::default().ignore(KV_TEMPORARY_FAILURE);
    let admission = Arc::new(admission.another());
    let strategy = MaxAttempts::new(2, Backoff::constant(backoff)).on_deadline(OnDeadline::Cap);
    let probe = probe(steps);
    let service = ServiceBuilder::new()
        .layer(AdmissionLayer::new(admission.clone()))
        .layer(DeadlineLayer::new(ms(500)))
        .layer(RetryLayer::new(judge as Verdicts, strategy))
        .layer(ClientErrorLayer)
        .service(probe.inner());
    assert!(service.oneshot(probe.request()).await.is_err());
    admission.seen()
}

#[tokio::test(start_paused = true)]
async fn a_call_that_ends_with_an_ignored_reason_does_not_count() {
    let busy = |n| attempt(n).fails(KV_TEMPORARY_FAILURE);
    let locked = |n| attempt(n).fails(KV_LOCKED);
    assert_eq!(adds_ignoring([busy(1), busy(2)], ms(10)).await, (0, 0));
    assert_eq!(adds_ignoring([locked(1), busy(2)], ms(10)).await, (0, 0));
    assert_eq!(adds_ignoring([busy(1), locked(2)], ms(10)).await, (1, 1));
    let waits = adds_ignoring([busy(1)], ms(900)).await;
    assert_eq!(waits, (0, 0), "the deadline ended the delay");
    let answered = attempt(1).fails(KV_LOCKED).as_answer();
    let waits = adds_ignoring([answered], ms(900)).await;
    assert_eq!(waits, (1, 1), "the same, after an answer");
    let hangs = adds_ignoring([busy(1), attempt(2).hangs()], ms(10)).await;
    assert_eq!(hangs, (1, 0), "the deadline cut an attempt off");
}

/// It keeps a copy for its own use.
#[tokio::test(start_paused = true)]
async fn a_call_that_a_layer_between_copies_counts() {
    let admission = strict();
    let probe = probe([attempt(1)]);
    let service = ServiceBuilder::new()
        .layer(AdmissionLayer::new(admission.clone()))
        .map_request(|call: Call<Payload>| {
            drop(call.clone());
            call
        })
        .layer(retry())
        .layer(ClientErrorLayer)
        .service(probe.inner());
    assert!(service.oneshot(probe.request()).await.is_ok());
    assert_eq!(admission.seen(), (1, 1));
}

/// A layer between is not done with the response.
#[tokio::test(start_paused = true)]
async fn a_call_that_worked_is_accepted_at_its_deadline_too() {
    let admission = strict();
    let probe = probe([attempt(1)]);
    let service = ServiceBuilder::new()
        .layer(AdmissionLayer::new(admission.clone()))
        .layer(DeadlineLayer::new(ms(500)))
        .and_then(|_| std::future::pending::<Result<Answer, ClientError<Fault>>>())
        .layer(retry())
        .layer(ClientErrorLayer)
        .service(probe.inner());
    assert!(service.oneshot(probe.request()).await.is_err());
    assert_eq!(admission.seen(), (1, 1));
}

/// What a response adds that begins and is followed to this end; `None` if it is dropped.
async fn adds_at_end(end: Option<Verdict>) -> [(u64, u64); 2] {
    let admission = strict();
    let follows = tower::service_fn(|call: Call<()>| async move {
        Ok::<_, Refused>(call.context().unwrap().reporter().follow())
    });
    let begins = |_: Result<&AttemptReporter, &Refused>, _: &CallContext| Verdict::Committed;
    let service = ServiceBuilder::new()
        .layer(AdmissionLayer::new(admission.clone()))
        .layer(RetryLayer::new(begins, two()))
        .service(follows);
    let reporter = service.oneshot(Call::new(())).await.unwrap();
    let before = admission.seen();
    if let Some(end) = end {
        reporter.finish(&end);
    }
    drop(reporter);
    [before, admission.seen()]
}

#[tokio::test(start_paused = true)]
async fn a_response_counts_when_it_begins_until_its_end_is_known() {
    let busy = Failure::new(KV_TEMPORARY_FAILURE, Stage::Response);
    let broken = Failure::new(UNKNOWN, Stage::Response);
    let begun = (1, 1);
    assert_eq!(adds_at_end(Some(Verdict::Success)).await, [begun, begun]);
    let (busy, broken) = (Verdict::Retry(busy), Verdict::Retry(broken));
    assert_eq!(adds_at_end(Some(busy)).await, [begun, (1, 0)]);
    assert_eq!(adds_at_end(Some(broken)).await, [begun, begun]);
    assert_eq!(adds_at_end(None).await, [begun, begun], "its caller left");
}

/// A layer in between reads the response before the call's future resolves.
#[tokio::test(start_paused = true)]
async fn a_response_that_ended_before_its_call_counts_by_its_end() {
    const BUSY: Failure = Failure::new(KV_TEMPORARY_FAILURE, Stage::Response);
    const BROKEN: Failure = Failure::new(UNKNOWN, Stage::Response);
    let ends = [
        (Verdict::Success, (1, 1)),
        (Verdict::Retry(BUSY), (1, 0)),
        (Verdict::Fatal(BROKEN), (1, 1)),
    ];
    for (end, seen) in ends {
        let admission = strict();
        let attempts = Arc::new(std::sync::atomic::AtomicU32::new(0));
        let follows = tower::service_fn(move |call: Call<()>| {
            let first = attempts.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 0;
            let reporter = call.context().unwrap().reporter().follow();
            std::future::ready(Ok::<_, Refused>((reporter, first)))
        });
        // The failure of the first attempt is not the call's.
        let begins =
            |outcome: Result<&(AttemptReporter, bool), &Refused>, _: &CallContext| match outcome {
                Ok((_, true)) => Verdict::Retry(BUSY),
                _ => Verdict::Committed,
            };
        let service = ServiceBuilder::new()
            .layer(AdmissionLayer::new(admission.clone()))
            .map_response(move |(reporter, _): (AttemptReporter, bool)| reporter.finish(&end))
            .layer(RetryLayer::new(begins, two()))
            .service(follows);
        service.oneshot(Call::new(())).await.unwrap();
        assert_eq!(admission.seen(), seen, "{end:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_its_caller_drops_does_not_count() {
    let admission = strict();
    let probe = probe([attempt(1).hangs()]);
    let call = run(&admission, &probe, probe.request());
    assert!(tokio::time::timeout(ms(100), call).await.is_err());
    assert_eq!(admission.seen(), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn without_a_recovery_layer_nothing_counts() {
    let admission = strict();
    let probe = probe([attempt(1).fails(KV_TEMPORARY_FAILURE)]);
    let service = AdmissionLayer::new(admission.clone()).on_refused(Unused);
    let _ = service.layer(probe.inner()).oneshot(probe.request()).await;
    assert_eq!(admission.seen(), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_refused_call_is_not_sent_and_counts_against_no_one() {
    let (admission, probe) = (closed(), probe([]));
    let bucket = Arc::new(TokenBucket::default());
    let service = ServiceBuilder::new()
        .layer(AdmissionLayer::new(admission.clone()))
        .layer(ThrottleLayer::new(bucket.clone()))
        .layer(retry())
        .layer(ClientErrorLayer)
        .service(probe.inner());
    let mut request = probe.request();
    let info = RetryInfo::track(&mut request);
    let error = service.oneshot(request).await.unwrap_err();
    let ClientError::Refused(refused) = error else {
        panic!("{error:?}");
    };
    assert_eq!((refused.requests, refused.accepted), (10, 0));
    assert_eq!(admission.seen(), (11, 0));
    assert_eq!(probe.log().times(), [0; 0]);
    assert_eq!(bucket.milli_tokens(), Some(100_000));
    let info = info.info();
    assert_eq!(
        (info.attempts(), info.stopped()),
        (0, Some(StopReason::Admission))
    );
    assert_eq!(info.to_string(), "0 attempts, ended by admission");
}

/// For a stack whose error has no room for a refusal, where there is none.
#[derive(Clone, Copy, Debug)]
struct Unused;

impl OnRefused<Answer, Fault> for Unused {
    fn on_refused(&self, refused: Refused) -> Result<Answer, Fault> {
        unreachable!("{refused}")
    }
}

#[tokio::test(start_paused = true)]
async fn the_criticality_is_that_of_the_calls_context() {
    let stated = Criticality::SHEDDABLE_PLUS;
    for (on_context, refused) in [(None, Criticality::CRITICAL), (Some(stated), stated)] {
        let probe = probe([]);
        let mut request = probe.request();
        if let Some(criticality) = on_context {
            request.context_mut().set_criticality(criticality);
        }
        let seen = match run(&closed(), &probe, request).await {
            Err(ClientError::Refused(seen)) => seen.criticality,
            other => panic!("{other:?}"),
        };
        assert_eq!(seen, refused);
    }
}

#[tokio::test(start_paused = true)]
async fn below_the_recovery_layer_it_refuses_nothing_and_warns() {
    let listener = listen();
    let (admission, probe) = (closed(), probe([attempt(1)]));
    let service = ServiceBuilder::new()
        .layer(retry())
        .layer(AdmissionLayer::new(admission.clone()))
        .layer(ClientErrorLayer)
        .service(probe.inner());
    assert!(service.oneshot(probe.request()).await.is_ok());
    assert_eq!(admission.seen(), (10, 0));
    let warnings = listener.warnings();
    assert!(
        warnings[0].starts_with("AdmissionLayer is inside the recovery layer"),
        "{warnings:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn switched_off_it_passes_calls_through() {
    let admission = Arc::new(Admission::off());
    let probe = probe([attempt(1).fails_fatally(KV_TEMPORARY_FAILURE)]);
    let _ = run(&admission, &probe, probe.request()).await;
    assert_eq!((admission.seen(), probe.log().times().len()), ((0, 0), 1));
}

/// Compile-time checks of the layer's types.
const _: fn() = || {
    fn service<T: Clone + Send + Sync + std::fmt::Debug>() {}
    service::<AdmissionLayer>();
    service::<Admit<Probe>>();
};
