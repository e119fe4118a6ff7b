//! Pushback (R30 to R36).

use super::*;

/// R30
#[test]
fn pushback_is_read_strictly() {
    let ms = |ms| ServerPushback::After(Duration::from_millis(ms));
    assert_eq!(GrpcPushback::parse(b"0"), ms(0));
    assert_eq!(GrpcPushback::parse(b"500"), ms(500));
    assert_eq!(GrpcPushback::parse(b"2147483647"), ms(2_147_483_647));
    for stop in [
        "-1",
        "",
        "xxx",
        "10abc",
        "1.5",
        "0x10",
        "007",
        "00",
        "-0",
        "-01",
        "+5",
        " 10",
        "10 ",
        "2147483648",
        "9223372036854775808",
        "99999999999999999999",
        "-99999999999999999999",
    ] {
        assert_eq!(
            GrpcPushback::parse(stop.as_bytes()),
            ServerPushback::Stop,
            "{stop:?}"
        );
    }
    let of = |values: &[&str]| {
        let mut trailers = HeaderMap::new();
        for value in values {
            trailers.append(RETRY_PUSHBACK_MS, value.parse().unwrap());
        }
        GrpcPushback::of(&trailers)
    };
    assert_eq!(of(&[]), None);
    assert_eq!(of(&["5", "5"]), Some(ms(5)));
    assert_eq!(of(&["5", "6"]), Some(ServerPushback::Stop));
}

/// R31, R32, R33
#[tokio::test(start_paused = true)]
async fn pushback_is_waited_exactly_and_the_backoff_starts_anew() {
    let busy = || Status(Code::Unavailable);
    let server = Server::new([busy(), Pushback(Code::Unavailable, "3000"), busy(), busy()]);
    let ended = call(&retrying(5, "14"), &server, request()).await;
    assert_eq!(
        server.times(),
        [0, 50, 3050, 3100, 3200],
        "50 again after the pushback"
    );
    assert_eq!(ended.info.attempts(), 5);
    let server = Server::new([Pushback(Code::Unavailable, "0")]);
    let ended = call(&retrying(2, "14"), &server, request()).await;
    assert_eq!((server.times(), ended.info.attempts()), (vec![0, 0], 2));
}

/// R34
#[tokio::test(start_paused = true)]
async fn pushback_on_a_code_that_is_not_retryable_is_not_retried() {
    let server = Server::new([Pushback(Code::Internal, "5")]);
    let ended = call(&retrying(3, "14"), &server, request()).await;
    assert_eq!((ended.code, ended.info.attempts()), (Code::Internal, 1));
}

/// R30: a stop.
#[tokio::test(start_paused = true)]
async fn a_stop_ends_the_call_with_the_servers_failure() {
    let server = Server::new([Pushback(Code::Unavailable, "-1")]);
    let ended = call(&retrying(3, "14"), &server, request()).await;
    assert_eq!((ended.code, ended.info.attempts()), (Code::Unavailable, 1));
    assert_eq!(ended.info.stopped(), Some(StopReason::Pushback));
}

/// R35, R36
#[test]
fn pushback_on_ok_and_after_response_headers_is_ignored() {
    let read = |status: Option<&str>| {
        let mut response = Response::builder().header(RETRY_PUSHBACK_MS, "5");
        if let Some(status) = status {
            response = response.header(GRPC_STATUS, status);
        }
        let (response, context) = (response.body(()).unwrap(), CallContext::default());
        ReadPushback::<_, Infallible>::read(&GrpcPushback, Ok(&response), &context).valid()
    };
    assert_eq!(read(Some("0")), None);
    assert_eq!(read(None), None);
    assert!(read(Some("14")).is_some());
}
