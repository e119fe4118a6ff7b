//! The failure script: what happens to each call, determined by seed and call number only.
//!
//! Independent of any clock, so that both sides of the comparison, and every run with the same
//! seed, see the same failures.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// What a server does with one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// Answers.
    None,
    /// Fails in a retryable way; the number selects one of the protocol's failures.
    Temporary(u64),
    /// Answers late.
    Slow(Duration),
    /// Never answers.
    Hang,
    /// Refuses with a pushback.
    Pushback(Duration),
    /// Sheds load.
    Overloaded,
}

/// The conditions of a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weather {
    Calm,
    Temporary,
    SlowTail,
    Pushback,
    Overload,
    Recovery,
    Move,
}

/// A range of calls, by number.
#[derive(Clone, Debug)]
pub(crate) struct Phase {
    pub(crate) weather: Weather,
    pub(crate) from: usize,
    pub(crate) to: usize,
}

impl Phase {
    pub(crate) fn len(&self) -> usize {
        self.to - self.from
    }

    pub(crate) fn holds(&self, call: usize) -> bool {
        (self.from..self.to).contains(&call)
    }
}

/// The ends of the phases, in percent of all calls.
const ENDS: [(Weather, usize); 7] = [
    (Weather::Calm, 10),
    (Weather::Temporary, 30),
    (Weather::SlowTail, 50),
    (Weather::Pushback, 64),
    (Weather::Overload, 68),
    (Weather::Recovery, 84),
    (Weather::Move, 100),
];

/// The phases of a run of `calls` calls. Without pushback that phase is calm.
pub(crate) fn phases(calls: usize, pushback: bool) -> Vec<Phase> {
    let mut from = 0;
    let phase = |(weather, end): (Weather, usize)| {
        let to = calls * end / 100;
        let weather = match weather {
            Weather::Pushback if !pushback => Weather::Calm,
            weather => weather,
        };
        let phase = Phase { weather, from, to };
        from = to;
        phase
    };
    ENDS.into_iter().map(phase).collect()
}

/// When the node moves: the calls before which it stops and restarts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Move {
    pub(crate) goes: usize,
    pub(crate) is_back: usize,
}

/// The script of one side of a protocol's comparison.
#[derive(Debug)]
pub(crate) struct Script {
    seed: u64,
    phases: Vec<Phase>,
    /// The number of attempts so far, of calls with scripted failures.
    attempts: Mutex<HashMap<usize, u32>>,
}

impl Script {
    pub(crate) fn new(seed: u64, calls: usize, pushback: bool) -> Self {
        Self {
            seed,
            phases: phases(calls, pushback),
            attempts: Mutex::default(),
        }
    }

    /// What happens to the next attempt of this call.
    pub(crate) fn next(&self, call: usize) -> Trouble {
        let Some(phase) = self.phases.iter().find(|phase| phase.holds(call)) else {
            return Trouble::None;
        };
        let weather = phase.weather;
        if matches!(weather, Weather::Calm | Weather::Recovery | Weather::Move) {
            return Trouble::None;
        }
        let attempt = {
            let mut attempts = self.attempts.lock().unwrap_or_else(PoisonError::into_inner);
            let attempt = attempts.entry(call).or_default();
            *attempt += 1;
            *attempt
        };
        self.trouble(weather, call, attempt)
    }

    fn trouble(&self, weather: Weather, call: usize, attempt: u32) -> Trouble {
        let roll = |salt| roll(self.seed, call, salt);
        match weather {
            Weather::Overload => Trouble::Overloaded,
            Weather::Temporary => {
                let failures = match roll(1) % 100 {
                    0..24 => 1,
                    24..30 => 2,
                    _ => 0,
                };
                match attempt <= failures {
                    true => Trouble::Temporary(roll(2)),
                    false => Trouble::None,
                }
            }
            Weather::SlowTail if is_search(call) && attempt == 1 && roll(3) % 100 < 14 => {
                Trouble::Slow(Duration::from_millis(120 + roll(4) % 480))
            }
            Weather::SlowTail if !is_search(call) && roll(5) % 100 < 2 => Trouble::Hang,
            Weather::Pushback if attempt == 1 && roll(6) % 100 < 25 => {
                Trouble::Pushback(Duration::from_millis(20 + roll(7) % 60))
            }
            _ => Trouble::None,
        }
    }
}

/// Every second call is a search, on the hedged route; the others are retried.
pub(crate) const fn is_search(call: usize) -> bool {
    call % 2 == 1
}

/// When the node moves in a run with these phases.
pub(crate) fn node_move(phases: &[Phase]) -> Move {
    let phase = phases.iter().find(|phase| phase.weather == Weather::Move);
    let (from, len) = phase.map_or((usize::MAX, 0), |phase| (phase.from, phase.len()));
    let goes = from.saturating_add(len / 4);
    Move {
        goes,
        is_back: goes.saturating_add((len / 16).max(4)),
    }
}

/// A pseudo-random number determined by its arguments (SplitMix64's mixing).
pub(crate) fn roll(seed: u64, call: usize, salt: u64) -> u64 {
    let mut z = seed
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .wrapping_add((call as u64).wrapping_mul(0xd1b5_4a32_d192_ed03))
        .wrapping_add(salt.wrapping_mul(0x8cb9_2ba7_2f3d_8dd7));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn story(script: &Script, calls: usize) -> Vec<[Trouble; 3]> {
        let thrice = |call| [(); 3].map(|()| script.next(call));
        (0..calls).map(thrice).collect()
    }

    #[test]
    fn the_same_seed_tells_the_same_story_and_another_one_another() {
        let tell = |seed| story(&Script::new(seed, 500, true), 500);
        assert_eq!(tell(1), tell(1));
        assert_ne!(tell(1), tell(2));
    }

    #[test]
    fn each_phase_has_its_trouble_and_none_overlap() {
        let phases = phases(1000, true);
        assert_eq!(phases.last().map(|phase| phase.to), Some(1000));
        assert!(phases.windows(2).all(|two| two[0].to == two[1].from));
        let story = story(&Script::new(7, 1000, true), 1000);
        for phase in phases {
            let troubled = story[phase.from..phase.to]
                .iter()
                .filter(|attempts| attempts[0] != Trouble::None)
                .count();
            let calm = matches!(
                phase.weather,
                Weather::Calm | Weather::Recovery | Weather::Move
            );
            assert_eq!(troubled == 0, calm, "{:?}", phase.weather);
        }
    }

    #[test]
    fn a_temporary_failure_lasts_two_attempts_at_most() {
        let script = Script::new(3, 1000, true);
        let temporary = &phases(1000, true)[1];
        for call in temporary.from..temporary.to {
            let _ = (script.next(call), script.next(call));
            assert_eq!(script.next(call), Trouble::None);
        }
    }

    #[test]
    fn the_node_is_back_before_the_end() {
        for calls in [100, 150, 1500] {
            let moved = node_move(&phases(calls, true));
            assert!(moved.goes < moved.is_back && moved.is_back < calls);
        }
    }
}
