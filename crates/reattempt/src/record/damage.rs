//! What is wrong with a file, and its header.

use std::fmt;

use super::file::{Form, HEAD, Header, LENGTH, MAGIC, MOST_TEXT, checksum};

/// At most this many faults are reported.
pub const MOST_DAMAGES: usize = 100;
/// Something that is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The place of the file among those that were given.
    pub file: usize,
    /// In bytes.
    pub offset: usize,
    /// What is wrong.
    pub what: &'static str,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {}: {}", self.offset, self.what)
    }
}

#[derive(Default)]
pub(super) struct Damages {
    pub(super) found: Vec<Damage>,
    pub(super) file: usize,
    /// Where the blocks of the file begin.
    pub(super) start: usize,
}

impl Damages {
    pub(super) fn found(&mut self, offset: usize, what: &'static str) {
        if self.found.len() < MOST_DAMAGES {
            let file = self.file;
            self.found.push(Damage { file, offset, what });
        }
    }

    /// The header and its length.
    pub(super) fn header(&mut self, bytes: &[u8]) -> Option<(Header, usize)> {
        let read = read_header(bytes);
        read.map_err(|(offset, what)| self.found(offset, what)).ok()
    }
}

fn read_header(bytes: &[u8]) -> Result<(Header, usize), (usize, &'static str)> {
    if !bytes.starts_with(MAGIC) {
        return Err((0, "is no recording of this version"));
    }
    let head: &[u8; HEAD] = bytes.first_chunk().ok_or((8, "the header is cut off"))?;
    if number(&head[8..10]) != LENGTH as u64 {
        return Err((8, "has entries of another length"));
    }
    let length = number(&head[24..28]) as usize;
    if length > MOST_TEXT {
        return Err((24, "has a policy of more than 4 MiB"));
    }
    let end = HEAD + length;
    let sum = bytes.get(end..end + 4);
    let sum = sum.ok_or((24, "the header is cut off"))?;
    if checksum([&bytes[..end]]) != number(sum) as u32 {
        return Err((end, "the checksum of the header is wrong"));
    }
    let text = std::str::from_utf8(&bytes[HEAD..end]).map_err(|_| (HEAD, "is not UTF-8"))?;
    let form = match head[10] {
        0 => None,
        1 => Some(Form::HttpPolicy),
        2 => Some(Form::ServiceConfig),
        3 => Some(Form::Kv),
        _ => return Err((10, "has a policy of an unknown form")),
    };
    let header = Header {
        file: number(&head[12..16]) as u32,
        recording: number(&head[16..24]),
        policy: form.map(|form| (form, text.to_owned())),
    };
    Ok((header, end + 4))
}

pub(super) fn number(bytes: &[u8]) -> u64 {
    let mut all = [0; 8];
    all[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(all)
}
