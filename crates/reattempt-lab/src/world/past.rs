//! Calls of a recording, which arrive again, and whose attempts come to what they came to.
//!
//! An attempt that was recorded comes to the same again. Another one, or one that was dropped
//! before its end, comes to what one of the attempts came to that were sent at nearly the same
//! time. So what is not seen is that more load makes servers slower, or less of it faster.

use std::ops::Range;

use crate::random::{Words, below};

/// Attempts that are drawn from: this many before an instant, and as many after it.
const NEAR: usize = 64;
/// Draws for an attempt that has to take longer than it was seen to.
const DRAWS: usize = 16;

/// One call, as it arrives again.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    /// In nanoseconds since the start of the recording.
    pub(crate) arrived: u64,
    pub(crate) kind: u16,
    /// The caller's own limit, in nanoseconds; `u64::MAX` is none.
    pub(crate) timeout: u64,
    /// After how long its caller dropped it.
    pub(crate) leaves: Option<u64>,
    /// Of [`Past::attempts`].
    pub(crate) attempts: Range<u32>,
}

/// A recorded attempt: its number, how long it took, and what it came to, unless it was dropped.
pub(crate) type Attempt = (u16, u64, Option<u16>);

/// The recorded calls, in the order of their arrival.
#[derive(Debug)]
pub(crate) struct Past {
    pub(crate) calls: Vec<Call>,
    /// The attempts of all calls, those of a call side by side, by their numbers.
    pub(crate) attempts: Vec<Attempt>,
    /// Attempts that came to an end, by the time of their sending: how long they took, and what
    /// they came to.
    pub(crate) samples: Vec<(u64, u64, u16)>,
}

impl Past {
    /// What an attempt of a call comes to, and after how long; `None` if it gets no answer.
    pub(crate) fn came(&self, call: u32, number: u32, now: u64, word: u64) -> Option<(u16, u64)> {
        let call = self.calls.get(call as usize)?;
        let attempts = &self.attempts[call.attempts.start as usize..call.attempts.end as usize];
        let same = attempts.binary_search_by_key(&number, |attempt| attempt.0.into());
        let longer = match same.ok().map(|at| &attempts[at]) {
            Some((_, took, Some(came))) => return Some((*came, *took)),
            Some((_, took, None)) => *took,
            None => 0,
        };
        let place = self.samples.partition_point(|(sent, ..)| *sent < now);
        let from = place.saturating_sub(NEAR);
        let near = &self.samples[from..(place + NEAR).min(self.samples.len())];
        let mut words = Words::of(word, 5);
        let mut draws = (0..DRAWS).filter_map(|_| near.get(below(words.next(), near.len())));
        let drawn = draws.find(|(_, took, _)| *took >= longer)?;
        Some((drawn.2, drawn.1))
    }
}
