//! Real servers as child processes of a test: installation check, ports, signals.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

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

/// Sends a signal by name, such as `STOP`, to a process that the test started.
///
/// # Panics
///
/// If the process does not exist.
pub fn signal(process: &Child, name: &str) {
    let sent = Command::new("sh")
        .args(["-c", "kill -\"$0\" \"$1\"", name, &process.id().to_string()])
        .status();
    assert!(sent.expect("a shell").success(), "kill -{name}");
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
