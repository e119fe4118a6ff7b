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
    // The n-th of those that are open.
    let nth = |n: usize| match tried {
        0 => n,
        _ => call.tried.nth_other(n),
    };
    let open = all - tried;
    let at = match how {
        Pick::Random => nth(below(words.next(), open)),
        Pick::RoundRobin => {
            let Some(process) = tier.processes[call.process as usize].as_deref_mut() else {
                return 0;
            };
            let turn = process.turn as usize;
            let at = match tried {
                0 => turn,
                _ => call.tried.next_other(turn, all),
            };
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
