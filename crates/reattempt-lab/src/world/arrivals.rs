//! When calls arrive: a Poisson process whose rate changes, the same for every policy.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::RngCore;

use super::call::NONE;
use super::past::Past;
use crate::random::{Words, below, exponential, stream, unit};
use crate::scenario::Scenario;
use crate::scenario::latency::by_weight;

/// One call that arrives.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrived {
    pub(super) at: u64,
    pub(super) client: u32,
    pub(super) kind: u16,
    pub(super) word: u64,
    /// The recorded call that it is; [`NONE`] for one of a scenario.
    pub(super) past: u32,
}

#[derive(Debug)]
pub(super) struct Arrivals<'a> {
    scenario: &'a Scenario,
    /// Recorded calls, and how many of them have arrived.
    past: Option<(&'a Past, usize)>,
    generator: ChaCha8Rng,
    /// Where the rate is looked up, in fractions of a nanosecond so that no time is lost.
    clock: f64,
    piece: usize,
    next: Option<u64>,
}

impl<'a> Arrivals<'a> {
    pub(super) fn new(scenario: &'a Scenario, past: Option<&'a Past>) -> Self {
        let mut arrivals = Self {
            scenario,
            past: past.map(|past| (past, 0)),
            generator: stream(scenario.seed, 1),
            clock: scenario.arrivals[0].0 as f64,
            piece: 0,
            next: None,
        };
        arrivals.advance();
        arrivals
    }

    /// When the next call arrives.
    pub(super) fn at(&self) -> Option<u64> {
        match self.past {
            Some((past, at)) => past.calls.get(at).map(|call| call.arrived),
            None => self.next,
        }
    }

    /// An exponential amount of expected calls passes, piece by piece of the rate.
    fn advance(&mut self) {
        let mut left = exponential(self.generator.next_u64());
        let pieces = &self.scenario.arrivals;
        self.next = loop {
            let per_ns = pieces[self.piece].1 / 1e9;
            let ends = pieces.get(self.piece + 1).map(|(from, _)| *from as f64);
            let at = self.clock + left / per_ns;
            match ends {
                Some(ends) if at >= ends || !at.is_finite() => {
                    // Rounding may take more than there is.
                    left = (left - (ends - self.clock) * per_ns).max(0.0);
                    self.clock = ends;
                    self.piece += 1;
                }
                _ => {
                    self.clock = at;
                    break (at < self.scenario.duration as f64).then_some(at as u64);
                }
            }
        };
    }

    pub(super) fn take(&mut self) -> Option<Arrived> {
        if let Some((past, at)) = &mut self.past {
            let call = past.calls.get(*at)?;
            let place = *at as u32;
            *at += 1;
            return Some(Arrived {
                at: call.arrived,
                client: 0,
                kind: call.kind,
                word: Words::of(self.scenario.seed, place.into()).next(),
                past: place,
            });
        }
        let at = self.next?;
        let client = below(self.generator.next_u64(), self.scenario.clients as usize);
        let kinds = &self.scenario.calls;
        let kind = match kinds.len() {
            1 => 0,
            _ => {
                let word = self.generator.next_u64();
                by_weight(kinds.iter().map(|kind| kind.weight), unit(word))
            }
        };
        let word = self.generator.next_u64();
        self.advance();
        Some(Arrived {
            at,
            client: client as u32,
            kind: kind as u16,
            word,
            past: NONE,
        })
    }
}
