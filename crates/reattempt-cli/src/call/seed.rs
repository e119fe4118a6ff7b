//! Random numbers that repeat, also of calls that run at the same time.
//!
//! All calls share one strategy, and a generator that they share as well would give its numbers in
//! the order in which they happen to be drawn. So each call has a generator of its own, and the
//! strategy draws from that of the call in whose task it is asked.

use std::future::Future;

use reattempt::backoff::Randomness;

tokio::task_local! {
    static OF_CALL: Randomness;
}

/// What calls draw from; without a seed the thread's generator.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seed {
    /// Draws the seed of each call, and what is drawn outside of calls.
    shared: Option<Randomness>,
}

impl Seed {
    pub(crate) fn of(seed: Option<u64>) -> Self {
        Self {
            shared: seed.map(Randomness::seeded),
        }
    }

    /// The randomness of a strategy: the numbers of the call in progress.
    pub(crate) fn randomness(&self) -> Randomness {
        let Some(shared) = self.shared.clone() else {
            return Randomness::Thread;
        };
        Randomness::drawn(move || {
            let own = OF_CALL.try_with(Randomness::roll);
            own.unwrap_or_else(|_| shared.roll())
        })
    }

    /// The randomness of the next call; calls of the same place have the same numbers.
    pub(crate) fn of_next_call(&self) -> Randomness {
        let shared = self.shared.as_ref();
        shared.map_or(Randomness::Thread, |shared| {
            Randomness::seeded(shared.bits())
        })
    }
}

/// Makes a call that draws from these numbers.
pub(crate) async fn drawing<T>(from: Randomness, call: impl Future<Output = T>) -> T {
    OF_CALL.scope(from, call).await
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers that two calls draw, in this order of their turns.
    async fn drawn(seed: u64, turns: [usize; 4]) -> [Vec<f64>; 2] {
        let seed = Seed::of(Some(seed));
        let randomness = seed.randomness();
        let calls = [seed.of_next_call(), seed.of_next_call()];
        let mut drawn = [Vec::new(), Vec::new()];
        for turn in turns {
            let roll = async { randomness.roll() };
            drawn[turn].push(drawing(calls[turn].clone(), roll).await);
        }
        drawn
    }

    #[tokio::test]
    async fn a_call_has_its_numbers_whatever_others_draw() {
        let first = drawn(7, [0, 0, 1, 1]).await;
        assert_eq!(first, drawn(7, [1, 0, 1, 0]).await);
        assert_ne!(first, drawn(8, [0, 0, 1, 1]).await);
        let [one, other] = first;
        assert!(one != other && one[0] != one[1], "{one:?}, {other:?}");
    }
}
