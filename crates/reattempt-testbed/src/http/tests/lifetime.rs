//! Cancellation, lost connections, and stopped servers.

use super::*;

#[tokio::test]
async fn a_connection_lost_by_the_client_cancels_every_stream_on_it() {
    let server = Server::start(Step::hang()).await.unwrap();
    let socket = TcpStream::connect(server.addr()).await.unwrap();
    let (mut send, connection) = h2::client::handshake(socket).await.unwrap();
    let connection = tokio::spawn(connection);
    for _ in 0..2 {
        let request = Request::get(server.uri()).body(()).unwrap();
        let (response, _) = send.send_request(request, true).unwrap();
        tokio::spawn(response);
    }
    server.wait_seen(2).await;
    assert_eq!(server.streams_open(), 2);
    connection.abort();
    let cancelled = server.wait_for(2, |request| request.cancelled.is_some());
    let cancelled = timeout(SOON, cancelled).await.unwrap();
    let codes = cancelled
        .iter()
        .map(|request| request.cancelled.unwrap().code);
    assert!(codes.into_iter().all(|code| code.is_none()));
}

#[tokio::test]
async fn dropping_connections_or_the_server_ends_calls() {
    let server = Server::start(Step::hang()).await.unwrap();
    let call = |server: &Server| {
        let request = Request::get(server.uri()).body(Full::default()).unwrap();
        tokio::spawn(Caller::new(false).client.request(request))
    };
    let first = call(&server);
    server.wait_seen(1).await;
    server.drop_connections();
    assert!(timeout(SOON, first).await.unwrap().unwrap().is_err());
    let second = call(&server);
    server.wait_seen(2).await;
    drop(server);
    assert!(timeout(SOON, second).await.unwrap().unwrap().is_err());
}
