//! Debian's memcached, as a process of the test.

use std::process::Command;

use reattempt_clients::kv::client::{ClientOptions, KvRequest, NodeClient};
use reattempt_couchbase::kv::Status;
use reattempt_tests::kv::Client;
use reattempt_tests::process::{Process, free_port, is_installed};
use tower::ServiceExt as _;

/// A memcached on a loopback port. Stopped when dropped.
pub(crate) struct Memcached {
    process: Process,
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
                process: start(port, options),
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
        self.process.signal("STOP");
    }

    /// Kills it at once, as a crash would, and its data is lost.
    pub(crate) fn kill(&mut self) {
        self.process.kill();
    }

    /// Restarts it on its port, empty.
    pub(crate) async fn restart(&mut self) {
        // A client that connects to a closed port may get that port as its own for a moment.
        for _ in 0..20 {
            self.process = start(self.port, &self.options);
            if self.is_up().await {
                return;
            }
        }
        panic!("its port was taken meanwhile");
    }

    async fn is_up(&mut self) -> bool {
        let address = self.address();
        let responds = async || {
            let client = NodeClient::new(address.clone(), ClientOptions::memcached());
            client.oneshot(KvRequest::noop()).await.is_ok()
        };
        self.process.is_up(responds).await
    }
}

fn start(port: u16, options: &[&str]) -> Process {
    let mut command = Command::new("memcached");
    command
        .args(["-p", &port.to_string(), "-l", "127.0.0.1", "-U", "0"])
        .args(["-B", "binary", "-t", "2", "-m", "64"])
        // The option is needed, and has an effect, only if the tests run as root.
        .args(["-u", "nobody"])
        .args(options);
    Process::start(&mut command)
}
