//! A TCP proxy in front of one member, whose connections can be reset.

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Relays to one port of loopback, until the runtime ends.
pub(crate) struct Proxy {
    port: u16,
    resets: watch::Sender<()>,
}

impl Proxy {
    pub(crate) async fn start(to: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let port = listener.local_addr().expect("its address").port();
        let (resets, reset) = watch::channel(());
        tokio::spawn(async move {
            loop {
                if let Ok((client, _)) = listener.accept().await {
                    let mut reset = reset.clone();
                    reset.mark_unchanged();
                    tokio::spawn(relay(client, to, reset));
                }
            }
        });
        Self { port, resets }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Resets every connection on both sides, with the data in flight.
    pub(crate) fn reset(&self) {
        self.resets.send_replace(());
    }
}

async fn relay(mut client: TcpStream, to: u16, mut reset: watch::Receiver<()>) {
    // If a member cannot be reached, the client's connection is closed.
    let Ok(mut member) = TcpStream::connect(("127.0.0.1", to)).await else {
        return;
    };
    let copied = tokio::io::copy_bidirectional(&mut client, &mut member);
    let was_reset = tokio::select! {
        _ = copied => false,
        changed = reset.changed() => changed.is_ok(),
    };
    if was_reset {
        for stream in [client, member] {
            // Fails only if the connection has ended already.
            let _ = stream.set_zero_linger();
        }
    }
}
