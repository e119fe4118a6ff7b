use tokio::net::TcpListener;

use super::*;
use crate::kv::client::bootstrap::{READ_BUFFER, Setup};
use crate::kv::client::options::ClientOptions;

/// A socket, and its peer.
async fn sockets() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let connected = TcpStream::connect(address).await.unwrap();
    (connected, listener.accept().await.unwrap().0)
}

/// They share the buffer, which is then replaced and not reused.
#[tokio::test]
async fn values_that_are_alive_make_later_reads_no_smaller() {
    let (stream, _peer) = sockets().await;
    let options = ClientOptions::memcached();
    let mut input = Setup::new("h:1".into(), stream, &options).input;
    let answer = |length| Frame {
        value: vec![b'v'; length].into(),
        ..Frame::new(Magic::Response, opcode::GET, 1)
    };
    let mut burst = BytesMut::new();
    for _ in 0..1_000 {
        answer(76).encode(&mut burst).unwrap();
    }
    let small = burst.len();
    answer(1024 * 1024).encode(&mut burst).unwrap();
    let (mut wire, mut alive, mut reads) = (&burst[..], Vec::new(), 0);
    while wire.read_buf(&mut input).await.unwrap() > 0 {
        reads += 1;
        while let Some(frame) = Frame::decode(&mut input, options.max_body).unwrap() {
            alive.push(frame.value);
        }
    }
    assert_eq!((alive.len(), alive[1_000].len()), (1_001, 1024 * 1024));
    // The long one doubles the buffer a few times.
    let most = 2 * small / READ_BUFFER + 10;
    assert!(reads <= most, "{reads} reads, at most {most}");
}
