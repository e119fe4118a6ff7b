//! Calls of a recording, which arrive again, and whose attempts come to what they came to.
//!
//! An attempt that was recorded comes to the same again. Another one, or one that was dropped
//! before its end, comes to what one of the attempts came to that were sent at nearly the same
//! time. A hedge cuts off whichever attempt is slower, so that often none of these took as long as
//! a dropped one was seen to: then it comes to what one of the whole recording came to that did.
//! So what is not seen is that more load makes servers slower, or less of it faster.

use std::ops::Range;

use crate::random::{Words, below};

/// Attempts that are drawn from: this many before an instant, and as many after it.
const NEAR: usize = 64;

/// One call, as it arrives again.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    /// In nanoseconds since the start of the recording.
    pub(crate) arrived: u64,
    pub(crate) kind: u16,
    /// The caller's own limit, in nanoseconds; `u64::MAX` is none.
    pub(crate) timeout: u64,
    /// After how long its caller, or its own limit of messages, dropped it.
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
    /// Places of samples, by how long they took.
    pub(crate) by_length: Vec<u32>,
}

impl Past {
    /// In the orders in which [`Past::came`] looks things up.
    pub(crate) fn sort(&mut self) {
        self.calls.sort_by_key(|call| call.arrived);
        self.samples.sort_unstable();
        self.by_length = (0..self.samples.len() as u32).collect();
        let took = |at: &u32| self.samples[*at as usize].1;
        self.by_length.sort_by_key(took);
    }

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
        // One that was dropped took at least as long as it was seen to.
        let possible = || near.iter().filter(|(_, took, _)| *took >= longer);
        let word = Words::of(word, 5).next();
        let near = possible().nth(below(word, possible().count()));
        let anywhere = || {
            let took = |at: &u32| self.samples[*at as usize].1;
            let from = self.by_length.partition_point(|at| took(at) < longer);
            let possible = &self.by_length[from..];
            let at = possible.get(below(word, possible.len()))?;
            self.samples.get(*at as usize)
        };
        let (_, took, came) = near.or_else(anywhere)?;
        Some((*came, *took))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// One call, whose attempt was dropped after this time, beside 100 of which five took 50 ns; of
    /// 100 others, long after it, two took 90 ns.
    fn dropped_after(longer: u64) -> Past {
        let mut past = Past {
            calls: vec![Call {
                arrived: 0,
                kind: 0,
                timeout: u64::MAX,
                leaves: None,
                attempts: 0..1,
            }],
            attempts: vec![(1, longer, None)],
            samples: (0..200)
                .map(|at| match at % 20 {
                    0 if at < 100 => (at, 50, 7),
                    0 if at > 150 => (at, 90, at as u16),
                    _ => (at, 2, 7),
                })
                .collect(),
            by_length: Vec::new(),
        };
        past.sort();
        past
    }

    /// All that its attempt may come to.
    fn came(past: &Past) -> BTreeSet<Option<(u16, u64)>> {
        let words = (0..1000_u64).map(|word| word.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        words.map(|word| past.came(0, 1, 50, word)).collect()
    }

    #[test]
    fn a_dropped_attempt_takes_longer_than_it_was_seen_to() {
        assert_eq!(came(&dropped_after(3)), [Some((7, 50))].into());
        // None nearby did.
        let far = [Some((160, 90)), Some((180, 90))];
        assert_eq!(came(&dropped_after(51)), far.into());
        assert_eq!(came(&dropped_after(91)), [None].into());
    }
}
