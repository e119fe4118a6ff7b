//! Cancellation, lost connections, and stopped servers.

use super::*;

#[tokio::test]
async fn a_hanging_call_is_seen_and_so_is_its_cancellation() {
    both(
        || Step::hang().into(),
        async |http2, server, caller| {
            // The client stays alive, so that only the call is cancelled and not its connection.
            let request = Request::get(server.uri()).body(Full::default()).unwrap();
            let call = tokio::spawn(caller.client.request(request));
            server.wait_seen(1).await;
            assert!(timeout(A_WHILE, server.wait_cancelled(1)).await.is_err());
            call.abort();
            let cancelled = timeout(SOON, server.wait_cancelled(1)).await.unwrap();
            let code = cancelled[0].cancelled.unwrap().code;
            assert_eq!(code, http2.then_some(ErrorCode::CANCEL));
            assert!(cancelled[0].cancelled.unwrap().at >= cancelled[0].arrival);
        },
    )
    .await;
}

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
    connection.abort();
    let cancelled = timeout(SOON, server.wait_cancelled(2)).await.unwrap();
    assert!(
        cancelled
            .iter()
            .all(|request| request.cancelled.unwrap().code.is_none())
    );
}

#[tokio::test]
async fn a_stopped_server_frees_its_address_for_another() {
    let server = Server::start(Step::hang()).await.unwrap();
    let (address, caller) = (server.addr(), Caller::new(true));
    let hanging = tokio::spawn({
        let request = Request::get(server.uri()).body(Full::default()).unwrap();
        caller.client.request(request)
    });
    server.wait_seen(1).await;
    timeout(SOON, server.stop()).await.unwrap();
    assert!(timeout(SOON, hanging).await.unwrap().unwrap().is_err());
    assert_eq!((server.connections_open(), server.seen().len()), (0, 1));
    assert!(TcpStream::connect(address).await.is_err());

    let moved = Server::start_with(Options::new().at(address), Step::status(201))
        .await
        .unwrap();
    assert_eq!(moved.addr(), address);
    assert_eq!(
        caller.send(&moved, "/").await.unwrap().status(),
        StatusCode::CREATED
    );
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
