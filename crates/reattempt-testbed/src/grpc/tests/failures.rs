//! Each way of failing a call.

use super::*;

/// R10
#[tokio::test]
async fn trailers_only_is_one_header_block_with_pushback_and_text() {
    let refused = Step::trailers_only(14, "50% grün")
        .pushback("10")
        .trailer("x", "y");
    let (_server, mut caller) = with(refused.clone().pushback("11")).await;
    let outcome = caller.call(&["name"]).await;
    assert!(outcome.is_trailers_only() && outcome.messages.is_empty());
    assert_eq!(outcome.status(), "14");
    assert_eq!(outcome.initial["grpc-message"], "50%25 gr%C3%BCn");
    let pushback: Vec<_> = outcome
        .initial
        .get_all("grpc-retry-pushback-ms")
        .iter()
        .collect();
    assert_eq!(pushback, ["10", "11"]);
    assert_eq!(outcome.initial["x"], "y");
}

/// R51
#[tokio::test]
async fn headers_before_the_status_commit_the_call() {
    let script = Script::new()
        .then(Step::headers_then_status(14).pushback("10"))
        .then(Step::messages(["one", "two"]).status(13, "no more"))
        .then(Step::messages(["one"]).end_reset(ErrorCode::CANCEL))
        .then(Step::messages(["one"]).end_close());
    let (server, mut caller) = with(script).await;
    let outcome = caller.call(&[]).await;
    assert!(!outcome.is_trailers_only() && !outcome.initial.contains_key("grpc-status"));
    assert_eq!(outcome.status(), "14");
    assert_eq!(outcome.trailers.unwrap()["grpc-retry-pushback-ms"], "10");
    let outcome = caller.call(&[]).await;
    assert_eq!(
        (outcome.status(), &outcome.messages[..]),
        ("13", &["one", "two"].map(Bytes::from)[..])
    );
    let outcome = caller.call(&[]).await;
    assert_eq!(
        (outcome.messages.len(), outcome.reason()),
        (1, Some(Reason::CANCEL))
    );
    let outcome = caller.call(&[]).await;
    assert!(outcome.trailers.is_none());
    assert_eq!(outcome.messages, ["one"]);
    assert!(server.cancelled().is_empty());
}

#[tokio::test]
async fn an_answer_that_never_ends_can_be_cancelled() {
    let (server, mut caller) = with(Step::ok("one").end_hang()).await;
    let (response, mut stream) = caller.open();
    stream.send_data(Bytes::new(), true).unwrap();
    let mut body = timeout(SOON, response).await.unwrap().unwrap().into_body();
    timeout(SOON, body.data()).await.unwrap().unwrap().unwrap();
    assert_eq!(server.streams_open(), 1);
    assert!(timeout(A_WHILE, body.data()).await.is_err());
    drop((body, stream));
    let call = &timeout(SOON, server.wait_cancelled(1)).await.unwrap()[0];
    assert_eq!(call.cancelled.unwrap().code, Some(ErrorCode::CANCEL));
    let closed = async {
        while server.streams_open() > 0 {
            tokio::task::yield_now().await;
        }
    };
    timeout(SOON, closed).await.expect("the stream is over");
}

/// R61
#[tokio::test]
async fn refused_streams_go_away_and_resets_are_told_apart() {
    let script = Script::new()
        .then(Step::ok("first"))
        .then(Step::refuse_stream())
        .then(Step::reset(ErrorCode::INTERNAL_ERROR))
        .then(Step::go_away())
        .otherwise(Step::ok("again"));
    let (server, mut caller) = with(script).await;
    assert_eq!(caller.call(&[]).await.status(), "0");
    assert_eq!(
        caller.call(&[]).await.reason(),
        Some(Reason::REFUSED_STREAM)
    );
    assert_eq!(
        caller.call(&[]).await.reason(),
        Some(Reason::INTERNAL_ERROR)
    );
    let gone = caller.call(&[]).await.error.unwrap();
    assert!(gone.is_go_away() && gone.is_remote());
    assert_eq!(gone.reason(), Some(Reason::NO_ERROR));
    let mut caller = Caller::new(&server).await;
    assert_eq!(caller.call(&[]).await.messages, ["again"]);
    assert_eq!((server.seen_count(), server.connections_accepted()), (5, 2));
}

#[tokio::test]
async fn go_away_leaves_earlier_streams_to_finish() {
    let script = Script::new().then(Step::echo()).then(Step::go_away());
    let (_server, mut caller) = with(script).await;
    let (response, mut stream) = caller.open();
    let mut body = timeout(SOON, response).await.unwrap().unwrap().into_body();
    assert!(caller.call(&[]).await.error.unwrap().is_go_away());
    stream
        .send_data(frame_message(b"still here"), true)
        .unwrap();
    let mut messages = Vec::new();
    let trailers = timeout(SOON, read(&mut body, &mut messages))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(messages, ["still here"]);
    assert_eq!(trailers.unwrap()["grpc-status"], "0");
}

#[tokio::test]
async fn a_closed_connection_and_half_a_frame_leave_no_status() {
    for step in [Step::close(), Step::half_frame()] {
        let (server, mut caller) = with(step).await;
        let error = caller.call(&["name"]).await.error.unwrap();
        assert!(!error.is_reset() || error.reason() != Some(Reason::REFUSED_STREAM));
        assert!(server.cancelled().is_empty());
        assert_eq!(server.seen()[0].messages, ["name"]);
    }
}

#[tokio::test]
async fn a_hanging_call_is_recorded_up_to_its_cancellation() {
    let (server, mut caller) = with(Step::hang()).await;
    let (response, mut stream) = caller.open();
    stream.send_data(frame_message(b"one"), false).unwrap();
    tokio::spawn(response);
    timeout(SOON, server.wait_for(1, |call| call.messages.len() == 1))
        .await
        .unwrap();
    stream.send_data(frame_message(b"two"), false).unwrap();
    timeout(SOON, server.wait_for(1, |call| call.messages.len() == 2))
        .await
        .unwrap();
    stream.send_reset(Reason::CANCEL);
    let call = &timeout(SOON, server.wait_cancelled(1)).await.unwrap()[0];
    assert_eq!(call.cancelled.unwrap().code, Some(ErrorCode::CANCEL));
    assert_eq!(
        (&call.messages[..], call.half_closed),
        (&["one", "two"].map(Bytes::from)[..], false)
    );
}

#[tokio::test]
async fn what_is_not_grpc_is_told_so() {
    let (server, mut caller) = with(Script::new().then(Step::http_status(503))).await;
    let (response, mut stream) = caller.open();
    stream.send_data(Bytes::new(), true).unwrap();
    let response = timeout(SOON, response).await.unwrap().unwrap();
    assert_eq!(response.status().as_u16(), 503);
    assert!(!response.headers().contains_key("grpc-status"));

    let request = Request::get("http://server/").body(()).unwrap();
    let (response, _) = caller.send.send_request(request, true).unwrap();
    assert_eq!(
        timeout(SOON, response)
            .await
            .unwrap()
            .unwrap()
            .status()
            .as_u16(),
        415
    );
    assert_eq!(server.seen_count(), 1);

    for (bytes, status) in [
        (&[1u8, 0, 0, 0, 0][..], "12"),
        (&[0, 255, 0, 0, 0], "8"),
        (&[0], "13"),
    ] {
        let (response, mut stream) = caller.open();
        stream
            .send_data(Bytes::copy_from_slice(bytes), true)
            .unwrap();
        let outcome = timeout(SOON, outcome(response)).await.unwrap();
        assert_eq!(outcome.status(), status);
        assert!(outcome.is_trailers_only());
    }
}
