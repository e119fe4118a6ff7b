//! Files that the command line names.

use std::io::{self, Read};
use std::path::Path;

/// Reads a file, or standard input for `-`.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    if path != Path::new("-") {
        return std::fs::read(path);
    }
    let mut bytes = Vec::new();
    io::stdin().read_to_end(&mut bytes)?;
    Ok(bytes)
}
