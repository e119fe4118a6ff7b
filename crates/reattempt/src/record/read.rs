//! Reads recordings, strictly: each fault with its offset.

use std::collections::HashMap;
use std::sync::Mutex;

use super::damage::{Damage, Damages, MOST_DAMAGES, number};
use super::entry::Entry;
use super::file::{
    BLOCK, BLOCK_MAGIC, ENTRIES, Form, Header, LENGTH, MOST_ITEMS, NAMES, REASON, ROUTE, checksum,
};
use super::reason::{ALL, definition, flags_of};
use crate::RetryReason;

/// At most this many entries are read: two gigabytes of memory.
const MOST_ENTRIES: usize = 1 << 24;

/// An entry and its time since the start of the recording.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timed {
    /// In nanoseconds.
    pub at: u64,
    /// The entry; its names are numbers of the recording's lists.
    pub entry: Entry,
}

/// A recording of one or several files.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    /// The policy that the calls ran under, if the program gave it.
    pub policy: Option<(Form, String)>,
    /// The names of the policies' routes.
    pub routes: Vec<String>,
    /// The reasons of failures.
    pub reasons: Vec<RetryReason>,
    /// In the order in which they were written.
    pub entries: Vec<Timed>,
    /// Events that were not recorded: attempts that were sent, and ends of attempts and calls.
    pub lost: u64,
    /// The last block of the newest file, if it is not complete: the program ended while it wrote
    /// the block, or is writing it. What was in it, at most 256 entries, is missing.
    pub unfinished: Option<Damage>,
}

impl Recording {
    /// Whether two files are parts of one recording. A program that starts again begins a new one,
    /// and the older parts of the last one may still be beside it.
    #[must_use]
    pub fn is_same(one: &[u8], other: &[u8]) -> bool {
        let recording = |bytes| {
            let header = Damages::default().header(bytes);
            header.map(|(header, _)| header.recording)
        };
        recording(one) == recording(other)
    }

    /// Reads the files of one recording, in any order. A file that is missing in between is a gap,
    /// and no fault.
    ///
    /// A reason is known by its address: recorded ones that have the name and the flags of one of
    /// `known` are that one, so that strategies recognize them.
    ///
    /// # Errors
    /// All faults, at most [`MOST_DAMAGES`].
    pub fn read(files: &[impl AsRef<[u8]>], known: &[RetryReason]) -> Result<Self, Vec<Damage>> {
        let mut damages = Damages::default();
        let mut read: Vec<(Header, usize, &[u8])> = Vec::new();
        for (file, bytes) in files.iter().enumerate() {
            damages.file = file;
            if let Some((header, length)) = damages.header(bytes.as_ref()) {
                read.push((header, file, &bytes.as_ref()[length..]));
            }
        }
        read.sort_by_key(|(header, ..)| header.file);
        let mut recording = Self::default();
        let mut numbers = HashMap::new();
        for (at, (header, file, blocks)) in read.iter().enumerate() {
            (damages.file, damages.start) = (*file, files[*file].as_ref().len() - blocks.len());
            if header.recording != read[0].0.recording {
                damages.found(20, "belongs to another recording");
            } else if at > 0 && read[at - 1].0.file == header.file {
                damages.found(12, "has the same number as another file of the recording");
            }
            recording.policy.clone_from(&header.policy);
            let whole = if at + 1 == read.len() {
                recording.finished(blocks, &damages)
            } else {
                blocks
            };
            recording.blocks(whole, known, &mut numbers, &mut damages);
        }
        if damages.found.is_empty() {
            Ok(recording)
        } else {
            Err(damages.found)
        }
    }

