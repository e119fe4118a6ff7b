//! How long an attempt is served.

use crate::number::nanos;
use crate::random::{Words, exponential, unit};

/// A distribution of service times.
#[derive(Clone, Debug, PartialEq)]
pub enum Latency {
    /// Always the same, in milliseconds.
    Fixed(f64),
    /// Exponential with this mean, in milliseconds.
    Exponential(f64),
    /// Log-normal, by the median in milliseconds and the standard deviation of the logarithm.
    Lognormal {
        /// In milliseconds.
        median: f64,
        /// Of the natural logarithm.
        sigma: f64,
    },
    /// Pareto, by its smallest value in milliseconds and its exponent.
    Pareto {
        /// In milliseconds.
        min: f64,
        /// The exponent of the tail; the mean is finite above 1.
        alpha: f64,
    },
    /// One of these values in milliseconds, each as likely.
    Samples(Vec<f64>),
    /// One of several distributions, by weight.
    Mix(Vec<(f64, Latency)>),
}

impl Latency {
    /// A time in nanoseconds.
    pub(crate) fn draw(&self, words: &mut Words) -> u64 {
        nanos(self.millis(words))
    }

    fn millis(&self, words: &mut Words) -> f64 {
        match self {
            Self::Fixed(ms) => *ms,
            Self::Exponential(mean) => mean * exponential(words.next()),
            Self::Lognormal { median, sigma } => median * libm::exp(sigma * normal(words)),
            // 1 - u is in (0, 1], so that the power is finite.
            Self::Pareto { min, alpha } => min * libm::pow(1.0 - words.unit(), -1.0 / alpha),
            Self::Samples(samples) => samples[crate::random::below(words.next(), samples.len())],
            Self::Mix(parts) => Self::part(parts, words.unit()).millis(words),
        }
    }

    fn part(parts: &[(f64, Self)], unit: f64) -> &Self {
        &parts[by_weight(parts.iter().map(|(weight, _)| *weight), unit)].1
    }

    /// The share of times that are at most this long, in milliseconds: for the lint.
    pub(crate) fn share_within(&self, ms: f64) -> f64 {
        match self {
            Self::Fixed(fixed) => f64::from(u8::from(*fixed <= ms)),
            Self::Exponential(mean) => 1.0 - libm::exp(-ms / mean),
            Self::Lognormal { median, sigma } if *sigma > 0.0 && ms > 0.0 => {
                let z = libm::log(ms / median) / sigma;
                0.5 * libm::erfc(-z / std::f64::consts::SQRT_2)
            }
            Self::Lognormal { median, .. } => f64::from(u8::from(*median <= ms)),
            Self::Pareto { min, alpha } if ms > *min => 1.0 - libm::pow(min / ms, *alpha),
            Self::Pareto { .. } => 0.0,
            Self::Samples(samples) => {
                let within = samples.iter().filter(|sample| **sample <= ms).count();
                within as f64 / samples.len() as f64
            }
            Self::Mix(parts) => {
                let whole: f64 = parts.iter().map(|(weight, _)| weight).sum();
                let share = parts
                    .iter()
                    .map(|(weight, part)| weight * part.share_within(ms));
                share.sum::<f64>() / whole
            }
        }
    }
}

/// Standard normal (Box and Muller).
fn normal(words: &mut Words) -> f64 {
    let radius = (2.0 * exponential(words.next())).sqrt();
    radius * libm::cos(2.0 * std::f64::consts::PI * unit(words.next()))
}

/// Which of these weights, of which at least one is above zero.
pub(crate) fn by_weight(weights: impl Iterator<Item = f64> + Clone, unit: f64) -> usize {
    let mut left = unit * weights.clone().sum::<f64>();
    let mut last = 0;
    for (at, weight) in weights.enumerate() {
        if weight > 0.0 {
            last = at;
            if left < weight {
                return at;
            }
            left -= weight;
        }
    }
    last
}
