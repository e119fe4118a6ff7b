//! Each way of not answering.

use super::*;

#[tokio::test]
async fn a_body_breaks_off_with_a_reset() {
    for http2 in [false, true] {
        let step = Step::reset_during_body(5)
            .with_status(206)
            .header("x-part", "1")
            .body("hello world");
        let server = Server::start(step).await.unwrap();
        let request = Request::get(server.uri()).body(Full::default()).unwrap();
        let response = Caller::new(http2).client.request(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::PARTIAL_CONTENT);
        assert_eq!(response.headers()["x-part"], "1");
        assert_eq!(response.headers()["content-length"], "11");
        let mut body = response.into_body();
        let mut came = Vec::new();
        let error = loop {
            let frame = timeout(SOON, body.frame()).await.unwrap();
            match frame.expect("no orderly end") {
                Ok(frame) => came.extend_from_slice(&frame.into_data().unwrap()),
                Err(error) => break error,
            }
        };
        // A reset may overtake the bytes sent before it.
        assert!(b"hello".starts_with(&came), "{came:?} {error:?}");
    }
}

#[tokio::test]
async fn a_reset_is_a_reset_on_the_wire() {
    let server = Server::start(Step::reset()).await.unwrap();
    let error = answer_to(&server, b"GET / HTTP/1.1\r\n\r\n")
        .await
        .unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);

    server.set_script(Step::reset_with(ErrorCode::ENHANCE_YOUR_CALM));
    let error = Caller::new(true).fail(&server).await;
    let error = h2_error(&*error);
    assert!(error.is_reset() && error.is_remote());
    assert_eq!(error.reason(), Some(h2::Reason::ENHANCE_YOUR_CALM));
}
