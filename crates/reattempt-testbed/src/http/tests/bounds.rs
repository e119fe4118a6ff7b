//! Input that is not HTTP or exceeds a bound.

use super::*;

#[tokio::test]
async fn what_is_not_http_is_refused() {
    let answer = async |options, bytes: &[u8]| {
        let server = Server::start_with(options, Script::new()).await.unwrap();
        answer_to(&server, bytes).await.unwrap()
    };
    let options = Options::new().max_body(3);
    let hello = b"hello\r\n\r\n";
    assert!(answer(options, hello).await.starts_with(b"HTTP/1.1 400"));
    let large = b"PUT / HTTP/1.1\r\ncontent-length: 4\r\n\r\n1234";
    assert!(answer(options, large).await.starts_with(b"HTTP/1.1 413"));
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let only_1 = options.protocol(Protocol::Http1);
    assert!(answer(only_1, preface).await.starts_with(b"HTTP/1.1 400"));
    let go_away = b"\0\0\x08\x07\0\0\0\0\0\0\0\0\0\0\0\0\x01";
    let only_2 = options.protocol(Protocol::Http2);
    assert!(answer(only_2, &[b'x'; 24]).await.ends_with(go_away));
    // DATA on a stream that was never opened.
    let data = [&preface[..], b"\0\0\0\0\0\0\0\0\x01"].concat();
    assert!(answer(options, &data).await.ends_with(go_away));
}

#[tokio::test]
async fn a_body_beyond_the_bound_resets_its_stream_only() {
    let options = Options::new().max_body(3);
    let server = Server::start_with(options, Script::new()).await.unwrap();
    let caller = Caller::new(true);
    let error = caller.send_body(&server, "/", "1234").await.unwrap_err();
    let reason = h2_error(&*error).reason();
    assert_eq!(reason, Some(h2::Reason::ENHANCE_YOUR_CALM));
    let response = caller.send_body(&server, "/", "123").await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(server.connections_accepted(), 1);
}

/// The server answers these HTTP/2 frames with that one.
async fn answers(server: &Server, frames: &[u8], with: &[u8]) {
    let mut socket = TcpStream::connect(server.addr()).await.unwrap();
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    socket.write_all(&[preface, frames].concat()).await.unwrap();
    let mut came = Vec::new();
    while !came.ends_with(with) {
        let read = timeout(SOON, socket.read_buf(&mut came)).await;
        assert_ne!(read.unwrap().unwrap(), 0);
    }
}

#[tokio::test]
async fn a_malformed_head_resets_its_stream() {
    let server = Server::start(Script::new()).await.unwrap();
    // GET over http, without a path.
    let request = b"\0\0\x02\x01\x05\0\0\0\x01\x82\x86";
    let reset = b"\0\0\x04\x03\0\0\0\0\x01\0\0\0\x01";
    answers(&server, request, reset).await;
    assert_eq!(server.seen_count(), 0);
}

#[tokio::test]
async fn a_stream_beyond_the_bound_is_refused() {
    let options = Options::new().max_concurrent_streams(1);
    let server = Server::start_with(options, Step::hang()).await.unwrap();
    // Two requests at once, with indexed fields: GET / over http.
    let first = b"\0\0\x03\x01\x05\0\0\0\x01\x82\x84\x86";
    let second = b"\0\0\x03\x01\x05\0\0\0\x03\x82\x84\x86";
    let refused = b"\0\0\x04\x03\0\0\0\0\x03\0\0\0\x07";
    answers(&server, &[&first[..], second].concat(), refused).await;
    assert_eq!(server.seen_count(), 1);
}
