//! Real servers as child processes of a test: installation check, ports, start and end.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::within;

/// Returns true if this program is installed. Otherwise prints a line with the name of the Debian
/// package, so that a skipped test is visible.
#[must_use]
pub fn is_installed(program: &str, version: &str, package: &str) -> bool {
    let asked = Command::new(program)
        .arg(version)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    let found = asked.is_ok_and(|status| status.success());
    if !found {
        // `eprintln` is captured by the harness, which shows only the output of failed tests.
        let _ = writeln!(
            std::io::stderr(),
            "skipped: {program} is not installed (apt-get install {package})"
        );
    }
    found
}

/// A free port on loopback. Another process may take it before the server does.
///
/// # Panics
///
/// If no port is free.
#[must_use]
pub fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    listener.local_addr().expect("its address").port()
}

/// A server that the test started. Killed when dropped.
#[derive(Debug)]
pub struct Process(Child);

impl Process {
    /// Starts it without input and output.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    pub fn start(command: &mut Command) -> Self {
        command.stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        Self(command.spawn().expect("the server starts"))
    }

    /// Waits until it responds; false if it has exited.
    pub async fn is_up(&mut self, mut responds: impl AsyncFnMut() -> bool) -> bool {
        let asking = async {
            loop {
                let responds = responds().await;
                if self.has_exited() {
                    return false;
                }
                if responds {
                    return true;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        within(asking).await
    }

    fn has_exited(&mut self) -> bool {
        self.0.try_wait().expect("our process").is_some()
    }

    /// Sends it a signal by name, such as `STOP`.
    ///
    /// # Panics
    ///
    /// If it does not exist any more.
    pub fn signal(&self, name: &str) {
        let sent = Command::new("sh")
            .args(["-c", "kill -\"$0\" \"$1\"", name, &self.0.id().to_string()])
            .status();
        assert!(sent.expect("a shell").success(), "kill -{name}");
    }

    /// Asks it to exit, and waits until it has.
    pub fn stop(&mut self) {
        if !self.has_exited() {
            self.signal("TERM");
        }
        let _ = self.0.wait();
    }

    /// Kills it at once, as a crash would.
    pub fn kill(&mut self) {
        // Both fail only if it has exited already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A temporary folder. Removed with its content when dropped.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// An empty folder, with this word in its name.
    ///
    /// # Panics
    ///
    /// If it cannot be created.
    #[must_use]
    pub fn new(word: &str) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("reattempt-{word}-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).expect("a folder");
        Self(folder)
    }

    /// The path of the folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
