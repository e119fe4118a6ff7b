//! Failures and metadata of the client side, attempt by attempt (R17, R24, R49, R64).

use http::request::Parts;
use reattempt::{AttemptKind, HasCallContext};

use super::*;

type Made = Result<HeaderMap, ControlPlaneFailure>;

/// The metadata of attempt `number`.
type Credentials = fn(number: u32) -> Made;

fn failure(code: Code) -> Made {
    Err(ControlPlaneFailure::new(code, "no token"))
}

fn metadata(name: &'static str, value: u32) -> Made {
    let mut map = HeaderMap::new();
    map.insert(name, value.into());
    Ok(map)
}

/// A call with these credentials, which take two milliseconds to make.
async fn call_with(config: &ServiceConfig, server: &Server, credentials: Credentials) -> Ended {
    let of_attempt = move |call: &Parts| {
        let number = call.extensions.context().map_or(0, CallContext::attempt);
        async move {
            tokio::time::sleep(Duration::from_millis(2)).await;
            credentials(number)
        }
    };
    let server_of_attempt = server.clone();
    let service = ServiceBuilder::new()
        .layer(RouteLayer::new(config.clone()))
        .layer(DeadlineLayer::no_timeout().on_elapsed(AsGrpcStatus))
        .layer(ReplayBodyLayer::new())
        .layer(standard())
        .layer(HedgeLayer::by_policy(GrpcClassifier::new()))
        .layer(PreviousAttemptsLayer)
        .layer(CallCredentialsLayer::new(of_attempt))
        .layer(PushbackLayer::new(GrpcPushback))
        .layer(GrpcOutcomeLayer::new().body_error(ByTransportError))
        .service_fn(move |request: Request<ReplayBody<Full<Bytes>>>| {
            server_of_attempt.clone().attempt(request)
        });
    let mut request = request();
    let watch = RetryInfo::track(&mut request);
    let (head, body) = service.oneshot(request).await.unwrap().into_parts();
    let data = body.collect().await.unwrap().to_bytes();
    Ended {
        code: Code::from_header(&head.headers[GRPC_STATUS]),
        info: watch.info(),
        head: head.headers,
        data,
        at_ms: server.began.elapsed().as_millis(),
    }
}

/// R17, A54: the code is restricted to the allowed ones before it is matched.
#[tokio::test(start_paused = true)]
async fn codes_are_rewritten_before_they_are_matched() {
    for (codes, attempts, left) in [("5", 1, 10_000), ("13", 3, 7_000), ("5,14", 1, 10_000)] {
        let (config, server) = (retrying(3, codes), Server::new([Status(Code::Ok)]));
        let ended = call_with(&config, &server, |_| failure(Code::NotFound)).await;
        assert_eq!(ended.code, Code::Internal, "{codes}");
        assert_eq!(
            (ended.info.attempts(), tokens(&config)),
            (attempts, Some(left))
        );
        assert!(server.times().is_empty(), "nothing is sent");
        let mut failures = ended.info.records().filter_map(|record| record.failure);
        assert!(failures.all(|failure| failure.stage == Stage::Dispatch));
    }
}

/// R17, A54: no transparent retry although nothing was sent; it uses up attempts, and counts.
#[tokio::test(start_paused = true)]
async fn credentials_that_cannot_be_made_go_by_the_policy() {
    let (config, server) = (retrying(3, "14"), Server::new([Status(Code::Ok)]));
    let ended = call_with(&config, &server, |number| match number {
        1 => failure(Code::Unavailable),
        number => metadata("x-token", number),
    });
    let ended = ended.await;
    assert_eq!(
        (ended.code, ended.info.attempts(), ended.info.retries()),
        (Code::Ok, 2, 1)
    );
    let kinds: Vec<_> = ended.info.records().map(|record| record.kind).collect();
    assert!(!kinds.contains(&AttemptKind::Transparent));
    assert_eq!(server.previous(), [Some("1".to_owned())]);
    assert_eq!(tokens(&config), Some(9_500));
    assert_eq!(ended.at_ms, 54, "credentials, back-off, credentials");

    // Without a policy it is not retried.
    let config = config_without_policy();
    let ended = call_with(&config, &server, |_| failure(Code::Unavailable)).await;
    assert_eq!((ended.code, ended.info.attempts()), (Code::Unavailable, 1));
}

