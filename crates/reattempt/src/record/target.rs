//! The files of a recording: one is written, some older ones are kept.

use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::file::{Form, Header};
use crate::backoff::Randomness;

/// The files of a recording.
pub(super) struct Target {
    path: PathBuf,
    most_bytes: u64,
    files: u32,
    header: Header,
    pub(super) file: File,
    length: u64,
    /// Of entries alone.
    bytes: u64,
}

impl Target {
    pub(super) fn create(
        path: PathBuf,
        most_bytes: u64,
        files: u32,
        policy: Option<(Form, String)>,
    ) -> io::Result<Self> {
        let header = Header {
            file: 0,
            recording: Randomness::Thread.bits(),
            policy,
        };
        if path.exists() && !path.is_file() {
            let why = format!("{} is there and is no file", path.display());
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, why));
        }
        let (file, length) = begin(&path, &header, || Ok(()))?;
        Ok(Self {
            path,
            most_bytes,
            files,
            header,
            file,
            length,
            bytes: 0,
        })
    }

    fn numbered(&self, number: u32) -> PathBuf {
        with_suffix(&self.path, &format!(".{number}"))
    }

    /// True if a new file began.
    pub(super) fn rotate(&mut self) -> io::Result<bool> {
        if self.bytes < self.most_bytes {
            return Ok(false);
        }
        self.header.file += 1;
        (self.file, self.length) = begin(&self.path, &self.header, || self.make_room())?;
        self.bytes = 0;
        Ok(true)
    }

    /// Renames the older files.
    fn make_room(&self) -> io::Result<()> {
        let free = (1..self.files).find(|number| !self.numbered(*number).exists());
        for number in (1..=free.unwrap_or(self.files - 1)).rev() {
            let older = match number {
                1 => self.path.clone(),
                _ => self.numbered(number - 1),
            };
            if older.exists() {
                fs::rename(older, self.numbered(number))?;
            }
        }
        Ok(())
    }

    /// Writes a block, or nothing of it.
    pub(super) fn write(&mut self, block: &[u8]) -> io::Result<()> {
        if let Err(error) = self.file.write_all(block) {
            // The part that was written would make the rest unreadable.
            self.file.set_len(self.length)?;
            self.file.seek(SeekFrom::Start(self.length))?;
            return Err(error);
        }
        self.length += block.len() as u64;
        Ok(())
    }

    /// Only entries make a file full: each file has the header and all names again.
    pub(super) fn write_entries(&mut self, block: &[u8]) -> io::Result<()> {
        self.write(block)?;
        self.bytes += block.len() as u64;
        Ok(())
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(suffix);
    path.into()
}

/// A file with a header. It begins under a name of its own, so that another recorder that writes to
/// the file at the path keeps that, and an error leaves the older files where they are.
fn begin(
    path: &Path,
    header: &Header,
    make_room: impl FnOnce() -> io::Result<()>,
) -> io::Result<(File, u64)> {
    let new = with_suffix(path, &format!(".{:016x}.new", header.recording));
    let begun = File::create(&new).and_then(|mut file| {
        let header = header.encode();
        file.write_all(&header)?;
        make_room()?;
        fs::rename(&new, path)?;
        Ok((file, header.len() as u64))
    });
    if begun.is_err() {
        let _ = fs::remove_file(new);
    }
    begun
}
