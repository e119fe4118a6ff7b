//! Debian's haproxy, as a process of the test.

use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use reattempt_tests::process::{Folder, free_port, is_installed};
use tokio::net::TcpStream;

use crate::within;

/// A haproxy on a loopback port. Stopped when dropped.
pub(crate) struct Haproxy {
    process: Child,
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
            if within(proxy.is_up()).await {
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
        let process = Command::new("haproxy")
            .args(["-db", "-f"])
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("haproxy starts");
        Self {
            process,
            port,
            _folder: folder,
        }
    }

    pub(crate) fn uri(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Waits until it listens; false if it has exited.
    async fn is_up(&mut self) -> bool {
        loop {
            let listens = TcpStream::connect(("127.0.0.1", self.port)).await.is_ok();
            if self.process.try_wait().expect("our process").is_some() {
                return false;
            }
            if listens {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

impl Drop for Haproxy {
    fn drop(&mut self) {
        // Both fail only if it has exited already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
