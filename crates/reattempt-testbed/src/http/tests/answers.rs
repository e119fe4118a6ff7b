//! Responses, and the recorded requests.

use super::*;

#[tokio::test]
async fn answers_follow_the_queue_and_then_the_default() {
    let script = || {
        Script::new()
            .then(Step::status(503).header("Retry-After", "1"))
            .then_times(2, Step::status(429).body("slow down"))
            .otherwise(Step::status(204))
    };
    both(script, async |http2, server, caller| {
        let first = caller.send_body(&server, "/a?b=c", "hello").await.unwrap();
        assert_eq!(first.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(first.headers()["retry-after"], "1");
        for _ in 0..2 {
            let response = caller.send(&server, "/").await.unwrap();
            assert_eq!(
                (response.status().as_u16(), &response.body()[..]),
                (429, &b"slow down"[..])
            );
        }
        assert_eq!(
            caller.send(&server, "/").await.unwrap().status(),
            StatusCode::NO_CONTENT
        );

        let seen = server.seen();
        assert_eq!(seen.len(), 4);
        let version = if http2 {
            Version::HTTP_2
        } else {
            Version::HTTP_11
        };
        assert_eq!((seen[0].version, &seen[0].method), (version, &Method::POST));
        assert_eq!(
            (seen[0].path.as_str(), seen[0].header("x-test")),
            ("/a?b=c", Some("yes"))
        );
        assert_eq!(
            (&seen[0].body[..], seen[0].body_complete),
            (&b"hello"[..], true)
        );
        assert_eq!((seen[3].number, seen[3].connection), (3, 0));
        assert!(seen[3].arrival >= seen[0].arrival && server.cancelled().is_empty());
        // One connection was kept alive for all requests.
        assert_eq!(
            (server.connections_accepted(), server.connections_open()),
            (1, 1)
        );
    })
    .await;
}

#[tokio::test]
async fn a_handler_decides_by_what_it_sees_and_can_be_changed() {
    let script = || {
        Script::handler(|request| match (request.path.as_str(), &request.body[..]) {
            ("/made", body) => Step::status(201).body(body.to_vec()),
            _ => Step::status(if request.number == 0 { 500 } else { 404 }),
        })
    };
    both(script, async |_, server, caller| {
        let status = async |path| caller.send(&server, path).await.unwrap().status().as_u16();
        assert_eq!((status("/").await, status("/").await), (500, 404));
        let made = caller.send_body(&server, "/made", "it").await.unwrap();
        assert_eq!(
            (made.status().as_u16(), &made.body()[..]),
            (201, &b"it"[..])
        );
        server.set_handler(|_| Step::status(410));
        server.script_push(Step::status(418));
        assert_eq!((status("/").await, status("/").await), (418, 410));
        server.set_script(Step::status(202));
        assert_eq!(status("/").await, 202);
        server.forget();
        assert_eq!((server.seen().len(), server.seen_count()), (0, 6));
    })
    .await;
}

#[tokio::test]
async fn head_and_body_are_delayed_separately() {
    let delay = Duration::from_millis(50);
    let script = || {
        Step::status(200)
            .after(delay)
            .body("late")
            .body_after(delay)
            .into()
    };
    both(script, async |_, server, caller| {
        let start = Instant::now();
        let request = Request::get(server.uri()).body(Full::default()).unwrap();
        let response = caller.client.request(request).await.unwrap();
        let head = start.elapsed();
        assert!(head >= delay);
        assert_eq!(
            response.into_body().collect().await.unwrap().to_bytes(),
            "late"
        );
        assert!(start.elapsed() >= delay * 2);
    })
    .await;
}

#[tokio::test]
async fn a_large_body_keeps_to_the_windows_of_the_client() {
    let body = vec![b'x'; 3 << 20];
    let script = || Step::status(200).body(body.clone()).into();
    both(script, async |_, server, caller| {
        let response = caller.send(&server, "/").await.unwrap();
        assert_eq!(response.body().len(), 3 << 20);
        // A second response shows that every window was released.
        assert_eq!(
            caller.send(&server, "/").await.unwrap().body().len(),
            3 << 20
        );
    })
    .await;
}

#[tokio::test]
async fn a_large_request_body_is_taken_whole() {
    let body: &'static str = Box::leak("y".repeat(3 << 20).into_boxed_str());
    both(Script::new, async |_, server, caller| {
        caller.send_body(&server, "/", body).await.unwrap();
        caller.send_body(&server, "/", body).await.unwrap();
        assert_eq!(server.seen()[1].body.len(), 3 << 20);
    })
    .await;
}

#[tokio::test]
async fn an_answer_at_once_does_not_wait_for_the_body() {
    let server = Server::start(Step::status(413).at_once()).await.unwrap();
    let mut socket = TcpStream::connect(server.addr()).await.unwrap();
    socket
        .write_all(b"PUT / HTTP/1.1\r\ncontent-length: 10\r\n\r\nhalf")
        .await
        .unwrap();
    let mut came = String::new();
    timeout(SOON, socket.read_to_string(&mut came))
        .await
        .unwrap()
        .unwrap();
    assert!(came.starts_with("HTTP/1.1 413"), "{came}");

    let socket = TcpStream::connect(server.addr()).await.unwrap();
    let (mut send, connection) = h2::client::handshake(socket).await.unwrap();
    tokio::spawn(connection);
    let request = Request::put(server.uri()).body(()).unwrap();
    let (response, _body) = send.send_request(request, false).unwrap();
    assert_eq!(
        timeout(SOON, response)
            .await
            .unwrap()
            .unwrap()
            .status()
            .as_u16(),
        413
    );
    assert!(server.seen().iter().all(|request| !request.body_complete));
}

#[tokio::test]
async fn chunked_bodies_and_expectations_are_understood() {
    let server = Server::start(Step::status(200)).await.unwrap();
    let mut socket = TcpStream::connect(server.addr()).await.unwrap();
    let head = b"PUT / HTTP/1.1\r\ntransfer-encoding: chunked\r\nexpect: 100-continue\r\n\r\n";
    socket.write_all(head).await.unwrap();
    let mut answer = [0; 25];
    socket.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 100 Continue\r\n\r\n");
    let rest = b"3\r\nabc\r\n2;x=y\r\nde\r\n0\r\ntrailer: x\r\n\r\nGET /2 HTTP/1.0\r\n\r\n";
    socket.write_all(rest).await.unwrap();
    let mut came = String::new();
    socket.read_to_string(&mut came).await.unwrap();
    assert_eq!(came.matches("HTTP/1.1 200 OK").count(), 2);
    let seen = server.seen();
    assert_eq!(
        (&seen[0].body[..], seen[1].path.as_str()),
        (&b"abcde"[..], "/2")
    );
}

/// The body arrives complete, however it is written.
#[tokio::test]
async fn a_body_is_written_in_pieces() {
    let pieces = Step::status(200)
        .body("one two three")
        .in_pieces(5, Duration::from_millis(20));
    let script = || {
        Script::new()
            .then(pieces.clone())
            .then(pieces.clone().header("content-length", "13"))
            .otherwise(
                Step::close_during_body(7)
                    .body("one two three")
                    .in_pieces(0, Duration::ZERO),
            )
    };
    both(script, async |http2, server, caller| {
        for length in [None, Some("13")] {
            let sent = Instant::now();
            let response = caller.send(&server, "/").await.unwrap();
            assert_eq!(response.body(), "one two three");
            assert!(sent.elapsed() >= Duration::from_millis(40));
            let headers = response.headers();
            let chunked = length.is_none() && !http2;
            assert_eq!(headers.contains_key("transfer-encoding"), chunked);
            if length.is_some() {
                assert_eq!(headers["content-length"], "13");
            }
        }
        assert!(caller.send(&server, "/").await.is_err(), "it breaks off");
        assert_eq!(server.connections_accepted(), 1);
    })
    .await;
}
