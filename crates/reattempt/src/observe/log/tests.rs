use std::fmt::{Debug, Write as _};
use std::sync::{Arc, Mutex};

use crate::failure::reason::{KV_NOT_MY_VBUCKET, KV_TEMPORARY_FAILURE};
use crate::policy::backoff::Backoff;
use crate::policy::strategy::{MaxAttempts, NeverRetry};
use tower::{Layer, ServiceBuilder, ServiceExt};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::policy::throttle::Settled;
use crate::policy::{HedgeAdmission, HedgeDelay, HedgeView};
use crate::test_util::{Answer, Fault, attempt, ms, probe, verdict};
use crate::{
    DeadlineLayer, HasCallContext, HedgeLayer, HedgePolicy, RetryLayer, RetryThrottle, TokenBucket,
};

mod attempts;
mod calls;

/// Collects all events of this crate at any level: level, target and fields.
#[derive(Clone, Default)]
pub(crate) struct All(pub(crate) Arc<Mutex<Vec<(Level, String, String)>>>);

struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.0, "{}={value:?} ", field.name());
    }
}

impl Subscriber for All {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("reattempt")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields(String::new());
        event.record(&mut fields);
        let metadata = event.metadata();
        let said = (*metadata.level(), metadata.target().to_owned(), fields.0);
        self.0.lock().unwrap().push(said);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// A subscriber of this kind, which hears this thread until the guard is dropped.
pub(crate) fn hears<S>() -> (S, tracing::subscriber::DefaultGuard)
where
    S: Subscriber + Clone + Default + Send + Sync,
{
    // Prevents tracing from caching the "no subscriber" interest of another thread.
    drop(crate::test_util::listen());
    let heard = S::default();
    let guard = tracing::subscriber::set_default(heard.clone());
    (heard, guard)
}

fn classify(outcome: Result<&Answer, &Fault>, context: &crate::CallContext) -> crate::Verdict {
    verdict(outcome, context)
}

/// An event of an attempt has this level and these parts.
fn said((found, target, said): &(Level, String, String), level: Level, parts: &[&str]) {
    assert_eq!((*found, &**target), (level, "reattempt"));
    let missing: Vec<_> = parts.iter().filter(|part| !said.contains(**part)).collect();
    assert!(missing.is_empty(), "{missing:?} not in {said}");
}

/// C10
#[tokio::test(start_paused = true)]
async fn a_scheduled_retry_logs_at_debug_and_a_refused_one_at_info() {
    let (heard, _guard) = hears::<All>();
    let two = MaxAttempts::new(2, Backoff::constant(ms(10)));
    let probe = probe((1..=2).map(|n| attempt(n).fails(KV_TEMPORARY_FAILURE)));
    let service = RetryLayer::new(classify, two).layer(probe.inner());
    assert!(service.oneshot(probe.request()).await.is_err());

    let heard = heard.0.lock().unwrap();
    assert_eq!(heard.len(), 3, "{heard:?}");
    let busy = "reason=KV_TEMPORARY_FAILURE ";
    let scheduled = ["attempt=1 ", busy, "delay=10ms "];
    said(&heard[0], Level::DEBUG, &scheduled);
    let refused = ["attempt=2 ", busy, "stopped=\"attempts\" "];
    said(&heard[1], Level::INFO, &refused);
}

/// C10 C6 C7: decisions that no strategy makes are logged too: an always-retry reason, and a delay
/// that the deadline cuts off.
#[tokio::test(start_paused = true)]
async fn forced_retries_and_delays_that_do_not_fit_are_logged() {
    let (heard, _guard) = hears::<All>();
    let probe = probe((1..=3).map(|n| attempt(n).fails(KV_NOT_MY_VBUCKET)));
    let service = ServiceBuilder::new()
        .layer(DeadlineLayer::new(ms(20)))
        .layer(RetryLayer::new(classify, NeverRetry))
        .service(probe.inner());
    assert!(service.oneshot(probe.request()).await.is_err());

    let heard = heard.0.lock().unwrap();
    let levels: Vec<_> = heard.iter().map(|(level, ..)| *level).collect();
    assert_eq!(
        levels,
        [Level::DEBUG, Level::DEBUG, Level::INFO, Level::WARN],
        "{heard:?}"
    );
    for ((.., said), part) in
        heard
            .iter()
            .zip(["delay=1ms ", "delay=10ms ", "stopped=\"deadline\" "])
    {
        assert!(said.contains("reason=KV_NOT_MY_VBUCKET "), "{said}");
        assert!(said.contains(part), "{said}");
    }
}

/// R46 and law 8
#[tokio::test(start_paused = true)]
async fn a_refused_hedge_logs_at_info_with_its_gate() {
    let (heard, _guard) = hears::<All>();
    let bucket = TokenBucket::new(2, 1000).unwrap();
    let failure = crate::Failure::new(KV_TEMPORARY_FAILURE, crate::Stage::Response);
    bucket.settled(Settled::Failure(&failure));
    let probe = probe([attempt(1).after(ms(15))]);
    let mut request = probe.request();
    request.context_mut().set_throttle(Arc::new(bucket));
    let layer = HedgeLayer::new(classify, HedgePolicy::new(2, ms(10)).hedge_non_idempotent());
    assert!(layer.layer(probe.inner()).oneshot(request).await.is_ok());
    let heard = heard.0.lock().unwrap();
    assert_eq!(heard.len(), 1, "{heard:?}");
    let held_back = ["call=", "stopped=\"throttled\" ", "tokens=1 "];
    said(&heard[0], Level::INFO, &held_back);
}

/// Ten milliseconds; never more than one attempt.
#[derive(Debug)]
struct HoldsBack;

impl HedgeDelay for HoldsBack {
    fn delay(&self, _: &HedgeView<'_>) -> Option<std::time::Duration> {
        Some(ms(10))
    }

