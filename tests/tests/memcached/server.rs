//! Debian's memcached, as a process of the test.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use reattempt_clients::kv::client::{ClientOptions, KvRequest, NodeClient};
use reattempt_couchbase::kv::Status;
use reattempt_tests::kv::Client;
use reattempt_tests::process::{free_port, is_installed, signal};
use reattempt_tests::within;
use tower::ServiceExt as _;

/// A memcached on a loopback port. Stopped when dropped.
pub(crate) struct Memcached {
    process: Child,
    port: u16,
    options: Vec<&'static str>,
}

impl Memcached {
    /// Starts it with these extra options; prints a line and returns `None` if it is not installed.
    pub(crate) async fn start(options: &[&'static str]) -> Option<Self> {
        if !is_installed("memcached", "--version", "memcached") {
            return None;
        }
        // Another process may take a free port before the server does.
        for _ in 0..20 {
            let port = free_port();
            let mut server = Self {
                process: spawn(port, options),
                port,
                options: options.to_vec(),
            };
            if server.is_up().await {
                return Some(server);
            }
        }
        panic!("memcached does not start: no port is free");
    }

    /// `host:port`.
    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The documented stack around a client of this server, with an open connection.
    pub(crate) async fn client(&self) -> Client {
        let client = Client::around(vec![self.address()], ClientOptions::memcached());
        let first = client.call(KvRequest::noop()).await;
        assert_eq!(first.status(), Status::SUCCESS);
        client
    }

    /// Stops responding, and keeps its connections: requests sent from now on stay in flight.
    pub(crate) fn freeze(&self) {
        signal(&self.process, "STOP");
    }

    /// Kills it at once, as a crash would, and its data is lost.
    pub(crate) fn kill(&mut self) {
        self.process.kill().expect("its process is ours");
        self.process.wait().expect("its process is ours");
    }

    /// Restarts it on its port, empty.
    pub(crate) async fn restart(&mut self) {
        // A client that connects to a closed port may get that port as its own for a moment.
        for _ in 0..20 {
            self.process = spawn(self.port, &self.options);
            if self.is_up().await {
                return;
            }
        }
        panic!("its port was taken meanwhile");
    }

    /// Waits until it responds; false if it has exited.
    async fn is_up(&mut self) -> bool {
        let asking = async {
            loop {
                let client = NodeClient::new(self.address(), ClientOptions::memcached());
                let answered = client.oneshot(KvRequest::noop()).await.is_ok();
                if self.process.try_wait().expect("our process").is_some() {
                    return false;
                }
                if answered {
                    return true;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        within(asking).await
    }
}

impl Drop for Memcached {
    fn drop(&mut self) {
        // Both fail only if it has exited already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn spawn(port: u16, options: &[&str]) -> Child {
    Command::new("memcached")
        .args(["-p", &port.to_string(), "-l", "127.0.0.1", "-U", "0"])
        .args(["-B", "binary", "-t", "2", "-m", "64"])
        // The option is needed, and has an effect, only if the tests run as root.
        .args(["-u", "nobody"])
        .args(options)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("memcached starts")
}
