//! Headers of attempts and responses (R70, R71, R80).

use super::*;
#[cfg(feature = "tonic")]
use {crate::client::AttemptHead, reattempt::strategy::RetryOnce};

/// R14: each attempt carries the time left.
#[tokio::test(start_paused = true)]
async fn the_timeout_of_each_attempt_is_the_time_left() {
    let server = Server::new([
        After(100, Box::new(Status(Code::Unavailable))),
        Status(Code::Ok),
    ]);
    let config = config(
        r#""timeout":"2s","retryPolicy":{"maxAttempts":2,"initialBackoff":"0.1s","maxBackoff":"1s",
        "backoffMultiplier":2,"retryableStatusCodes":[14]}"#,
    );
    call(&config, &server, request()).await;
    let seen = server.seen.lock().unwrap().clone();
    assert_eq!(seen[0].timeout.as_deref(), Some("2000000u"));
    assert_eq!(seen[1].timeout.as_deref(), Some("1850000u"));
}

/// R70, R71
#[tokio::test(start_paused = true)]
async fn a_users_own_count_is_removed_and_the_response_has_the_real() {
    let server = Server::new([Status(Code::Unavailable), Status(Code::Ok)]);
    let mut request = request();
    request
        .headers_mut()
        .insert(PREVIOUS_ATTEMPTS, "7".parse().unwrap());
    let ended = call(&retrying(3, "14"), &server, request).await;
    assert_eq!(server.previous(), [None, Some("1".to_owned())]);
    assert_eq!(ended.head[PREVIOUS_ATTEMPTS], "1");
}

/// R80
#[tokio::test(start_paused = true)]
async fn the_callers_shorter_timeout_stays_on_the_wire() {
    let server = Server::new([Status(Code::Ok)]);
    let mut request = request();
    request
        .headers_mut()
        .insert(GRPC_TIMEOUT, "5m".parse().unwrap());
    call(&config(r#""timeout":"9s""#), &server, request).await;
    assert_eq!(
        server.seen.lock().unwrap()[0].timeout.as_deref(),
        Some("5m")
    );
}

/// R71: the count is the client's own, also where the pushback is read with it.
#[cfg(feature = "tonic")]
#[tokio::test(start_paused = true)]
async fn a_servers_own_count_is_removed_from_the_response() {
    let began = Instant::now();
    let sent = AtomicUsize::new(0);
    let server = service_fn(|_: Request<()>| {
        let first = sent.fetch_add(1, Ordering::Relaxed) == 0;
        let answer = Response::builder()
            .header(PREVIOUS_ATTEMPTS, "7")
            .header(GRPC_STATUS, if first { 14 } else { 0 })
            .header(RETRY_PUSHBACK_MS, 300);
        async move { Ok::<_, Broken>(answer.body(()).unwrap()) }
    });
    let service = ServiceBuilder::new()
        .layer(RetryLayer::new(GrpcClassifier::new(), RetryOnce))
        .service(AttemptHead::new(server));
    let one = service.clone().oneshot(Request::new(())).await.unwrap();
    assert_eq!(one.headers()[PREVIOUS_ATTEMPTS], "1");
    assert_eq!(began.elapsed().as_millis(), 300);
    let other = service.oneshot(Request::new(())).await.unwrap();
    assert!(!other.headers().contains_key(PREVIOUS_ATTEMPTS));
    assert_eq!(began.elapsed().as_millis(), 300);
}
