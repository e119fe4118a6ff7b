//! Debian's nginx, as a process of the test, in its own folder.

use std::future::Future;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tokio::net::TcpStream;

use crate::process::{Folder, Process, free_port, is_installed};

/// For the `server` block: further calls wait for a free stream, and a connection ends after a
/// hundred requests.
pub const FOUR_STREAMS: &str = "http2_max_concurrent_streams 4; keepalive_requests 100;";

/// An nginx on two loopback ports. Stopped when dropped.
#[derive(Debug)]
pub struct Nginx {
    process: Process,
    folder: Folder,
    /// HTTP/1.1, and HTTP/2 with prior knowledge.
    ports: [u16; 2],
}

/// One request in the server's log: the caller's name for it (`x-name`), and the status.
pub type Logged = (String, u16);

impl Nginx {
    /// Starts it with these lines in its `server` block; prints a line and returns `None` if it is
    /// not installed.
    ///
    /// # Panics
    ///
    /// If it does not start.
    pub async fn start(lines: &str) -> Option<Self> {
        if !is_installed("nginx", "-v", "nginx-light") {
            return None;
        }
        // Another process may take a free port before the server does.
        for _ in 0..20 {
            let ports = [free_port(), free_port()];
            let folder = Folder::new("nginx");
            configure(folder.path(), ports, lines);
            let mut server = Self {
                process: start(folder.path()),
                folder,
                ports,
            };
            if server.is_up().await {
                return Some(server);
            }
        }
        panic!("nginx does not start: no port is free");
    }

    /// The server over HTTP/2 with prior knowledge, or over HTTP/1.1.
    #[must_use]
    pub fn uri(&self, http2: bool) -> String {
        format!("http://127.0.0.1:{}", self.ports[usize::from(http2)])
    }

    /// Replaces the lines: new workers start, the old ones exit after their open requests.
    ///
    /// # Panics
    ///
    /// If it has ended.
    pub fn reload(&self, lines: &str) {
        configure(self.folder.path(), self.ports, lines);
        self.process.signal("HUP");
    }

    /// Reloads the same lines every 400 ms until the work is done.
    pub async fn reload_during<W: Future>(&self, lines: &str, work: W) -> W::Output {
        let reload = async {
            loop {
                tokio::time::sleep(Duration::from_millis(400)).await;
                self.reload(lines);
            }
        };
        tokio::select! {
            done = work => done,
            () = reload => unreachable!("it reloads until then"),
        }
    }

    /// The log so far. A line is written right after its response, so it may appear a little
    /// later.
    #[must_use]
    pub fn log(&self) -> Vec<Logged> {
        let log = std::fs::read_to_string(self.folder.path().join("access.log"));
        let lines = log.unwrap_or_default();
        let fields = |line: &str| {
            let (name, status) = line.split_once(' ')?;
            Some((name.to_owned(), status.parse().ok()?))
        };
        lines.lines().filter_map(fields).collect()
    }

    async fn is_up(&mut self) -> bool {
        let [one, two] = self.ports;
        let listens = async || {
            TcpStream::connect(("127.0.0.1", one)).await.is_ok()
                && TcpStream::connect(("127.0.0.1", two)).await.is_ok()
        };
        self.process.is_up(listens).await
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // A killed master leaves its workers running.
        self.process.stop();
    }
}

fn configure(folder: &Path, [one, two]: [u16; 2], lines: &str) {
    let at = folder.display();
    let kept: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .iter()
        .map(|of| format!("{of}_temp_path {at}/{of};\n"))
        .collect();
    let configuration = format!(
        "daemon off;
worker_processes 2;
pid {at}/pid;
error_log {at}/error.log;
events {{ worker_connections 256; }}
http {{
    {kept}
    log_format names '$http_x_name $status';
    access_log {at}/access.log names;
    limit_req_zone $server_port zone=limit:64k rate=20r/s;
    limit_req_status 429;
    server {{
        listen 127.0.0.1:{one};
        listen 127.0.0.1:{two} http2;
        {lines}
    }}
}}
"
    );
    std::fs::write(folder.join("nginx.conf"), configuration).expect("its configuration");
}

fn start(folder: &Path) -> Process {
    let mut command = Command::new("nginx");
    command.arg("-p").arg(folder);
    command.arg("-c").arg(folder.join("nginx.conf"));
    Process::start(command.arg("-e").arg(folder.join("error.log")))
}
