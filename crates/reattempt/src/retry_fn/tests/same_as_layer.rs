//! A function is treated as a service below the recovery layer.

use tokio::time::Instant;
use tower::{Layer, ServiceExt};

use super::*;
use crate::failure::reason::KV_NOT_MY_VBUCKET;
use crate::test_util::{Answer, CallResult, Fault, Step, attempt, call_result, probe, verdict};
use crate::{AttemptRecord, Call, DeadlineLayer, RetryLayer, Transparent};

type Verdicts = fn(Result<&Answer, &Fault>, &CallContext) -> Verdict;

/// Records without the clock: when an attempt ended since the call began.
fn comparable(info: &RetryInfo, began: Instant) -> (RetryInfo, Vec<Option<Duration>>) {
    let mut info = info.clone();
    let since = |record: &mut AttemptRecord| {
        let ended = record.ended.take()?;
        Some(ended.saturating_duration_since(began.into_std()))
    };
    let ended = info.records.iter_mut().map(since).collect();
    (info, ended)
}

/// One script through the layer and through the function.
#[tokio::test(start_paused = true)]
async fn a_function_is_treated_as_a_service_below_the_layer() {
    type Script = fn() -> Vec<Step>;
    let scripts: [Script; 8] = [
        || vec![attempt(1).after(ms(3))],
        || vec![attempt(1).fails(KV_LOCKED).after(ms(3)), attempt(2)],
        || {
            (1..=4)
                .map(|n| attempt(n).fails(KV_LOCKED).code(9))
                .collect()
        },
        || {
            vec![
                attempt(1).fails(KV_LOCKED),
                attempt(2).fails_fatally(KV_LOCKED),
            ]
        },
        || {
            let after = ServerPushback::After(ms(77));
            vec![
                attempt(1).fails(KV_LOCKED).pushback(after),
                attempt(2).goes_to("b"),
            ]
        },
        || vec![attempt(1).fails(KV_LOCKED).pushback(ServerPushback::Stop)],
        || {
            let fails = attempt(1).fails(KV_LOCKED);
            let refused = attempt(2).fails(KV_LOCKED).transparently(Transparent::Once);
            vec![
                fails,
                refused,
                attempt(3).fails(KV_NOT_MY_VBUCKET).as_answer(),
                attempt(4),
            ]
        },
        || {
            vec![
                attempt(1).fails(FUNCTION_FAILED).reaches(Stage::Dispatch),
                attempt(2).hangs(),
            ]
        },
    ];
    for script in scripts {
        for idempotent in [true, false] {
            let (layered, mut seen) = (probe(script()), Vec::new());
            let mut request = layered.request();
            let said = if idempotent {
                Idempotency::Idempotent
            } else {
                Idempotency::NotIdempotent
            };
            request.context_mut().set_idempotency(said);
            let (handle, began) = (RetryInfo::track(&mut request), Instant::now());
            let classifier: Verdicts = verdict;
            let service = RetryLayer::new(classifier, attempts(4)).layer(layered.inner());
            let service = DeadlineLayer::new(ms(500)).layer(service);
            seen.push((
                call_result(&service.oneshot(request).await),
                comparable(&handle.info(), began),
            ));

            let (called, began) = (probe(script()), Instant::now());
            let mut call = retry(|attempt| {
                let call = Call::with_context((), attempt.context().clone());
                called.inner().oneshot(call)
            });
            call.context_mut().set_idempotency(said);
            let call = call
                .classify(classifier)
                .strategy(attempts(4))
                .timeout(ms(500));
            let (outcome, info) = call.with_info().await;
            let call_result = match outcome {
                Err(ClientError::Elapsed(_)) => CallResult::Elapsed,
                Err(ClientError::Transport(error)) => call_result(&Err(error)),
                Err(error @ (ClientError::Refused(_) | ClientError::CircuitOpen(_))) => {
                    panic!("no layer refuses: {error:?}")
                }
                Ok(answer) => call_result(&Ok(answer)),
            };
            seen.push((call_result, comparable(&info, began)));
            assert_eq!(seen[0], seen[1]);
            assert_eq!(layered.log().times(), called.log().times());
        }
    }
}
