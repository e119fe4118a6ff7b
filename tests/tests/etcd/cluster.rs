//! Three members as processes of the test, each with its own folder.

use std::process::Command;
use std::time::Duration;

use reattempt_tests::process::{Folder, Process, free_port, is_installed};

use crate::client;
use crate::messages::StatusResponse;
use reattempt_tests::within;

pub(crate) const MEMBERS: usize = 3;

/// A cluster on loopback. Stopped when dropped.
pub(crate) struct Cluster {
    members: [Member; MEMBERS],
}

struct Member {
    process: Process,
    arguments: Vec<String>,
    port: u16,
    _folder: Folder,
}

impl Cluster {
    /// Starts a cluster and waits for its leader; prints a line and returns `None` if etcd is not
    /// installed.
    pub(crate) async fn start() -> Option<Self> {
        if !is_installed("etcd", "--version", "etcd-server") {
            return None;
        }
        // Another process may take a free port before a member does.
        for _ in 0..10 {
            let peers = [(); MEMBERS].map(|()| free_port());
            let mut cluster = Self {
                members: std::array::from_fn(|n| Member::start(n, &peers)),
            };
            if cluster.is_up().await {
                return Some(cluster);
            }
        }
        panic!("etcd does not start: no port is free");
    }

    /// The ports for clients.
    pub(crate) fn ports(&self) -> [u16; MEMBERS] {
        self.members.each_ref().map(|member| member.port)
    }

    /// The member that all running members follow.
    pub(crate) async fn leader(&self) -> usize {
        within(async {
            loop {
                for (n, member) in self.members.iter().enumerate() {
                    let leads = client::status(member.port).await.is_some_and(|status| {
                        let own = status.header.map_or(0, |header| header.member_id);
                        status.leader != 0 && status.leader == own
                    });
                    if leads {
                        return n;
                    }
                }
                pause().await;
            }
        })
        .await
    }

    /// Kills a member at once, as a crash would.
    pub(crate) fn kill(&mut self, n: usize) {
        self.members[n].process.kill();
    }

    /// Restarts a killed member on its ports, with its data, and waits until it responds.
    pub(crate) async fn restart(&mut self, n: usize) {
        // A client's connection attempt may hold the port for a moment.
        for _ in 0..20 {
            self.members[n].process = start(&self.members[n].arguments);
            if self.members[n].is_up().await {
                return;
            }
        }
        panic!("its port was taken");
    }

    /// Stops a member: it keeps its connections and does not respond.
    pub(crate) fn stop(&self, n: usize) {
        self.members[n].process.signal("STOP");
    }

    pub(crate) fn go_on(&self, n: usize) {
        self.members[n].process.signal("CONT");
    }

    /// Waits until every member follows a leader; false if one has exited.
    async fn is_up(&mut self) -> bool {
        for member in &mut self.members {
            if !member.is_up().await {
                return false;
            }
        }
        true
    }
}

impl Member {
    fn start(n: usize, peers: &[u16; MEMBERS]) -> Self {
        let (folder, port) = (Folder::new("etcd"), free_port());
        let peer = |n: usize| format!("http://127.0.0.1:{}", peers[n]);
        let all: Vec<_> = (0..MEMBERS).map(|n| format!("m{n}={}", peer(n))).collect();
        let own = format!("http://127.0.0.1:{port}");
        let arguments = [
            ("name", format!("m{n}")),
            ("data-dir", folder.path().display().to_string()),
            ("listen-client-urls", own.clone()),
            ("advertise-client-urls", own),
            ("listen-peer-urls", peer(n)),
            ("initial-advertise-peer-urls", peer(n)),
            ("initial-cluster", all.join(",")),
            // Elections take a fraction of a second, and a busy machine does not cause one.
            ("heartbeat-interval", "50".to_owned()),
            ("election-timeout", "500".to_owned()),
            ("logger", "zap".to_owned()),
            (
                "log-outputs",
                folder.path().join("log").display().to_string(),
            ),
        ];
        let arguments = arguments.map(|(name, value)| format!("--{name}={value}"));
        Self {
            process: start(&arguments),
            arguments: arguments.into(),
            port,
            _folder: folder,
        }
    }

    /// Waits until it follows a leader; false if it has exited.
    async fn is_up(&mut self) -> bool {
        let follows = |status: StatusResponse| status.leader != 0;
        let port = self.port;
        let responds = async || client::status(port).await.is_some_and(follows);
        self.process.is_up(responds).await
    }
}

fn start(arguments: &[String]) -> Process {
    Process::start(Command::new("etcd").args(arguments))
}

async fn pause() {
    tokio::time::sleep(Duration::from_millis(10)).await;
}
