//! Debian's haproxy, as a process of the test.

use std::net::SocketAddr;
use std::process::Command;

use reattempt_tests::process::{Folder, Process, free_port, is_installed};
use tokio::net::TcpStream;

/// A haproxy on a loopback port. Stopped when dropped.
pub(crate) struct Haproxy {
    process: Process,
    port: u16,
    _folder: Folder,
}

impl Haproxy {
    /// Starts it in front of this server; prints a line and returns `None` if it is not installed.
    pub(crate) async fn start(server: SocketAddr) -> Option<Self> {
        if !is_installed("haproxy", "-v", "haproxy") {
            return None;
        }
        // Another process may take a free port before the proxy does.
        for _ in 0..20 {
            let mut proxy = Self::spawn(server);
            if proxy.is_up().await {
                return Some(proxy);
            }
        }
        panic!("haproxy does not start: no port is free");
    }

    fn spawn(server: SocketAddr) -> Self {
        let (folder, port) = (Folder::new("haproxy"), free_port());
        let configuration = format!(
            "defaults
    mode http
    timeout connect 10s
    timeout client 60s
    timeout server 60s
listen front
    bind 127.0.0.1:{port} proto h2
    http-reuse always
    server back {server}
"
        );
        let file = folder.path().join("haproxy.cfg");
        std::fs::write(&file, configuration).expect("its configuration");
        Self {
            process: Process::start(Command::new("haproxy").args(["-db", "-f"]).arg(&file)),
            port,
            _folder: folder,
        }
    }

    pub(crate) fn uri(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    async fn is_up(&mut self) -> bool {
        let at = ("127.0.0.1", self.port);
        let listens = async || TcpStream::connect(at).await.is_ok();
        self.process.is_up(listens).await
    }
}
