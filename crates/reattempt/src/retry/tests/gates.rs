//! What allows a further attempt independent of the strategy, and what refuses it.

use crate::failure::reason::{KV_LOCKED, SOCKET_CLOSED_WHILE_IN_FLIGHT};
use crate::{CallDeadline, Idempotency, OnDeadline, RoutePolicy, Transparent};

use super::*;

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
        call_result(&retry(three()).layer(probe.inner()).oneshot(request).await)
    };
    use Idempotency::{Idempotent, NotIdempotent, Unknown};
    assert_eq!(
        send(http::Method::GET, Unknown).await,
        CallResult::Answer(2)
    );
    assert_eq!(
        send(http::Method::POST, Unknown).await,
        CallResult::Error(1)
    );
    assert_eq!(
        send(http::Method::POST, Idempotent).await,
        CallResult::Answer(2)
    );
    assert_eq!(
        send(http::Method::GET, NotIdempotent).await,
        CallResult::Error(1)
    );
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_kept_where_a_attached_limit_may_still_return_it() {
    let answer = || attempt(1).fails(KV_LOCKED).as_answer();
    let deadline = || CallDeadline::attached(crate::clock::now() + ms(15));

    let in_time = probe([answer(), attempt(2)]);
    let mut request = in_time.request();
    request.context_mut().attach_deadline(deadline());
    assert_eq!(
        send_request(&retry(three()), &in_time, request).await.0,
        CallResult::Answer(2)
    );
    assert_eq!(in_time.log().outcome_dropped(1), Some(10));

    let too_late = probe([answer()]).ready([readiness(2).after(ms(5))]);
    let mut request = too_late.request();
    request.context_mut().attach_deadline(deadline());
    let (call_result, info) = send_request(&retry(three()), &too_late, request).await;
    assert_eq!(
        (call_result, too_late.log().now()),
        (CallResult::Answer(1), 15)
    );
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
        context.attach_policy(Arc::new(RoutePolicy::new("none").no_recovery()));
        context.attach_deadline(CallDeadline::enforced(crate::clock::now() + ms(4)));
        let call = retry(strategy).layer(probe.inner()).oneshot(request);
        // No layer enforces the limit, so the call ends by itself.
        let outcome = call_result(&call.await);
        (outcome, probe.log().now(), probe.log().times())
    };
    let times = vec![0, 0, 0, 0, 1, 3];
    let gives_up = three().on_deadline(OnDeadline::GiveUp);
    assert_eq!(
        send(gives_up).await,
        (CallResult::Error(6), 3, times.clone())
    );
    assert_eq!(send(three()).await, (CallResult::Error(6), 1004, times));
}

/// A call whose deadline is enforced, it says, by a layer that polls it no more: the layer sends it
/// in a task of its own, say.
#[tokio::test(start_paused = true)]
async fn a_call_past_its_deadline_ends_without_a_layer_above() {
    let fails = || attempt(1).fails(KV_LOCKED);
    let moves = || {
        fails().config_coming(async {
            tokio::time::sleep(ms(1)).await;
            true
        })
    };
    // The delay of ten does not fit before five, and the service is ready too late for twenty.
    for (limit, first, ends) in [
        (5, fails(), (CallResult::Error(1), 1005, 1)),
        (5, fails().as_answer(), (CallResult::Answer(1), 1005, 1)),
        // What would end a delay early does not end this wait.
        (5, moves(), (CallResult::Error(1), 1005, 1)),
        (20, fails(), (CallResult::Error(1), 1020, 1)),
        // Nothing is left to return but the next attempt's outcome.
        (20, fails().as_answer(), (CallResult::Answer(2), 30, 2)),
    ] {
        let probe = probe([first, attempt(2)]).ready([readiness(2).after(ms(20))]);
        let mut request = probe.request();
        let at = crate::clock::now() + ms(limit);
        let context = request.context_mut();
        context.attach_deadline(CallDeadline::enforced(at));
        let strategy = three().on_deadline(OnDeadline::Cap);
        let (call_result, info) = send_request(&retry(strategy), &probe, request).await;
        assert_eq!((call_result, probe.log().now(), info.attempts()), ends);
        let ended = [StopReason::Deadline, StopReason::Success][info.attempts() as usize - 1];
        assert_eq!(info.stopped(), Some(ended));
    }
}

/// Its service got ready for an attempt that the deadline no longer allowed.
#[tokio::test(start_paused = true)]
async fn a_call_that_ended_holds_no_permit() {
    let limit = tower::limit::GlobalConcurrencyLimitLayer::new(1);
    let probe = probe([attempt(1).fails(KV_LOCKED)]);
    let other = limit.layer(probe.inner());
    let ready = async || {
        ServiceExt::<crate::Call<crate::test_util::Payload>>::ready_oneshot(other.clone()).await
    };
    let service = retry(three()).layer(limit.layer(probe.inner()));
    let mut request = probe.request();
    let at = crate::clock::now() + ms(15);
    let context = request.context_mut();
    context.attach_deadline(CallDeadline::attached(at));
    let mut call = Box::pin(service.oneshot(request));
    let holds_it_for_long = async {
        tokio::time::sleep(ms(5)).await;
        let held = ready().await;
        tokio::time::sleep(ms(15)).await;
        drop(held);
    };
    let (outcome, ()) = tokio::join!(&mut call, holds_it_for_long);
    assert_eq!(call_result(&outcome), CallResult::Error(1));
    let free = tokio::time::timeout(ms(1), ready()).await;
    assert!(free.is_ok(), "the call keeps the permit");
    drop(call);
}

/// The delay ends at the tick of the deadline, in a task that has used up tokio's budget by then.
/// The deadline leaves one more poll to a response, and nothing may be sent in it.
#[tokio::test(start_paused = true)]
async fn a_retry_that_is_due_at_the_deadline_is_not_sent() {
    let strategy = MaxAttempts::new(
        3,
        Backoff::constant(std::time::Duration::from_micros(9_500)),
    );
    let probe = probe([attempt(1).fails(KV_LOCKED).as_answer(), attempt(2)]);
    let stack = crate::DeadlineLayer::new(ms(10)).layer(retry(strategy).layer(probe.inner()));
    let mut call = pin!(stack.oneshot(probe.request()));
    assert!(poll_once(call.as_mut()).is_pending());
    tokio::time::advance(ms(11)).await;
    let mut is_first = true;
    let outcome = std::future::poll_fn(|cx| {
        if std::mem::take(&mut is_first) {
            use_up_budget(cx);
        }
        call.as_mut().poll(cx)
    });
    assert_eq!(call_result(&outcome.await), CallResult::Elapsed);
    assert_eq!(probe.log().times(), [0]);
}
