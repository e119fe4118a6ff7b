//! Answers, and the recorded calls.

use super::*;

#[tokio::test]
async fn a_unary_answer_has_headers_one_message_and_trailers() {
    let step = Step::ok("hello")
        .initial("x-first", "1")
        .trailer("x-last", "2");
    let (server, mut caller) = with(step).await;
    let outcome = caller.call(&["name"]).await;
    assert_eq!(outcome.initial["content-type"], "application/grpc");
    assert_eq!(outcome.initial["x-first"], "1");
    assert_eq!(outcome.messages, ["hello"]);
    assert_eq!(outcome.status(), "0");
    assert_eq!(outcome.trailers.as_ref().unwrap()["x-last"], "2");
    assert!(outcome.error.is_none());

    let call = &server.seen()[0];
    assert_eq!(
        (call.path.as_str(), call.connection, call.number),
        ("/test.Echo/Call", 0, 0)
    );
    assert_eq!(
        (call.header("grpc-timeout"), call.previous_attempts()),
        (Some("5S"), Some(2))
    );
    assert_eq!(call.header_values("te"), ["trailers"]);
    assert_eq!(
        (&call.messages[..], call.half_closed),
        (&[Bytes::from("name")][..], true)
    );
    assert!(call.cancelled.is_none());
}

#[tokio::test]
async fn echo_serves_every_kind_of_method() {
    let (server, mut caller) = with(Step::echo().trailer("x", "y")).await;
    let outcome = caller.call(&["one", "", "three"]).await;
    assert_eq!(outcome.messages, ["one", "", "three"]);
    assert_eq!(outcome.status(), "0");
    assert_eq!(outcome.trailers.unwrap()["x"], "y");

    // Alternating: each response message arrives before the next request message.
    let (response, mut stream) = caller.open();
    let mut body = timeout(SOON, response).await.unwrap().unwrap().into_body();
    for question in ["ping", "pong"] {
        stream
            .send_data(frame_message(question.as_bytes()), false)
            .unwrap();
        let answer = timeout(SOON, body.data()).await.unwrap().unwrap().unwrap();
        assert_eq!(answer, frame_message(question.as_bytes()));
    }
    stream.send_data(Bytes::new(), true).unwrap();
    assert!(timeout(SOON, body.data()).await.unwrap().is_none());
    assert_eq!(body.trailers().await.unwrap().unwrap()["grpc-status"], "0");
    assert_eq!(server.seen()[1].messages, ["ping", "pong"]);
}

#[tokio::test]
async fn a_handler_answers_by_what_the_call_brings() {
    let script = Script::handler(|call| match call.messages.first() {
        Some(message) if call.number > 0 => Step::ok(message.clone()),
        _ => Step::trailers_only(5, ""),
    });
    let (server, mut caller) = with(script).await;
    let outcome = caller.call(&["name"]).await;
    assert_eq!(outcome.status(), "5");
    assert!(!outcome.initial.contains_key("grpc-message"));
    assert_eq!(caller.call(&["name"]).await.messages, ["name"]);
    assert_eq!(caller.call(&[]).await.status(), "5");
    server.script_push(Step::ok("pushed"));
    assert_eq!(caller.call(&[]).await.messages, ["pushed"]);
}

#[tokio::test]
async fn a_step_waits_for_the_half_close_unless_told_otherwise() {
    let script = Script::new()
        .then(Step::ok("slow"))
        .then(Step::trailers_only(14, "").at_once())
        .then(Step::ok("two").after_messages(2));
    let (_server, mut caller) = with(script).await;
    let (response, mut stream) = caller.open();
    stream.send_data(frame_message(b"one"), false).unwrap();
    let mut response = Box::pin(outcome(response));
    assert!(timeout(A_WHILE, &mut response).await.is_err());
    stream.send_data(Bytes::new(), true).unwrap();
    assert_eq!(timeout(SOON, response).await.unwrap().messages, ["slow"]);

    let (response, _stream) = caller.open();
    assert_eq!(
        timeout(SOON, outcome(response)).await.unwrap().status(),
        "14"
    );

    let (response, mut stream) = caller.open();
    for message in ["one", "two"] {
        stream
            .send_data(frame_message(message.as_bytes()), false)
            .unwrap();
    }
    assert_eq!(
        timeout(SOON, outcome(response)).await.unwrap().messages,
        ["two"]
    );
}

#[tokio::test]
async fn delays_stand_before_the_headers_the_messages_and_the_end() {
    let delay = Duration::from_millis(30);
    let step = Step::messages(["one", "two"])
        .after(delay)
        .between(delay)
        .end_after(delay);
    let (_server, mut caller) = with(step).await;
    let start = Instant::now();
    let (response, mut stream) = caller.open();
    stream.send_data(Bytes::new(), true).unwrap();
    let mut body = timeout(SOON, response).await.unwrap().unwrap().into_body();
    assert!(start.elapsed() >= delay);
    let mut messages = Vec::new();
    timeout(SOON, read(&mut body, &mut messages))
        .await
        .unwrap()
        .unwrap();
    assert!(messages.len() == 2 && start.elapsed() >= delay * 4);
}