    fn admit(&self, _: &HedgeView<'_>) -> HedgeAdmission {
        HedgeAdmission::Never
    }
}

#[tokio::test(start_paused = true)]
async fn a_hedge_that_its_delay_holds_back_logs_the_calls_number() {
    let (heard, _guard) = hears::<All>();
    let probe = probe([attempt(1).after(ms(15))]);
    let policy = HedgePolicy::with_delay(2, Arc::new(HoldsBack)).hedge_non_idempotent();
    let layer = HedgeLayer::new(classify, policy);
    let call = layer.layer(probe.inner()).oneshot(probe.request());
    assert!(call.await.is_ok());
    let heard = heard.0.lock().unwrap();
    assert_eq!(heard.len(), 1, "{heard:?}");
    assert!(heard[0].2.contains("call="), "its number: {heard:?}");
}

/// C10
#[tokio::test(start_paused = true)]
async fn a_successful_call_logs_nothing() {
    let (heard, _guard) = hears::<All>();
    let probe = probe([attempt(1)]);
    let two = MaxAttempts::new(2, Backoff::constant(ms(10)));
    let service = RetryLayer::new(classify, two).layer(probe.inner());
    assert!(service.oneshot(probe.request()).await.is_ok());
    assert_eq!(*heard.0.lock().unwrap(), []);
}

/// The governor says why.
#[tokio::test(start_paused = true)]
async fn a_refusal_of_a_governor_logs_its_reason() {
    let (heard, _guard) = hears::<All>();
    let governor = Arc::new(crate::Governor::new(1, 100).unwrap());
    let busy = crate::Failure::new(KV_TEMPORARY_FAILURE, crate::Stage::Response);
    // A lone failure has a retry in any state.
    governor.first_failed();
    governor.settled(Settled::Failure(&busy));
    assert!(governor.spend(Some(&busy)));
    let probe = probe([attempt(1).fails(KV_TEMPORARY_FAILURE)]);
    let mut request = probe.request();
    request.context_mut().set_throttle(governor);
    let two = MaxAttempts::new(2, Backoff::constant(ms(10)));
    let service = RetryLayer::new(classify, two).layer(probe.inner());
    assert!(service.oneshot(request).await.is_err());

    let heard = heard.0.lock().unwrap();
    let (_, _, refused) = &heard[0];
    let why = "refused=after overload: the level of 0 is not above 1 ";
    assert!(refused.contains(why), "{refused}");
}

/// What keeps requests away is a warning.
#[test]
fn changes_of_health_log_at_warn_and_info() {
    use crate::health::{HealthCause, HealthChange, HealthEvent};
    let (heard, _guard) = hears::<All>();
    let mut event = HealthEvent {
        name: Some("10.0.0.1:80".into()),
        change: HealthChange::Ejected,
        cause: HealthCause::SuccessRate,
        ejected_for: Some(ms(4000)),
    };
    for &change in HealthChange::ALL {
        event.change = change;
        event.log();
    }
    let heard = heard.0.lock().unwrap();
    let levels: Vec<_> = heard.iter().map(|(level, ..)| *level).collect();
    let (bad, good) = (Level::WARN, Level::INFO);
    assert_eq!(levels, [bad, good, bad, good]);
    let (_, target, ejected) = &heard[0];
    assert_eq!(target, "reattempt::health");
    for part in [
        "backend=\"10.0.0.1:80\" ",
        "cause=\"success_rate\" ",
        "time=4s ",
    ] {
        assert!(ejected.contains(part), "{ejected}");
    }
}
