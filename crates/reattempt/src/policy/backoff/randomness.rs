//! Sources of random numbers.

use std::sync::{Arc, Mutex, PoisonError};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// A source of random numbers for jitter.
#[derive(Clone, Debug, Default)]
pub enum Randomness {
    /// The thread's generator: different for every call.
    #[default]
    Thread,
    /// A seeded generator shared by all clones; the same seed gives the same numbers.
    Seeded(Seeded),
    /// Always the same value, for tests of exact delays.
    Fixed(f64),
}

/// A reproducible generator; clones share it. Made by [`Randomness::seeded`].
#[derive(Clone, Debug)]
pub struct Seeded(Arc<Mutex<SmallRng>>);

impl Randomness {
    /// A reproducible generator with this seed; clones share it.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Self::Seeded(Seeded(Arc::new(Mutex::new(SmallRng::seed_from_u64(seed)))))
    }

    /// Uniform in `[0, 1)`.
    #[must_use]
    pub fn roll(&self) -> f64 {
        match self {
            Self::Thread => rand::rng().random(),
            Self::Seeded(Seeded(generator)) => generator
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .random(),
            Self::Fixed(roll) => *roll,
        }
    }
}
