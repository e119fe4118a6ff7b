//! Each way of not answering.

use super::*;

#[tokio::test]
async fn a_connection_closed_without_an_answer_fails_the_call() {
    both(
        || Script::new().then(Step::close_before()),
        async |_, server, caller| {
            caller.fail(&server).await;
            assert_eq!(
                caller.send(&server, "/").await.unwrap().status(),
                StatusCode::OK
            );
            assert_eq!(server.connections_accepted(), 2);
            assert!(server.cancelled().is_empty());
        },
    )
    .await;
}

#[tokio::test]
async fn a_body_breaks_off_in_each_way() {
    for http2 in [false, true] {
        let steps = [Step::close_during_body(5), Step::reset_during_body(5)];
        for step in steps.map(|step| {
            step.with_status(206)
                .header("x-part", "1")
                .body("hello world")
        }) {
            let server = Server::start(step).await.unwrap();
            let request = Request::get(server.uri()).body(Full::default()).unwrap();
            let response = Caller::new(http2).client.request(request).await.unwrap();
            assert_eq!(response.status(), StatusCode::PARTIAL_CONTENT);
            assert_eq!(response.headers()["x-part"], "1");
            assert_eq!(response.headers()["content-length"], "11");
            let mut body = response.into_body();
            let mut came = Vec::new();
            let error = loop {
                match timeout(SOON, body.frame())
                    .await
                    .unwrap()
                    .expect("no orderly end")
                {
                    Ok(frame) => came.extend_from_slice(&frame.into_data().unwrap()),
                    Err(error) => break error,
                }
            };
            // A reset may overtake the bytes sent before it.
            assert!(b"hello".starts_with(&came), "{came:?} {error:?}");
        }
        let server = Server::start(Step::hang_during_body(5)).await.unwrap();
        let request = Request::get(server.uri()).body(Full::default()).unwrap();
        let response = Caller::new(http2).client.request(request).await.unwrap();
        let mut body = response.into_body();
        let first = timeout(SOON, body.frame()).await.unwrap().unwrap().unwrap();
        assert_eq!(first.into_data().unwrap(), ".....");
        assert!(timeout(A_WHILE, body.frame()).await.is_err());
        drop(body);
        timeout(SOON, server.wait_cancelled(1)).await.unwrap();
    }
}

#[tokio::test]
async fn a_reset_is_a_reset_on_the_wire() {
    let server = Server::start(Step::reset()).await.unwrap();
    let mut socket = TcpStream::connect(server.addr()).await.unwrap();
    socket.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    let error = timeout(SOON, socket.read(&mut [0; 10]))
        .await
        .unwrap()
        .unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);

    server.set_script(Step::reset_with(ErrorCode::ENHANCE_YOUR_CALM));
    let error = Caller::new(true).fail(&server).await;
    let error = h2_error(&*error);
    assert!(error.is_reset() && error.is_remote());
    assert_eq!(error.reason(), Some(h2::Reason::ENHANCE_YOUR_CALM));
}

#[tokio::test]
async fn refused_streams_and_go_away_say_that_nothing_was_processed() {
    let script = || {
        Script::new()
            .then(Step::status(200))
            .then(Step::refuse_stream())
            .then(Step::go_away())
            .otherwise(Step::status(200))
    };
    both(script, async |http2, server, caller| {
        assert_eq!(
            caller.send(&server, "/").await.unwrap().status(),
            StatusCode::OK
        );
        let refused = caller.fail(&server).await;
        let gone = caller.fail(&server).await;
        if http2 {
            let refused = h2_error(&*refused);
            assert!(refused.is_reset() && refused.is_remote());
            assert_eq!(refused.reason(), Some(h2::Reason::REFUSED_STREAM));
            let gone = h2_error(&*gone);
            assert!(gone.is_go_away() && gone.is_remote());
            assert_eq!(gone.reason(), Some(h2::Reason::NO_ERROR));
        }
        assert_eq!(
            caller.send(&server, "/").await.unwrap().status(),
            StatusCode::OK
        );
        let connections: Vec<_> = server
            .seen()
            .iter()
            .map(|request| request.connection)
            .collect();
        assert_eq!(connections, if http2 { [0, 0, 0, 1] } else { [0, 0, 1, 2] });
    })
    .await;
}

#[tokio::test]
async fn half_of_an_answer_and_then_the_end() {
    both(
        || Step::half_frame().into(),
        async |_, server, caller| {
            caller.fail(&server).await;
        },
    )
    .await;
    let server = Server::start(Step::half_frame().header("x", "y"))
        .await
        .unwrap();
    let mut socket = TcpStream::connect(server.addr()).await.unwrap();
    socket.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    let mut came = String::new();
    timeout(SOON, socket.read_to_string(&mut came))
        .await
        .unwrap()
        .unwrap();
    let whole = "HTTP/1.1 200 OK\r\nx: y\r\ncontent-length: 0\r\n\r\n";
    assert_eq!(came, whole[..whole.len() / 2]);
}