    /// The blocks of the newest file without the last one, if that is cut off.
    fn finished<'a>(&mut self, blocks: &'a [u8], file: &Damages) -> &'a [u8] {
        let mut at = 0;
        while let Some(length) = block_length(&blocks[at..]) {
            at += length;
        }
        if !is_cut_off(&blocks[at..]) {
            return blocks;
        }
        self.unfinished = Some(Damage {
            file: file.file,
            offset: file.start + at,
            what: NOT_COMPLETE,
        });
        &blocks[..at]
    }

    /// `numbers`: of all routes so far.
    fn blocks(
        &mut self,
        bytes: &[u8],
        known: &[RetryReason],
        numbers: &mut HashMap<String, u16>,
        damages: &mut Damages,
    ) {
        let start = damages.start;
        let (mut routes, mut reasons) = (Vec::new(), Vec::new());
        let mut at = 0;
        while at < bytes.len() && damages.found.len() < MOST_DAMAGES {
            let rest = &bytes[at..];
            let Some(head) = rest.first_chunk::<BLOCK>() else {
                return damages.found(start + at, NOT_COMPLETE);
            };
            if !head.starts_with(BLOCK_MAGIC) {
                damages.found(start + at, "no block begins here");
                // The next one that looks like a block.
                let magic = |window: &[u8]| window == BLOCK_MAGIC;
                match rest[1..].windows(4).position(magic) {
                    Some(next) => at += 1 + next,
                    None => return,
                }
                continue;
            }
            let length = number(&head[8..12]) as usize;
            let Some(items) = rest[BLOCK..].get(..length) else {
                damages.found(start + at, NOT_COMPLETE);
                at += 4;
                continue;
            };
            if checksum([&head[..28], items]) != number(&head[28..32]) as u32 {
                damages.found(start + at, "the checksum of a block is wrong");
                at += 4;
                continue;
            }
            let place = start + at + BLOCK;
            let (count, base) = (number(&head[6..8]) as usize, number(&head[12..20]));
            self.lost = self.lost.max(number(&head[20..28]));
            match head[4] {
                ENTRIES if count * LENGTH == length && count <= MOST_ITEMS => {
                    for (nth, item) in items.chunks_exact(LENGTH).enumerate() {
                        let place = place + nth * LENGTH;
                        if self.entries.len() >= MOST_ENTRIES {
                            return damages.found(place, "is an entry of more than 16777216");
                        }
                        match self.entry(base, item, &routes, &reasons) {
                            Ok(timed) => self.entries.push(timed),
                            Err(what) => damages.found(place, what),
                        }
                    }
                }
                NAMES => {
                    let names = Names {
                        known,
                        numbers: &mut *numbers,
                        routes: &mut routes,
                        reasons: &mut reasons,
                    };
                    if let Err((offset, what)) = self.names(items, count, names) {
                        damages.found(place + offset, what);
                    }
                }
                _ => damages.found(start + at + 4, "a block of no known kind or length"),
            }
            at += BLOCK + length;
        }
    }

    fn entry(
        &self,
        base: u64,
        item: &[u8],
        routes: &[u16],
        reasons: &[u8],
    ) -> Result<Timed, &'static str> {
        let bytes = item.try_into().map_err(|_| "an entry is not complete")?;
        let mut entry = Entry::decode(bytes).ok_or("an entry has a value that no entry has")?;
        if let Some(route) = routes.get(usize::from(entry.route)) {
            entry.route = *route;
        } else {
            return Err("an entry has a route without a name");
        }
        if entry.stage.is_some() {
            let reason = reasons.get(usize::from(entry.reason));
            entry.reason = *reason.ok_or("an entry has a reason without a name")?;
        }
        Ok(Timed {
            at: base.saturating_add(entry.at),
            entry,
        })
    }

    /// Adds the names of a block to those of its file.
    fn names(
        &mut self,
        items: &[u8],
        count: usize,
        of: Names<'_>,
    ) -> Result<(), (usize, &'static str)> {
        let Names {
            known: reasons_known,
            numbers,
            routes,
            reasons,
        } = of;
        let mut at = 0;
        for _ in 0..count {
            let name = items.get(at..).and_then(|rest| {
                let head: &[u8; 5] = rest.first_chunk()?;
                let text = rest.get(5..5 + usize::from(head[4]))?;
                Some((*head, std::str::from_utf8(text).ok()?))
            });
            let ([kind, flags, ..], text) = name.ok_or((at, "a name is not complete"))?;
            let nth = number(&items[at + 2..at + 4]) as usize;
            match kind {
                ROUTE if nth == routes.len() && nth < 1 << 14 => {
                    let known = match numbers.get(text) {
                        Some(known) => *known,
                        None => {
                            let new = u16::try_from(self.routes.len());
                            let new = new.map_err(|_| (at, "has too many routes"))?;
                            self.routes.push(text.to_owned());
                            numbers.insert(text.to_owned(), new);
                            new
                        }
                    };
                    routes.push(known);
                }
                REASON if flags & !ALL != 0 => {
                    return Err((at, "a reason has flags of another version"));
                }
                REASON if nth == reasons.len() && nth < 256 => {
                    let reason = interned(text, flags, reasons_known);
                    let known = self.reasons.iter().position(|known| *known == reason);
                    let known = known.unwrap_or_else(|| {
                        self.reasons.push(reason);
                        self.reasons.len() - 1
                    });
                    reasons.push(known.try_into().map_err(|_| (at, "has too many reasons"))?);
                }
                _ => return Err((at, "a name has a number that is not the next")),
            }
            at += 5 + text.len();
        }
        if at == items.len() {
            Ok(())
        } else {
            Err((at, "a block is longer than its names"))
        }
    }
}

const NOT_COMPLETE: &str = "a block is not complete";

/// The length of the block that begins here, if all of it is there.
fn block_length(bytes: &[u8]) -> Option<usize> {
    let head = bytes.first_chunk::<BLOCK>()?;
    let items = bytes[BLOCK..].get(..number(&head[8..12]) as usize)?;
    head.starts_with(BLOCK_MAGIC).then_some(BLOCK + items.len())
}

/// Whether a block begins here that is not complete, and none begins behind it.
fn is_cut_off(bytes: &[u8]) -> bool {
    let begun = &bytes[..bytes.len().min(BLOCK_MAGIC.len())];
    let is_magic = |behind: &[u8]| behind == BLOCK_MAGIC;
    !begun.is_empty()
        && BLOCK_MAGIC.starts_with(begun)
        && !bytes[1..].windows(BLOCK_MAGIC.len()).any(is_magic)
}

/// The names of a file, by its own numbers.
struct Names<'a> {
    known: &'a [RetryReason],
    /// Of the recording's routes.
    numbers: &'a mut HashMap<String, u16>,
    routes: &'a mut Vec<u16>,
    reasons: &'a mut Vec<u8>,
}

/// A reason with this name and these flags. A reason is known by its address: the first one of a
/// name is kept for the life of the process, at most 256 for each file.
fn interned(name: &str, flags: u8, known: &[RetryReason]) -> RetryReason {
    static MADE: Mutex<Vec<RetryReason>> = Mutex::new(Vec::new());
    let same = |known: &&RetryReason| known.name() == name && flags_of(**known) == flags;
    let mut made = MADE
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(known) = known.iter().chain(made.iter()).find(same) {
        return *known;
    }
    let name: &'static str = Box::leak(name.to_owned().into_boxed_str());
    let reason = RetryReason::from_def(Box::leak(Box::new(definition(name, flags))));
    made.push(reason);
    reason
}
