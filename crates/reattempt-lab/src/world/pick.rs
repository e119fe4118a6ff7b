//! Which backend an attempt is sent to.

use super::Tier;
use super::call::Call;
use crate::random::{Words, below};
use crate::scenario::Pick;

/// A backend that the call has not tried yet, as long as there is one.
pub(super) fn pick(tier: &mut Tier<'_>, call: &Call, how: Pick, word: u64) -> u32 {
    let all = tier.servers.len();
    if all == 1 {
        return 0;
    }
    let mut words = Words::of(word, 3);
    let tried = if call.tried.len() < all {
        call.tried.len()
    } else {
        0
    };
    let is_open = |backend: usize| tried == 0 || !call.tried.contains(backend as u32);
    // The n-th of those that are open.
    let nth = |n: usize| {
        if tried == 0 {
            return n;
        }
        (0..all)
            .filter(|backend| is_open(*backend))
            .nth(n)
            .unwrap_or(0)
    };
    let open = all - tried;
    let at = match how {
        Pick::Random => nth(below(words.next(), open)),
        Pick::RoundRobin => {
            let Some(process) = tier.processes[call.process as usize].as_deref_mut() else {
                return 0;
            };
            let turn = process.turn as usize;
            let at = (turn..turn + all)
                .map(|at| at % all)
                .find(|at| is_open(*at));
            let at = at.unwrap_or(0);
            process.turn = ((at + 1) % all) as u32;
            at
        }
        Pick::LeastLoaded => {
            let first = below(words.next(), open);
            let mut second = first;
            if open > 1 {
                second = below(words.next(), open - 1);
                second += usize::from(second >= first);
            }
            let (first, second) = (nth(first), nth(second));
            if tier.servers[second].load() < tier.servers[first].load() {
                second
            } else {
                first
            }
        }
    };
    at as u32
}
