//! Files that the command line names.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// The most bytes of one: `/dev/zero` is refused, not read into memory.
const MOST: u64 = 256 * 1024 * 1024;

static STDIN_WAS_READ: AtomicBool = AtomicBool::new(false);

/// Reads a file, or standard input for `-`. A second read of standard input is an error: it would
/// find nothing.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    if path == Path::new("-") {
        if STDIN_WAS_READ.swap(true, Ordering::Relaxed) {
            return Err(io::Error::other("standard input was read already"));
        }
        return bounded(io::stdin());
    }
    bounded(File::open(path)?)
}

fn bounded(from: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(MOST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MOST {
        let what = "is longer than 256 MiB";
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, what));
    }
    Ok(bytes)
}
