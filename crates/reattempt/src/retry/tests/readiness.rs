//! Only ready instances are called, and readiness is never held during a delay; the probe panics
//! otherwise.

use super::*;
use crate::CallDeadline;

#[tokio::test(start_paused = true)]
async fn readiness_is_acquired_after_the_delay() {
    let probe = probe([attempt(1).fails(TMPFAIL), attempt(2)]).ready([readiness(2).after(ms(7))]);
    assert_eq!(send(&retry(three()), &probe).await.0, CallResult::Answer(2));
    assert_eq!(probe.log().times(), [0, 17], "10 of back-off, then 7");
    assert_eq!(probe.log().readied(), 2, "one readiness per attempt");
}

#[tokio::test(start_paused = true)]
async fn an_error_is_kept_until_the_next_attempt_is_really_sent() {
    let probe = probe([attempt(1).fails(TMPFAIL), attempt(2)]).ready([readiness(2).after(ms(7))]);
    let _ = send(&retry(three()), &probe).await;
    assert_eq!(probe.log().outcome_dropped(1), Some(17));
}

/// M22
#[tokio::test(start_paused = true)]
async fn a_readiness_error_never_stands_in_for_the_servers() {
    let broken = [readiness(2).after(ms(7)).breaks()];
    let probe = probe([attempt(1).fails(TMPFAIL)]).ready(broken);
    let (call_result, info) = send(&retry(three()), &probe).await;
    assert_eq!(call_result, CallResult::Error(1));
    assert_eq!(info.stopped(), Some(StopReason::Fatal));
    let last = info.records().last().cloned().unwrap();
    assert_eq!(
        last.stopped,
        Some(StopReason::Fatal),
        "the record has the reason too"
    );
}

#[tokio::test(start_paused = true)]
async fn with_no_kept_error_the_readiness_error_is_returned() {
    let broken = [readiness(2).breaks()];
    let probe = probe([attempt(1).fails(TMPFAIL).as_answer()]).ready(broken);
    assert_eq!(send(&retry(three()), &probe).await.0, CallResult::Broken);
}

#[tokio::test(start_paused = true)]
async fn one_instance_gets_ready_for_all_further_attempts() {
    let failing = (1..=2).map(|n| attempt(n).fails(TMPFAIL));
    let probe = probe(failing.chain([attempt(3)]));
    assert_eq!(send(&retry(three()), &probe).await.0, CallResult::Answer(3));
    assert_eq!(probe.log().service_clones(), 1);
}

/// R14: also where no delay was waited for.
#[tokio::test(start_paused = true)]
async fn a_service_that_is_ready_after_the_deadline_gets_nothing() {
    for (late, sent) in [(49, vec![0, 49]), (50, vec![0])] {
        let ready = [readiness(2).after(ms(late))];
        let probe = probe([attempt(1).fails(TMPFAIL), attempt(2)]).ready(ready);
        let mut request = probe.request();
        let deadline = tokio::time::Instant::now().into_std() + ms(50);
        request
            .context_mut()
            .attach_deadline(CallDeadline::attached(deadline));
        let at_once = MaxAttempts::new(3, Backoff::constant(ms(0)));
        let (call_result, info) = send_request(&retry(at_once), &probe, request).await;
        assert_eq!(probe.log().times(), sent);
        if sent.len() == 1 {
            assert_eq!(call_result, CallResult::Error(1));
            assert_eq!(info.stopped(), Some(StopReason::Deadline));
        }
    }
}
