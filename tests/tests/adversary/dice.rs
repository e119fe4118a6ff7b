//! Random choices from a seed.

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

pub(crate) struct Dice(StdRng);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(StdRng::seed_from_u64(seed))
    }

    pub(crate) fn chance(&mut self, chance: f64) -> bool {
        self.0.random_bool(chance)
    }

    pub(crate) fn one<T: Clone>(&mut self, of: &[T]) -> T {
        of.choose(&mut self.0).expect("never empty").clone()
    }

    pub(crate) fn maybe<T>(&mut self, chance: f64, make: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.chance(chance).then(|| make(self))
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0.random_range(0..end)
    }

    pub(crate) fn number(&mut self) -> u64 {
        self.0.random()
    }

    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        rand::seq::SliceRandom::shuffle(items, &mut self.0);
    }
}
