//! The server's process.

use std::io::{self, BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// This program once more, started with the argument `serve`; gone when it is dropped.
///
/// It says its address as the first line of its output.
#[derive(Debug)]
pub struct ServerProcess {
    child: Child,
    address: String,
}

impl ServerProcess {
    /// Starts it, and waits until it has said its address.
    ///
    /// # Errors
    ///
    /// If it cannot be started, or says nothing.
    pub fn start() -> io::Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg("serve")
            .stdout(Stdio::piped())
            .spawn()?;
        let stdout = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let mut address = String::new();
        BufReader::new(stdout).read_line(&mut address)?;
        let address = address.trim().to_owned();
        if address.is_empty() {
            return Err(io::Error::other("the server's process said no address"));
        }
        Ok(Self { child, address })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // It may have gone by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
