//! Each default, and each setting.

use reattempt::backoff::Backoff;
use reattempt::strategy::{MaxAttempts, NeverRetry};
use reattempt::{
    AttemptKind, CallContext, HedgePolicy, Idempotency, Observer, RoutePolicy, StopReason,
    TokenBucket,
};
use tower::util::BoxCloneService;

use super::*;
use crate::kv::ErrorMaps;

fn is_timeout(seen: &Seen) -> bool {
    seen.as_ref()
        .is_err_and(|error| error.contains("ambiguous"))
}

#[tokio::test(start_paused = true)]
async fn by_default_best_effort_until_two_and_a_half_seconds() {
    let layer = KvClientLayer::without_config_poll();
    let (seen, info, took) = get(&layer, &[Step::Status(0x86); 99]).await;
    assert!(is_timeout(&seen));
    assert_eq!(took, ms(2500));
    let delays: Vec<_> = info.records().filter_map(|record| record.delay).collect();
    let expected = [1, 2, 4, 8, 16, 32, 64, 128, 256, 500, 500, 500].map(ms);
    assert_eq!(delays[..12], expected);

    let (_, _, took) = get(&layer.clone().timeout(ms(70)), &[Step::Hangs]).await;
    assert_eq!(took, ms(70));
    let unlimited = layer.no_timeout();
    let (seen, info, took) = get(&unlimited, &[Step::Status(0x86); 20]).await;
    assert_eq!((seen, info.attempts()), (Ok(0), 21));
    assert_eq!(took, ms(511 + 11 * 500));
}

#[tokio::test(start_paused = true)]
async fn a_policys_timeout_replaces_the_presets() {
    for limit in [9000, 300] {
        let layer = KvClientLayer::without_config_poll();
        let mut request = request(Opcode::GET);
        let policy = RoutePolicy::new("p").with_timeout(ms(limit));
        request.context_mut().set_policy(Arc::new(policy));
        let (seen, _, took) = send(layer.layer(client(&[Step::Hangs])), request).await;
        assert!(is_timeout(&seen));
        assert_eq!(took, ms(limit));
    }
}

#[derive(Clone)]
struct Durable;

impl KvRequest for Durable {
    fn opcode(&self) -> u8 {
        Opcode::SET.0
    }

    fn is_durable(&self) -> bool {
        true
    }
}

#[tokio::test(start_paused = true)]
async fn a_durable_write_has_ten_seconds_unless_they_are_set() {
    let layer = KvClientLayer::without_config_poll;
    for (layer, policys, limit) in [
        (layer(), None, 10_000),
        (layer().timeout(ms(70)), None, 70),
        (layer().timeout(ms(20_000)), None, 20_000),
        (layer(), Some(300), 300),
        (layer(), Some(12_000), 12_000),
        (layer().no_timeout(), Some(300), 300),
    ] {
        let mut call = Call::new(Durable);
        if let Some(timeout) = policys {
            let policy = RoutePolicy::new("p").with_timeout(ms(timeout));
            call.context_mut().set_policy(Arc::new(policy));
        }
        let hangs = service_fn(|_: Call<Durable>| std::future::pending::<Result<Answer, Lost>>());
        let began = Instant::now();
        let error = layer.layer(hangs).oneshot(call).await.unwrap_err();
        let ClientError::Elapsed(elapsed) = error else {
            panic!("{error:?}");
        };
        assert_eq!(
            (began.elapsed(), elapsed.timeout),
            (ms(limit), Some(ms(limit)))
        );
    }
}

/// C12, C32: the layer attaches the idempotency of RFC 0049's list, unless the caller has set it.
#[tokio::test(start_paused = true)]
async fn a_lost_write_is_sent_again_only_if_the_caller_says_so() {
    let layer = KvClientLayer::without_config_poll();
    let lost = [Step::Lost(Stage::InFlight)];
    let (seen, info, _) = get(&layer, &lost).await;
    assert_eq!((seen, info.attempts()), (Ok(0), 2));

    let (_, info, _) = send(layer.layer(client(&lost)), request(Opcode::SET)).await;
    assert_eq!(info.stopped(), Some(StopReason::NotIdempotent));
    let mut own = request(Opcode::SET);
    own.context_mut().set_idempotency(Idempotency::Idempotent);
    let (seen, _, _) = send(layer.layer(client(&lost)), own).await;
    assert_eq!(seen, Ok(0));
}

#[tokio::test(start_paused = true)]
async fn specifications_of_error_maps_count_only_when_asked_for() {
    let delays = |info: &RetryInfo| -> Vec<_> {
        let delays = info.records().filter_map(|record| record.delay);
        delays.collect()
    };
    let steps = [Step::ByMap, Step::ByMap, Step::Status(0x86)];
    let layer = KvClientLayer::without_config_poll();
    let (_, info, _) = get(&layer, &steps).await;
    assert_eq!(delays(&info), [1, 2, 4].map(ms), "best effort");

    let spec = r#"{"strategy": "constant", "interval": 70, "after": 30}"#;
    let map = map(&[("ff01", "auto-retry", spec)]);
    let maps = ErrorMaps::new();
    maps.insert(Backend::new(node(1).to_string()), map);
    let other = MaxAttempts::new(9, Backoff::constant(ms(9)));
    for by_map in [
        layer
            .clone()
            .error_maps(maps.clone())
            .strategy(other.clone()),
        layer.strategy(other).error_maps(maps),
    ] {
        let (_, info, _) = get(&by_map, &steps).await;
        assert_eq!(delays(&info), [30, 70, 9].map(ms));
    }
}

