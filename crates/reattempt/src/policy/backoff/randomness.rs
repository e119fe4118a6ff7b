//! Sources of random numbers.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use rand::distr::{Distribution, StandardUniform};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// A source of random numbers, for jitter and identifiers.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum Randomness {
    /// The thread's generator: different for every call.
    #[default]
    Thread,
    // No caller can make what these two hold.
    #[doc(hidden)]
    Seeded(Seeded),
    #[doc(hidden)]
    Drawn(Drawn),
    /// Always the same value, for tests of exact delays.
    Fixed(f64),
}

/// What [`Randomness::drawn`] makes.
#[derive(Clone)]
pub struct Drawn(Arc<dyn Fn() -> f64 + Send + Sync>);

impl fmt::Debug for Drawn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Drawn").finish_non_exhaustive()
    }
}

/// What [`Randomness::seeded`] makes.
#[derive(Clone, Debug)]
pub struct Seeded(Arc<Mutex<SmallRng>>);

impl Seeded {
    fn draw<T>(&self) -> T
    where
        StandardUniform: Distribution<T>,
    {
        let mut generator = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        generator.random()
    }
}

impl Randomness {
    /// A reproducible generator with this seed; clones share it. Its numbers are others on targets
    /// of another word size.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Self::Seeded(Seeded(Arc::new(Mutex::new(SmallRng::seed_from_u64(seed)))))
    }

    /// A generator of the program's own, whose numbers are uniform in `[0, 1)`: for a simulator, in
    /// which one seed gives the same numbers on every platform.
    #[must_use]
    pub fn drawn(draw: impl Fn() -> f64 + Send + Sync + 'static) -> Self {
        Self::Drawn(Drawn(Arc::new(draw)))
    }

    /// Uniform in `[0, 1)`.
    #[must_use]
    pub fn roll(&self) -> f64 {
        match self {
            Self::Thread => rand::rng().random(),
            Self::Seeded(seeded) => seeded.draw(),
            Self::Drawn(Drawn(draw)) => draw(),
            Self::Fixed(roll) => *roll,
        }
    }

    /// 64 random bits, for identifiers. The thread's generator is a cryptographic one; a seeded one
    /// is not, and a fixed value gives the same bits each time.
    #[must_use]
    pub fn bits(&self) -> u64 {
        match self {
            Self::Thread => rand::rng().random(),
            Self::Seeded(seeded) => seeded.draw(),
            // A double has 53 bits: two draws of 32 each.
            Self::Drawn(Drawn(draw)) => {
                let half = || (draw() * 2.0_f64.powi(32)) as u64;
                (half() << 32) | half()
            }
            Self::Fixed(roll) => (roll * 2.0_f64.powi(64)) as u64,
        }
    }
}
