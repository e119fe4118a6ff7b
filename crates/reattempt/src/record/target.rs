//! The files of a recording: one is written, some older ones are kept.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::PathBuf;

use super::file::{Form, Header};
use crate::backoff::Randomness;

/// The files of a recording.
pub(super) struct Target {
    path: PathBuf,
    most_bytes: u64,
    files: u32,
    header: Header,
    file: File,
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
        let (file, bytes) = begin(&path, &header)?;
        Ok(Self {
            path,
            most_bytes,
            files,
            header,
            file,
            bytes,
        })
    }

    fn numbered(&self, number: u32) -> PathBuf {
        let mut path = self.path.clone().into_os_string();
        path.push(format!(".{number}"));
        path.into()
    }

    /// True if a new file began.
    pub(super) fn rotate(&mut self) -> io::Result<bool> {
        if self.bytes < self.most_bytes {
            return Ok(false);
        }
        for number in (1..self.files).rev() {
            let older = match number {
                1 => self.path.clone(),
                _ => self.numbered(number - 1),
            };
            if older.exists() {
                fs::rename(older, self.numbered(number))?;
            }
        }
        self.header.file += 1;
        (self.file, self.bytes) = begin(&self.path, &self.header)?;
        Ok(true)
    }

    pub(super) fn write(&mut self, block: &[u8]) -> io::Result<()> {
        self.file.write_all(block)?;
        self.bytes += block.len() as u64;
        Ok(())
    }
}

fn begin(path: &PathBuf, header: &Header) -> io::Result<(File, u64)> {
    let mut file = File::create(path)?;
    let bytes = header.encode();
    file.write_all(&bytes)?;
    Ok((file, bytes.len() as u64))
}
