//! A script driven by the tower futures.

use std::sync::Arc;

use reattempt::test_util::{
    Answer, Fault, Payload, Step, attempt, call_result, ms, probe, readiness, verdict,
};
use reattempt::{
    Call, CallContext, CallDeadline, DeadlineLayer, HasCallContext, HedgeLayer, Idempotency,
    NextAttempt, Replay, RetryInfo, RetryLayer, RetryThrottle, Verdict,
};
use tower::util::BoxCloneService;
use tower::{Layer, ServiceExt};

use crate::script::{Attempt, Mode, Script};
use crate::{Log, Trace};

type Verdicts = fn(Result<&Answer, &Fault>, &CallContext) -> Verdict;

fn step(number: usize, said: &Attempt) -> Step {
    let number = u32::try_from(number).expect("few steps");
    let mut step = attempt(number).comes_to(said.verdict).after(ms(said.after));
    if said.as_answer {
        step = step.as_answer();
    }
    if let Some(pushback) = said.pushback {
        step = step.pushback(pushback);
    }
    if let Some(stage) = said.stage {
        step = step.reaches(stage);
    }
    if said.forbids {
        step = step.forbids();
    }
    if let Some((after, moved)) = said.waiter {
        step = step.config_coming(async move {
            if after > 0 {
                tokio::time::sleep(ms(after)).await;
            }
            moved
        });
    }
    step
}

/// A request that cuts off some of its attempts.
struct Request {
    call: Call<Payload>,
    cut_off: Arc<[u32]>,
}

impl HasCallContext for Request {
    fn context(&self) -> Option<&CallContext> {
        self.call.context()
    }

    fn context_mut(&mut self) -> &mut CallContext {
        self.call.context_mut()
    }
}

impl Replay for Request {
    fn replay(&self, _: &NextAttempt<'_>) -> Option<Self> {
        Some(Self {
            call: self.call.clone(),
            cut_off: Arc::clone(&self.cut_off),
        })
    }

    fn was_cut_off(&self, attempt: u32) -> bool {
        self.cut_off.contains(&attempt)
    }
}

pub(crate) async fn drive(script: &Script) -> Trace {
    let steps = script.steps.iter().enumerate();
    let steps = steps.map(|(at, said)| step(at + 1, said));
    let of_readiness = |(nth, (after, breaks)): (u32, &(u64, bool))| {
        let readiness = readiness(nth).after(ms(*after));
        if *breaks {
            readiness.breaks()
        } else {
            readiness
        }
    };
    let probe = probe(steps).ready((2..).zip(&script.readiness).map(of_readiness));

    let steps = (1..).zip(&script.steps);
    let cut_off = steps.filter_map(|(number, step)| step.cut_off.then_some(number));
    let mut request = Request {
        call: probe.request(),
        cut_off: cut_off.collect(),
    };
    let watch = RetryInfo::track(&mut request);
    let context = request.context_mut();
    if script.idempotent {
        context.set_idempotency(Idempotency::Idempotent);
    }
    let throttle = script.throttle();
    if let Some(throttle) = &throttle {
        context.set_throttle(throttle.clone());
    }
    if let Some((after, false)) = script.limit {
        let at = tokio::time::Instant::now().into_std() + ms(after);
        context.attach_deadline(CallDeadline::attached(at));
    }

    let verdict = verdict as Verdicts;
    let recovering: BoxCloneService<Request, Answer, Fault> = match script.mode {
        Mode::Retry(_) => {
            let layer = RetryLayer::new(verdict, script.strategy());
            BoxCloneService::new(layer.transparent(script.transparent).layer(probe.inner()))
        }
        Mode::Hedge { .. } => {
            let layer = HedgeLayer::new(verdict, script.hedge_policy());
            BoxCloneService::new(layer.transparent(script.transparent).layer(probe.inner()))
        }
    };
    let outcome = match script.limit {
        Some((after, true)) => {
            let bounded = DeadlineLayer::new(ms(after)).layer(recovering);
            bounded.oneshot(request).await
        }
        _ => recovering.oneshot(request).await,
    };
    let log = probe.log();
    Trace {
        sent: log.times().into_iter().zip(log.kinds()).collect(),
        call_result: call_result(&outcome),
        over: log.now(),
        ambiguous: match &outcome {
            Err(Fault::Elapsed(elapsed)) => Some(elapsed.ambiguous),
            _ => None,
        },
        log: Log::of(&watch.info()),
        milli_tokens: throttle.and_then(|throttle| throttle.milli_tokens()),
    }
}
