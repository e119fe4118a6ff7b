//! What allows a further attempt independent of the strategy, and what refuses it.

use crate::failure::reason::{KV_LOCKED, SOCKET_CLOSED_WHILE_IN_FLIGHT};
use crate::{CallDeadline, Failure, Idempotency, Stage, TokenBucket, Transparent};

use super::*;

fn once() -> MaxAttempts {
    MaxAttempts::new(1, Backoff::constant(ms(1)))
}

/// R20 R26
#[tokio::test(start_paused = true)]
async fn a_throttled_call_gets_the_servers_failure_at_once() {
    let bucket = Arc::new(TokenBucket::new(4, 1000).unwrap());
    let probe = probe((1..=2).map(|n| attempt(n).fails(TMPFAIL)));
    let mut request = probe.request();
    request.context_mut().set_throttle(bucket.clone());
    let (told, info) = send_request(&retry(three()), &probe, request).await;
    assert_eq!((told, probe.log().now()), (Told::Error(2), 10));
    assert_eq!(info.stopped(), Some(StopReason::Throttled));
    assert_eq!(info.records().last().unwrap().milli_tokens, Some(2000));
}

/// C12
#[tokio::test(start_paused = true)]
async fn a_possibly_executed_request_is_retried_only_if_idempotent() {
    let steps = || [attempt(1).fails(SOCKET_CLOSED_WHILE_IN_FLIGHT), attempt(2)];
    let writes = probe(steps());
    let (told, info) = send(&retry(three()), &writes).await;
    assert_eq!(told, Told::Error(1));
    assert_eq!(info.stopped(), Some(StopReason::NotIdempotent));

    let reads = probe(steps());
    let mut request = reads.request();
    request
        .context_mut()
        .set_idempotency(Idempotency::Idempotent);
    assert_eq!(
        send_request(&retry(three()), &reads, request).await.0,
        Told::Answer(2)
    );
}

/// C32: an HTTP request's method defines whether it is idempotent (RFC 9110), unless its caller
/// does.
#[cfg(feature = "http")]
#[tokio::test(start_paused = true)]
async fn an_http_request_goes_by_its_method() {
    let send = async |method: http::Method, said: Idempotency| {
        let probe = probe([attempt(1).fails(SOCKET_CLOSED_WHILE_IN_FLIGHT), attempt(2)]);
        let mut request = http::Request::new("body");
        *request.method_mut() = method;
        request.context_mut().set_idempotency(said);
        told(&retry(three()).layer(probe.inner()).oneshot(request).await)
    };
    use Idempotency::{Idempotent, NotIdempotent, Unknown};
    assert_eq!(send(http::Method::GET, Unknown).await, Told::Answer(2));
    assert_eq!(send(http::Method::POST, Unknown).await, Told::Error(1));
    assert_eq!(send(http::Method::POST, Idempotent).await, Told::Answer(2));
    assert_eq!(send(http::Method::GET, NotIdempotent).await, Told::Error(1));
}

/// C13
#[tokio::test(start_paused = true)]
async fn a_transport_that_knows_nothing_left_makes_any_request_safe() {
    let lost = Failure::new(SOCKET_CLOSED_WHILE_IN_FLIGHT, Stage::InFlight);
    let never_left = attempt(1).comes_to(Verdict::Retry(lost));
    let probe = probe([never_left.reaches(Stage::Dispatch), attempt(2)]);
    assert_eq!(send(&retry(three()), &probe).await.0, Told::Answer(2));
}

#[tokio::test(start_paused = true)]
async fn a_layer_below_may_forbid_another_attempt() {
    let probe = probe([attempt(1).fails(TMPFAIL).forbids()]);
    let (told, info) = send(&retry(three()), &probe).await;
    assert_eq!(told, Told::Error(1));
    assert_eq!(info.stopped(), Some(StopReason::Pushback));
}

/// R61
#[tokio::test(start_paused = true)]
async fn a_refused_stream_is_resent_once_then_the_policy_decides() {
    let refused = |n| attempt(n).fails(TMPFAIL).transparently(Transparent::Once);
    let probe = probe([refused(1), refused(2), attempt(3)]);
    let (told, info) = send(&retry(three()), &probe).await;
    assert_eq!(told, Told::Answer(3));
    assert_eq!(probe.log().times(), [0, 0, 10]);
    use AttemptKind::{Initial, Retry, Transparent as Unseen};
    assert_eq!(probe.log().kinds(), [Initial, Unseen, Retry]);
    assert_eq!((info.attempts(), info.retries()), (3, 1));
}

/// R60
#[tokio::test(start_paused = true)]
async fn without_a_deadline_unsent_attempts_are_retried_five_times() {
    let unsent = |n| {
        attempt(n)
            .fails(TMPFAIL)
            .transparently(Transparent::Unlimited)
    };
    let probe = probe((1..=6).map(unsent));
    let (told, _) = send(&retry(once()), &probe).await;
    assert_eq!(told, Told::Error(6));
    assert_eq!(probe.log().times(), [0, 0, 0, 0, 1, 3]);
}

