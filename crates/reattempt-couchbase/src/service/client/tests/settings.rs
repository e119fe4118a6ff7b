//! Each default, and each setting.

use reattempt::{
    AttemptKind, CallContext, HasCallContext, HedgePolicy, Observer, RoutePolicy, StopReason,
    TokenBucket,
};
use reattempt_http::body::BufferBudget;
use tower::util::BoxCloneService;

use super::*;

const ALL: [fn() -> ServiceClientLayer; 5] = [
    ServiceClientLayer::query,
    ServiceClientLayer::analytics,
    ServiceClientLayer::search,
    ServiceClientLayer::views,
    ServiceClientLayer::management,
];

/// The preset around a client that meets these steps, with a read-only statement.
async fn ask(layer: &ServiceClientLayer, steps: &[Step]) -> (Seen, RetryInfo, Duration) {
    send(layer.layer(client(steps)), read_only()).await
}

#[tokio::test(start_paused = true)]
async fn by_default_a_response_ends_after_seventy_five_seconds() {
    for layer in ALL {
        let (seen, _, took) = ask(&layer(), &[Step::Hangs]).await;
        assert_eq!(took, Duration::from_secs(75));
        assert!(seen.unwrap_err().contains("ambiguous: Some"));
        // The body too, from the call on.
        let (seen, _, took) = ask(&layer(), &[Step::BodyHangs]).await;
        assert_eq!((seen.unwrap().0, took), (200, Duration::from_secs(75)));
        let (_, _, took) = ask(&layer().timeout(ms(70)), &[Step::Hangs]).await;
        assert_eq!(took, ms(70));
    }
    let unlimited = ServiceClientLayer::query().no_timeout();
    let (seen, info, took) = ask(&unlimited, &[Step::Error(4040); 200]).await;
    assert_eq!((seen.unwrap().0, info.attempts()), (200, 201));
    assert!(took > Duration::from_secs(75), "{took:?}");
}

/// C12, C13, C32: by the list of the service.
#[tokio::test(start_paused = true)]
async fn each_service_sends_again_what_it_says_is_idempotent() {
    let again = [
        ("POST", [false, false, true, true, false]),
        ("GET", [false, false, true, true, true]),
    ];
    for (method, again) in again {
        for (layer, again) in ALL.into_iter().zip(again) {
            let client = layer().layer(client(&[Step::Reset]));
            let (seen, info, _) = send(client, request(method)).await;
            assert_eq!(seen.is_ok(), again, "{method} {:?}", layer());
            assert_eq!(info.attempts(), if again { 2 } else { 1 });
        }
    }
    for layer in ALL {
        let client = layer().layer(client(&[Step::Refused]));
        let (seen, _, _) = send(client, request("POST")).await;
        assert!(seen.is_ok(), "it was never sent");
    }
}

#[tokio::test(start_paused = true)]
async fn codes_of_current_servers_are_handled_only_when_asked_for() {
    for (layer, attempts) in [
        (ServiceClientLayer::query(), 1),
        (ServiceClientLayer::query().with_current_server_codes(), 2),
    ] {
        let (_, info, _) = ask(&layer, &[Step::Error(4060)]).await;
        assert_eq!(info.attempts(), attempts);
    }
}

#[tokio::test(start_paused = true)]
async fn an_attempts_limit_reaches_until_its_response_is_judged() {
    let layer = ServiceClientLayer::query().attempt_timeout(ms(300));
    for step in [Step::Hangs, Step::BodyHangs] {
        let (seen, info, took) = ask(&layer, &[step]).await;
        assert_eq!((seen.unwrap().0, info.attempts()), (200, 2), "{step:?}");
        assert_eq!(took, ms(301));
    }
    let write = send(layer.layer(client(&[Step::Hangs])), request("POST"));
    let (seen, info, _) = write.await;
    assert!(seen.unwrap_err().contains("ambiguous: Some(true)"));
    assert_eq!(info.stopped(), Some(StopReason::NotIdempotent));
}

#[tokio::test(start_paused = true)]
async fn a_body_beyond_its_limit_is_sent_once() {
    for (limit, attempts) in [(7, 1), (8, 2)] {
        let layer = ServiceClientLayer::query().body_limit(limit, BufferBudget::default());
        let (_, info, _) = ask(&layer, &[Step::Error(4040)]).await;
        assert_eq!(info.attempts(), attempts, "{limit} bytes");
    }
}

#[tokio::test(start_paused = true)]
async fn a_throttle_applies_when_one_is_given() {
    let bucket = Arc::new(TokenBucket::new(4, 100).unwrap());
    let layer = ServiceClientLayer::query().throttle(bucket);
    let (seen, info, _) = ask(&layer, &[Step::Error(4040); 9]).await;
    assert_eq!((seen.unwrap().0, info.attempts()), (200, 2));
    assert_eq!(info.stopped(), Some(StopReason::Throttled));
}

#[tokio::test(start_paused = true)]
async fn the_policy_of_a_call_may_hedge() {
    let mut request = read_only();
    let hedged = RoutePolicy::new("hedged").hedge(HedgePolicy::new(2, ms(20)));
    request.context_mut().set_policy(Arc::new(hedged));
    let client = ServiceClientLayer::query().layer(client(&[Step::Hangs]));
    let (seen, info, took) = send(client, request).await;
    assert_eq!((seen.unwrap().0, info.attempts(), took), (200, 2, ms(20)));
}

#[tokio::test]
async fn a_client_can_be_boxed_and_spawned_and_keeps_its_error() {
    let boxed = BoxCloneService::new(ServiceClientLayer::query().layer(client(&[Step::Reset])));
    let task = tokio::spawn(boxed.oneshot(request("POST")));
    let error = task.await.unwrap().unwrap_err();
    let kind = error.transport().map(io::Error::kind);
    assert_eq!(kind, Some(io::ErrorKind::ConnectionReset));
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
    let layer = ServiceClientLayer::query().observer(kinds.clone());
    let (seen, ..) = ask(&layer, &[Step::Error(4040)]).await;
    assert_eq!(seen.unwrap().0, 200);
    let mut hedged = read_only();
    let policy = RoutePolicy::new("hedged").hedge(HedgePolicy::new(2, ms(20)));
    hedged.context_mut().set_policy(Arc::new(policy));
    let (seen, ..) = send(layer.layer(client(&[Step::Hangs])), hedged).await;
    assert_eq!(seen.unwrap().0, 200);
    assert_eq!(*kinds.0.lock().unwrap(), [Initial, Retry, Initial, Hedge]);
}
