//! Connects to one of the addresses that a name has.

use std::io;
use std::net::SocketAddr;

use tokio::net::{TcpStream, lookup_host};
use tokio::time::{Instant, timeout_at};

/// The addresses of `host:port`.
pub(crate) async fn look_up(address: &str, deadline: Instant) -> io::Result<Vec<SocketAddr>> {
    let found = timeout_at(deadline, lookup_host(address)).await;
    Ok(found.map_err(late)??.collect())
}

/// Tries `targets` in turn until one accepts. One that does not answer leaves time for the others.
pub(crate) async fn connect(targets: &[SocketAddr], deadline: Instant) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for (left, target) in (1..=targets.len()).rev().zip(targets) {
        let time = deadline.saturating_duration_since(Instant::now());
        let share = time / u32::try_from(left).unwrap_or(u32::MAX);
        let tried = timeout_at(Instant::now() + share, TcpStream::connect(target)).await;
        match tried.map_err(late).and_then(|stream| stream) {
            Ok(stream) => {
                // Small messages must not wait for the peer's acknowledgement. A socket that is
                // closed already fails the first read.
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn late<E>(_: E) -> io::Error {
    io::ErrorKind::TimedOut.into()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::net::{TcpListener, TcpSocket};

    use super::*;

    #[tokio::test]
    async fn a_silent_address_leaves_time_for_the_next() {
        // Connections beyond the backlog get no answer.
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let full = socket.listen(0).unwrap();
        let silent = full.local_addr().unwrap();
        let _first = TcpStream::connect(silent).await.unwrap();
        let live = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let live = live.local_addr().unwrap();
        let error = connect(&[silent], Instant::now()).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        let deadline = Instant::now() + Duration::from_secs(4);
        let stream = connect(&[silent, live], deadline).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), live);
        assert!(Instant::now() < deadline, "half of the time is left");
    }
}
