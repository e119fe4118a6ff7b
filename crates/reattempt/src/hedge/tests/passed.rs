//! Calls that the layer passes through, and on which no other recovery layer acts.

use std::sync::Mutex;

use super::*;
use crate::{AttemptDeadlineLayer, PushbackLayer};

fn by_policy() -> HedgeLayer<Verdicts> {
    HedgeLayer::by_policy(verdict)
}

/// What the call comes to under this policy, with this layer below that which passes it through.
async fn passed<L>(layer: L, probe: &Probe, policy: RoutePolicy) -> (CallResult, RetryInfo)
where
    L: Layer<Probe>,
    L::Service: Service<Call<Payload>, Response = Answer, Error = Fault> + Clone,
{
    let mut request = probe.request();
    request.context_mut().set_policy(Arc::new(policy));
    let service = by_policy().layer(layer.layer(probe.inner()));
    let (outcome, info) = send_passed(service, request).await;
    (call_result(&outcome), info)
}

async fn send_passed<S>(
    service: S,
    mut request: Call<Payload>,
) -> (Result<Answer, Fault>, RetryInfo)
where
    S: Service<Call<Payload>, Response = Answer, Error = Fault>,
{
    let watch = RetryInfo::track(&mut request);
    let outcome = service.oneshot(request).await;
    (outcome, watch.info())
}

#[tokio::test(start_paused = true)]
async fn its_one_attempt_has_the_attempts_timeout() {
    let listener = crate::test_util::listen();
    for layer in [
        AttemptDeadlineLayer::by_policy(),
        AttemptDeadlineLayer::new(ms(90)),
        AttemptDeadlineLayer::new(ms(30)).unless_policy(),
    ] {
        let probe = probe([attempt(1).hangs()]);
        let policy = RoutePolicy::new("none")
            .no_recovery()
            .with_timeout(ms(500))
            .with_attempt_timeout(ms(50));
        let (result, info) = passed(layer, &probe, policy).await;
        assert_eq!((result, probe.log().now()), (CallResult::Elapsed, 50));
        assert_eq!(info.stopped(), Some(StopReason::Strategy));
    }
    assert_eq!(listener.warnings(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn layers_below_are_not_outside_of_recovery() {
    let listener = crate::test_util::listen();
    let reader = |_: Result<&Answer, &Fault>| Some(ServerPushback::Stop);
    let probe = probe([attempt(1).fails(KV_LOCKED)]);
    let policy = RoutePolicy::new("none").no_recovery();
    let (_, info) = passed(PushbackLayer::new(reader), &probe, policy).await;
    let record = info.records().next().expect("one attempt");
    assert_eq!(record.pushback, Some(ServerPushback::Stop));
    assert_eq!(listener.warnings(), [""; 0]);
}

/// Notes why a response failed after its head.
#[derive(Debug, Default)]
struct Failed(Mutex<Vec<StopReason>>);

impl Observer for Failed {
    fn sees_response(&self) -> bool {
        true
    }

    fn response_failed(&self, _: &CallContext, stopped: StopReason, _: Option<&Failure>) {
        self.0.lock().unwrap().push(stopped);
    }
}

#[tokio::test(start_paused = true)]
async fn its_response_may_fail_after_its_head() {
    let failed = Arc::new(Failed::default());
    let began = |_: Result<&(), &Fault>, _: &CallContext| Verdict::Committed;
    let service = HedgeLayer::by_policy(began)
        .observer(Arc::clone(&failed) as Arc<dyn Observer>)
        .layer(tower::service_fn(|mut call: Call<()>| {
            let reporter = call.context_mut().reporter().follow();
            async move {
                tokio::spawn(async move {
                    let lost = Failure::new(KV_LOCKED, Stage::Response);
                    reporter.finish(&Verdict::Fatal(lost));
                });
                Ok::<_, Fault>(())
            }
        }));
    assert!(service.oneshot(Call::new(())).await.is_ok());
    tokio::time::sleep(ms(1)).await;
    assert_eq!(*failed.0.lock().unwrap(), [StopReason::Committed]);
}
