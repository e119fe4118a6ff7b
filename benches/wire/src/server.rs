//! The server process.

use std::io::{self, BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// A child process of this program with the argument `serve`, killed on drop.
///
/// It prints its address as the first line of output.
#[derive(Debug)]
pub struct ServerProcess {
    child: Child,
    address: String,
}

impl ServerProcess {
    /// Starts it and waits for its address.
    ///
    /// # Errors
    ///
    /// If it cannot be started or prints nothing.
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
            return Err(io::Error::other("the server process printed no address"));
        }
        Ok(Self { child, address })
    }

    /// The address it listens on.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // It may already have exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