#[tokio::test(start_paused = true)]
async fn codes_of_current_servers_are_handled_only_when_asked_for() {
    const ECONFIG_ONLY: u16 = 0x0d;
    for code in [Step::Throttled, Step::Status(ECONFIG_ONLY)] {
        let (poller, asked) = poller();
        let layer = KvClientLayer::new(poller).timeout(ms(5000));
        let (seen, info, _) = get(&layer, &[code]).await;
        assert!(matches!(seen, Ok(0x0c | ECONFIG_ONLY)), "{seen:?}");
        assert_eq!((info.attempts(), asked.lock().unwrap().len()), (1, 0));

        let current = layer.with_current_server_codes();
        let (seen, info, took) = get(&current, &[code]).await;
        assert_eq!((seen, info.attempts()), (Ok(0), 2));
        if matches!(code, Step::Throttled) {
            assert_eq!(took, ms(4561), "what the server asked for, rounded up");
        } else {
            assert_eq!(asked.lock().unwrap().len(), 1, "a newer configuration");
        }
    }
}

/// C47, and law 9: neither an attempt that hangs nor a call that ends at its deadline leaves the
/// configuration as it is.
#[tokio::test(start_paused = true)]
async fn a_node_that_never_answers_leads_to_another() {
    let (by_attempt, asked) = poller();
    let layer = KvClientLayer::new(by_attempt).attempt_timeout(ms(300));
    let (seen, info, took) = get(&layer, &[Step::Hangs]).await;
    // The newer configuration has moved the key: the retry does not wait.
    assert_eq!((seen, info.attempts(), took), (Ok(0), 2, ms(300)));
    assert_eq!(*asked.lock().unwrap(), [node(2)], "not the one that hangs");

    let (by_call, asked) = poller();
    let observer = Arc::new(reattempt::observe::LogObserver);
    let layer = KvClientLayer::new(by_call).observer(observer);
    let (seen, ..) = get(&layer, &[Step::Hangs]).await;
    assert!(seen.is_err());
    sleep(ms(1)).await;
    assert_eq!(*asked.lock().unwrap(), [node(2)]);
}

#[tokio::test(start_paused = true)]
async fn an_attempts_limit_is_ambiguous_once_it_was_sent() {
    let layer = KvClientLayer::without_config_poll().attempt_timeout(ms(300));
    let set = |step| send(layer.layer(client(&[step])), request(Opcode::SET));
    let (seen, info, _) = set(Step::Hangs).await;
    assert!(is_timeout(&seen));
    assert_eq!(info.stopped(), Some(StopReason::NotIdempotent));
    let reasons: Vec<_> = info.reasons().collect();
    assert_eq!(reasons, [SOCKET_CLOSED_WHILE_IN_FLIGHT]);
    let (seen, info, _) = set(Step::Connects).await;
    assert_eq!((seen, info.attempts()), (Ok(0), 2), "it was never sent");
}

#[tokio::test(start_paused = true)]
async fn a_throttle_applies_when_one_is_given() {
    let bucket = Arc::new(TokenBucket::new(4, 100).unwrap());
    let layer = KvClientLayer::without_config_poll().throttle(bucket);
    let (seen, info, _) = get(&layer, &[Step::Status(0x86); 9]).await;
    assert_eq!((seen, info.attempts()), (Ok(0x86), 2));
    assert_eq!(info.stopped(), Some(StopReason::Throttled));
}

#[tokio::test(start_paused = true)]
async fn the_policy_of_a_call_may_retry_otherwise_or_hedge() {
    let layer = KvClientLayer::without_config_poll();
    let by = |policy: RoutePolicy, step| {
        let mut call = request(Opcode::GET);
        call.context_mut().set_policy(Arc::new(policy));
        send(layer.layer(client(&[step])), call)
    };
    let never = RoutePolicy::new("never").retry(NeverRetry);
    let (seen, info, _) = by(never, Step::Status(0x86)).await;
    assert_eq!((seen, info.attempts()), (Ok(0x86), 1));
    let hedged = RoutePolicy::new("hedged").hedge(HedgePolicy::new(2, ms(20)));
    let (seen, info, took) = by(hedged, Step::Hangs).await;
    assert_eq!((seen, info.attempts(), took), (Ok(0), 2, ms(20)));
}

#[tokio::test]
async fn a_client_can_be_boxed_and_spawned_and_keeps_its_error() {
    let layer = KvClientLayer::without_config_poll();
    let boxed = BoxCloneService::new(layer.layer(client(&[Step::ForGood])));
    let task = tokio::spawn(boxed.oneshot(request(Opcode::GET)));
    let error = task.await.unwrap().unwrap_err();
    assert_eq!(error.transport(), Some(&Lost::ForGood));
}

/// Keeps why attempts were sent.
#[derive(Debug, Default)]
struct Kinds(Mutex<Vec<AttemptKind>>);

impl Observer for Kinds {
    fn attempt_sent(&self, context: &CallContext) {
        self.0.lock().unwrap().push(context.kind());
    }
}

#[tokio::test(start_paused = true)]
async fn an_observer_sees_retries_and_hedges() {
    use AttemptKind::{Hedge, Initial, Retry};
    let kinds = Arc::new(Kinds::default());
    let layer = KvClientLayer::without_config_poll().observer(kinds.clone());
    assert_eq!(get(&layer, &[Step::Status(0x86)]).await.0, Ok(0));
    let mut hedged = request(Opcode::GET);
    let policy = RoutePolicy::new("hedged").hedge(HedgePolicy::new(2, ms(20)));
    hedged.context_mut().set_policy(Arc::new(policy));
    let (seen, ..) = send(layer.layer(client(&[Step::Hangs])), hedged).await;
    assert_eq!(seen, Ok(0));
    assert_eq!(*kinds.0.lock().unwrap(), [Initial, Retry, Initial, Hedge]);
}