#[tokio::test(start_paused = true)]
async fn transparent_retries_can_be_switched_off() {
    let probe = probe([attempt(1).fails(TMPFAIL).transparently(Transparent::Once)]);
    assert_eq!(
        send(&retry(once()).transparent(false), &probe).await.0,
        Told::Error(1)
    );
}

/// A limit that no layer enforces is respected by giving up.
#[tokio::test(start_paused = true)]
async fn a_delay_past_an_unenforced_limit_returns_the_failure_now() {
    let probe = probe([attempt(1).fails(KV_LOCKED)]);
    let mut request = probe.request();
    let at = crate::clock::now() + ms(10);
    request
        .context_mut()
        .stamp_deadline(CallDeadline::stamped(at));
    let (told, info) = send_request(&retry(three()), &probe, request).await;
    assert_eq!((told, probe.log().now()), (Told::Error(1), 0));
    assert_eq!(info.stopped(), Some(StopReason::Deadline));
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_kept_where_a_stamped_limit_may_still_return_it() {
    let answer = || attempt(1).fails(KV_LOCKED).as_answer();
    let deadline = || CallDeadline::stamped(crate::clock::now() + ms(15));

    let in_time = probe([answer(), attempt(2)]);
    let mut request = in_time.request();
    request.context_mut().stamp_deadline(deadline());
    assert_eq!(
        send_request(&retry(three()), &in_time, request).await.0,
        Told::Answer(2)
    );
    assert_eq!(in_time.log().outcome_dropped(1), Some(10));

    let too_late = probe([answer()]).ready([readiness(2).after(ms(5))]);
    let mut request = too_late.request();
    request.context_mut().stamp_deadline(deadline());
    let (told, info) = send_request(&retry(three()), &too_late, request).await;
    assert_eq!((told, too_late.log().now()), (Told::Answer(1), 15));
    assert_eq!(
        info.records().last().unwrap().stopped,
        Some(StopReason::Deadline)
    );
}

/// The policy retries nothing, but attempts that never left are still retried: at the deadline they
/// give up only if the layer's strategy was told to.
#[tokio::test(start_paused = true)]
async fn without_recovery_the_layers_strategy_decides_at_the_deadline() {
    let unsent = |n| {
        let attempt = attempt(n).fails(TMPFAIL);
        attempt.transparently(Transparent::Unlimited)
    };
    let send = async |strategy: MaxAttempts| {
        let probe = probe((1..=6).map(unsent));
        let mut request = probe.request();
        let context = request.context_mut();
        context.stamp_policy(Arc::new(RoutePolicy::new("none").no_recovery()));
        context.stamp_deadline(CallDeadline::enforced(crate::clock::now() + ms(4)));
        let call = retry(strategy).layer(probe.inner()).oneshot(request);
        // No layer enforces the limit, so the call ends by itself.
        let outcome = told(&call.await);
        (outcome, probe.log().now(), probe.log().times())
    };
    let times = vec![0, 0, 0, 0, 1, 3];
    let gives_up = three().on_deadline(OnDeadline::GiveUp);
    assert_eq!(send(gives_up).await, (Told::Error(6), 3, times.clone()));
    assert_eq!(send(three()).await, (Told::Error(6), 1004, times));
}

/// A call whose deadline is enforced, it says, by a layer that polls it no more: the layer sends it
/// in a task of its own, say.
#[tokio::test(start_paused = true)]
async fn a_call_past_its_deadline_ends_without_a_layer_above() {
    let fails = || attempt(1).fails(KV_LOCKED);
    // The delay of ten does not fit before five, and the service is ready too late for twenty.
    for (limit, first, ends) in [
        (5, fails(), (Told::Error(1), 1005, 1)),
        (5, fails().as_answer(), (Told::Answer(1), 1005, 1)),
        (20, fails(), (Told::Error(1), 1020, 1)),
        // Nothing is left to return but the next attempt's outcome.
        (20, fails().as_answer(), (Told::Answer(2), 30, 2)),
    ] {
        let probe = probe([first, attempt(2)]).ready([readiness(2).after(ms(20))]);
        let mut request = probe.request();
        let at = crate::clock::now() + ms(limit);
        let context = request.context_mut();
        context.stamp_deadline(CallDeadline::enforced(at));
        let strategy = three().on_deadline(OnDeadline::Cap);
        let (told, info) = send_request(&retry(strategy), &probe, request).await;
        assert_eq!((told, probe.log().now(), info.attempts()), ends);
        let ended = [StopReason::Deadline, StopReason::Success][info.attempts() as usize - 1];
        assert_eq!(info.stopped(), Some(ended));
    }
}