fn config_without_policy() -> ServiceConfig {
    config(r#""waitForReady":true"#)
}

/// R24, R49: a drop is final even for a retryable code, and is not counted.
#[tokio::test(start_paused = true)]
async fn a_drop_is_neither_retried_nor_counted() {
    let drops: Credentials = |number| match number {
        1 => metadata("x-token", 1),
        _ => Err(ControlPlaneFailure::dropped("too many calls")),
    };
    for config in [retrying(4, "14"), hedging(4, "0.02s", "14")] {
        let first = After(10, Box::new(Status(Code::Unavailable)));
        let server = Server::new([first]);
        let ended = call_with(&config, &server, drops).await;
        assert_eq!((ended.code, ended.info.attempts()), (Code::Unavailable, 2));
        assert_eq!(ended.head[GRPC_MESSAGE], "too many calls");
        assert_eq!(ended.info.stopped(), Some(StopReason::Fatal));
        assert_eq!(tokens(&config), Some(9_000), "the server's failure alone");
    }
    // A dropped hedge sends no more, and leaves the attempt in flight.
    let works = After(100, Box::new(Status(Code::Ok)));
    let (config, server) = (hedging(4, "0.02s", "14"), Server::new([works]));
    let ended = call_with(&config, &server, drops).await;
    assert_eq!((ended.code, ended.at_ms), (Code::Ok, 102));
    assert_eq!(ended.info.attempts(), 2);
    assert_eq!(tokens(&config), Some(10_000));
}

/// R64: metadata added for one attempt is not sent with another, whether retry, transparent or
/// hedge.
#[tokio::test(start_paused = true)]
async fn metadata_of_one_attempt_never_reaches_the_next() {
    const NAMES: [&str; 3] = ["x-of-1", "x-of-2", "x-of-3"];
    let own: Credentials = |number| metadata(NAMES[number as usize - 1], number);
    let refused = || Fault(TransportFault::StreamRefused);
    for (config, script) in [
        (retrying(3, "14"), [Status(Code::Unavailable), refused()]),
        (hedging(3, "0.02s", "14"), [Hangs, Hangs]),
        (hedging(3, "0s", "14"), [Status(Code::Unavailable), Hangs]),
    ] {
        let [first, second] = script;
        let server = Server::new([first, second, Status(Code::Ok)]);
        let ended = call_with(&config, &server, own).await;
        assert_eq!((ended.code, ended.info.attempts()), (Code::Ok, 3));
        let seen = server.seen.lock().unwrap().clone();
        for (at, seen) in seen.iter().enumerate() {
            for (of, name) in NAMES.iter().enumerate() {
                assert_eq!(seen.headers.contains_key(*name), of == at, "{name}");
            }
        }
    }
}

/// Appended to the caller's values of the same name, which are kept.
#[tokio::test(start_paused = true)]
async fn metadata_is_added_behind_the_callers_own() {
    let of_attempt = |_: &Parts| {
        let mut map = HeaderMap::new();
        map.append("x-key", "b".parse().unwrap());
        map.append("x-key", "c".parse().unwrap());
        std::future::ready(Ok::<_, ControlPlaneFailure>(map))
    };
    let service = ServiceBuilder::new()
        .layer(CallCredentialsLayer::new(of_attempt))
        .service_fn(|request: Request<()>| async move {
            let values = request.headers().get_all("x-key").iter();
            let values: Vec<_> = values
                .map(|value| value.to_str().unwrap().to_owned())
                .collect();
            Ok::<_, Infallible>(Response::new(values.join(",")))
        });
    let request = Request::builder().header("x-key", "a").body(()).unwrap();
    assert_eq!(service.oneshot(request).await.unwrap().body(), "a,b,c");
}

/// A channel has room for a number of calls: those that are sent.
#[tokio::test(start_paused = true)]
async fn a_call_that_waits_for_metadata_holds_no_place_below() {
    let of_call = |call: &Parts| {
        let wait = call.headers.contains_key("slow");
        async move {
            if wait {
                tokio::time::sleep(Duration::from_secs(60)).await;
            }
            Ok::<_, ControlPlaneFailure>(HeaderMap::new())
        }
    };
    let mut service = ServiceBuilder::new()
        .layer(CallCredentialsLayer::new(of_call))
        .concurrency_limit(1)
        .service_fn(|_: Request<()>| async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            Ok::<_, Infallible>(Response::new(()))
        });
    let began = tokio::time::Instant::now();
    let slow = Request::builder().header("slow", 1).body(()).unwrap();
    let slow = tokio::spawn(service.ready().await.unwrap().call(slow));
    tokio::task::yield_now().await;
    for _ in 0..2 {
        let quick = service.ready().await.unwrap().call(Request::new(()));
        quick.await.unwrap();
    }
    assert_eq!(began.elapsed(), Duration::from_secs(2));
    slow.await.unwrap().unwrap();
    assert_eq!(began.elapsed(), Duration::from_secs(61));
}

/// R70
#[tokio::test(start_paused = true)]
async fn credentials_cannot_set_the_headers_of_grpc() {
    let own: Credentials = |number| match number {
        1 => metadata("grpc-previous-rpc-attempts", 7),
        _ => metadata("grpc-timeout", 7),
    };
    let config = retrying(2, "14");
    let server = Server::new([Status(Code::Unavailable), Status(Code::Ok)]);
    assert_eq!(call_with(&config, &server, own).await.code, Code::Ok);
    assert_eq!(server.previous(), [None, Some("1".to_owned())]);
    let timed = server.each(|seen| seen.headers.contains_key("grpc-timeout"));
    assert_eq!(timed, [false; 2]);
}

/// R14: the call's deadline keeps running while the credentials are made.
#[tokio::test(start_paused = true)]
async fn credentials_are_not_waited_for_beyond_the_deadline() {
    let server = Server::new([Status(Code::Ok)]);
    let config = config(r#""timeout":"0.001s""#);
    let ended = call_with(&config, &server, |number| metadata("x-token", number)).await;
    assert_eq!(ended.code, Code::DeadlineExceeded);
    assert!(server.times().is_empty());
    let message = ended.head[GRPC_MESSAGE].to_str().unwrap();
    assert!(message.contains("unambiguous"), "{message}");
}

/// R14: once the request was sent with its credentials, the server may have carried it out.
#[tokio::test(start_paused = true)]
async fn a_deadline_after_the_credentials_is_ambiguous() {
    let server = Server::new([Hangs]);
    let config = config(r#""timeout":"1s""#);
    let ended = call_with(&config, &server, |number| metadata("x-token", number)).await;
    assert_eq!((ended.code, ended.at_ms), (Code::DeadlineExceeded, 1000));
    let message = ended.head[GRPC_MESSAGE].to_str().unwrap();
    assert!(!message.contains("unambiguous"), "{message}");
}
