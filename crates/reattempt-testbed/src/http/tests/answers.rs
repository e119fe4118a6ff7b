//! Responses, and the recorded requests.

use super::*;

#[tokio::test]
async fn a_handler_decides_by_what_it_sees_and_can_be_changed() {
    let script = || {
        Script::handler(|request| match (request.path.as_str(), &request.body[..]) {
            ("/made", body) => Step::status(201).body(body.to_vec()),
            _ => Step::status(if request.number == 0 { 500 } else { 404 }),
        })
    };
    both(script, async |server, caller| {
        let status = async |path| caller.send(&server, path).await.unwrap().status().as_u16();
        assert_eq!((status("/").await, status("/").await), (500, 404));
        let made = caller.send_body(&server, "/made", "it").await.unwrap();
        assert_eq!(
            (made.status().as_u16(), &made.body()[..]),
            (201, &b"it"[..])
        );
        server.set_script(Step::status(202));
        assert_eq!(status("/").await, 202);
        server.forget();
        assert_eq!((server.seen().len(), server.seen_count()), (0, 4));
    })
    .await;
}

#[tokio::test]
async fn a_large_body_keeps_to_the_windows_of_the_client() {
    let body = vec![b'x'; 3 << 20];
    let script = || Step::status(200).body(body.clone()).into();
    both(script, async |server, caller| {
        // A second response shows that every window was released.
        for _ in 0..2 {
            let response = caller.send(&server, "/").await.unwrap();
            assert_eq!(response.body().len(), 3 << 20);
        }
    })
    .await;
}

#[tokio::test]
async fn a_large_request_body_is_taken_whole() {
    let body: &'static str = Box::leak("y".repeat(3 << 20).into_boxed_str());
    both(Script::new, async |server, caller| {
        caller.send_body(&server, "/", body).await.unwrap();
        caller.send_body(&server, "/", body).await.unwrap();
        assert_eq!(server.seen()[1].body.len(), 3 << 20);
    })
    .await;
}

#[tokio::test]
async fn an_answer_at_once_does_not_wait_for_the_body() {
    let server = Server::start(Step::status(413).at_once()).await.unwrap();
    let half = b"PUT / HTTP/1.1\r\ncontent-length: 10\r\n\r\nhalf";
    let came = answer_to(&server, half).await.unwrap();
    assert!(came.starts_with(b"HTTP/1.1 413"), "{came:?}");

    let socket = TcpStream::connect(server.addr()).await.unwrap();
    let (mut send, connection) = h2::client::handshake(socket).await.unwrap();
    tokio::spawn(connection);
    let request = Request::put(server.uri()).body(()).unwrap();
    let (response, _body) = send.send_request(request, false).unwrap();
    let response = timeout(SOON, response).await.unwrap().unwrap();
    assert_eq!(response.status().as_u16(), 413);
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
    assert_eq!((&*seen[0].body, &*seen[1].path), (&b"abcde"[..], "/2"));
}
