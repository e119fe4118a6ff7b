//! Records of calls for a replay: an observer that writes what became of each attempt to a file,
//! and the reader of such files.
//!
//! The `Recorder` (with feature `tokio`) is an [`Observer`](crate::Observer) for production. The
//! call path copies a few words into a bounded queue: it takes no lock that another thread holds
//! for long, makes no system call, and never waits. A thread of its own writes the file, and
//! starts another one when it is full. What does not fit into the queue is lost, and counted in
//! the file.
//!
//! # Format, version 1
//!
//! All numbers are little endian. A file is a header and blocks.
//!
//! | header | bytes |
//! | --- | --- |
//! | magic `RATTREC1` | 8 |
//! | length of an entry: 38 | 2 |
//! | the policy's form: 0 none, 1 HTTP policy, 2 service config, 3 key-value strategy | 1 |
//! | reserved, zero | 1 |
//! | number of the file in the recording, from 0 | 4 |
//! | identifier of the recording, random | 8 |
//! | length of the policy's text, and the text | 4 + n |
//! | checksum of all before | 4 |
//!
//! | block | bytes |
//! | --- | --- |
//! | magic `RBLK` | 4 |
//! | kind: 1 entries, 2 names | 1 |
//! | reserved, zero | 1 |
//! | number of items, at most 256 | 2 |
//! | length of the items | 4 |
//! | nanoseconds since the start of the recording: the base of the entries' times | 8 |
//! | events lost so far | 8 |
//! | checksum of the block without this field (FNV-1a, 32 bits) | 4 |
//! | the items | n |
//!
//! A name is its kind (0 route, 1 reason), the reason's flags (1 allows non-idempotent retries, 2
//! always retries, 4 the server's answer, 8 not accepted, 16 to 48 its class), its number (2), the
//! length of its text (1) and the text. Numbers of names count from zero in each file. What an
//! entry has is in [`Entry`]; 38 bytes of it are a word of bits (8), the call (4), the time (5),
//! how long the attempt took (5), a time or a distance (5), the delay (5), the pushback (3) and the
//! code (3). A time of five bytes has 38 bits and a unit of ns, µs, ms or s: up to four and a half
//! minutes are exact.

mod bits;
mod damage;
mod entry;
mod file;
#[cfg(feature = "tokio")]
mod note;
mod read;
mod reason;
#[cfg(feature = "tokio")]
mod recorder;
#[cfg(feature = "tokio")]
mod target;
#[cfg(feature = "tokio")]
mod writer;

#[cfg(all(test, feature = "tokio"))]
mod tests;

pub use damage::{Damage, MOST_DAMAGES};
pub use entry::{Entry, What};
pub use file::{Form, Header, LENGTH};
pub use read::{Recording, Timed};
#[cfg(feature = "tokio")]
pub use recorder::{Options, Recorder, Status};
