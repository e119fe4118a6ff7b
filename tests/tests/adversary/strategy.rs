//! Our own strategies, and a user's with odd decisions. Each decision is logged.

use std::sync::Arc;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use reattempt::backoff::{Backoff, Jitter, Randomness};
use reattempt::reason::{KV_LOCKED, KV_TEMPORARY_FAILURE};
use reattempt::strategy::{
    BestEffort, ControlledBackoff, Extended, MaxAttempts, NeverRetry, RetryOnce,
};
use reattempt::test_util::ms;
use reattempt::{Decision, Failure, OnDeadline, RetryStrategy, RetryView, Surface};
use reattempt_http::aws::{AwsStandard, AwsVersion};
use reattempt_tests::alive::Live;

use crate::dice::Dice;
use crate::log::Event;
use crate::world::World;

#[derive(Clone, Debug)]
pub(crate) enum StrategyPlan {
    Attempts {
        max: u32,
        step: u64,
        on_deadline: Option<OnDeadline>,
    },
    BestEffort {
        step: u64,
        on_deadline: OnDeadline,
    },
    Controlled,
    Once,
    FailFast,
    Extended,
    Aws,
    /// Decides by this seed.
    Odd(u64),
}

impl StrategyPlan {
    pub(crate) fn random(dice: &mut Dice) -> Self {
        let on_deadline = dice.one(&[OnDeadline::Cap, OnDeadline::GiveUp]);
        match dice.below(10) {
            0..3 => Self::Attempts {
                max: dice.one(&[0, 1, 2, 3, 5, 10, 40]),
                step: dice.one(&[0, 1, 10, 40]),
                on_deadline: dice.one(&[None, Some(on_deadline)]),
            },
            3 => Self::BestEffort {
                step: dice.one(&[1, 10, 40]),
                on_deadline,
            },
            4 => Self::Controlled,
            5 => dice.one(&[Self::Once, Self::FailFast]),
            6 => Self::Extended,
            7 => Self::Aws,
            _ => Self::Odd(dice.number()),
        }
    }

    /// The back-off of strategies without a maximum.
    pub(crate) fn bound(&self) -> Option<Backoff> {
        match *self {
            Self::BestEffort { step, .. } => {
                Some(Backoff::exponential(ms(step), ms(500)).jitter(Jitter::None))
            }
            Self::Controlled => Some(Backoff::controlled()),
            _ => None,
        }
    }

    pub(crate) fn make(&self, world: &Arc<World>) -> Arc<dyn RetryStrategy> {
        let inner: Box<dyn RetryStrategy> = match *self {
            Self::Attempts {
                max,
                step,
                on_deadline,
            } => {
                let backoff = Backoff::exponential(ms(step), ms(200))
                    .jitter(Jitter::Full)
                    .randomness(Randomness::seeded(7));
                let attempts = MaxAttempts::new(max, backoff);
                Box::new(match on_deadline {
                    Some(choice) => attempts.on_deadline(choice),
                    None => attempts,
                })
            }
            Self::BestEffort { on_deadline, .. } => {
                let backoff = self.bound().expect("it has no maximum");
                Box::new(BestEffort::with_backoff(backoff).on_deadline(on_deadline))
            }
            Self::Controlled => Box::new(ControlledBackoff),
            Self::Once => Box::new(RetryOnce),
            Self::FailFast => Box::new(NeverRetry),
            Self::Extended => {
                let constant = Backoff::constant(ms(20));
                let extended = Extended::new(BestEffort::new()).never(KV_LOCKED);
                Box::new(extended.by(KV_TEMPORARY_FAILURE, MaxAttempts::new(3, constant)))
            }
            Self::Aws => {
                let aws = AwsStandard::new(AwsVersion::V2_1);
                Box::new(aws.randomness(Randomness::seeded(7)))
            }
            Self::Odd(seed) => Box::new(Odd {
                seed,
                world: Arc::clone(world),
            }),
        };
        Arc::new(Asked {
            inner,
            world: Arc::clone(world),
        })
    }
}

/// Logs the decisions.
#[derive(Debug)]
struct Asked {
    inner: Box<dyn RetryStrategy>,
    world: Arc<World>,
}

impl RetryStrategy for Asked {
    fn decide(&self, view: &RetryView<'_>) -> Decision {
        let decision = self.inner.decide(view);
        let stops = matches!(decision, Decision::Stop | Decision::Exhausted);
        self.world.note(Event::Decided {
            retries: view.retries,
            stops,
        });
        decision
    }

    fn max_attempts(&self) -> Option<u32> {
        self.inner.max_attempts()
    }

    fn on_deadline(&self) -> Option<OnDeadline> {
        self.inner.on_deadline()
    }

    fn delay_asked(&self, failure: &Failure, asked: Duration, own: Duration) -> Duration {
        self.inner.delay_asked(failure, asked, own)
    }

    fn holds(&self) -> bool {
        self.inner.holds()
    }

    fn surface(&self, held: &Failure, new: &Failure) -> Surface {
        self.inner.surface(held, new)
    }
}

/// A user's strategy: each decision depends only on the seed and the number of retries.
#[derive(Debug)]
struct Odd {
    seed: u64,
    world: Arc<World>,
}

impl Odd {
    fn pick(&self, what: u64, of: u64) -> u64 {
        StdRng::seed_from_u64(self.seed ^ (what << 40)).random_range(0..of)
    }

    fn defer(&self, retries: u32) -> Decision {
        let takes = self.pick(u64::from(retries) + 200, 4) * 3;
        let answer = self.pick(u64::from(retries) + 300, 8);
        let world = Arc::clone(&self.world);
        let live = Live::one_of(&world.alive.decisions);
        Decision::Defer(Box::pin(async move {
            let _live = live;
            if takes > 0 {
                tokio::time::sleep(ms(takes)).await;
            }
            let decided = match answer {
                0 => Err("no idea".into()),
                1 => Ok(None),
                2 => std::future::pending().await,
                _ => Ok(Some(ms(answer % 3))),
            };
            let stops = !matches!(decided, Ok(Some(_)));
            world.note(Event::Decided { retries, stops });
            decided
        }))
    }
}

impl RetryStrategy for Odd {
    fn decide(&self, view: &RetryView<'_>) -> Decision {
        if view.retries > 12 {
            return Decision::Stop;
        }
        match self.pick(u64::from(view.retries) + 100, 12) {
            0 => Decision::Stop,
            1 => Decision::Exhausted,
            2..5 => Decision::After(Duration::ZERO),
            5 => Decision::After(Duration::from_nanos(1)),
            6 => Decision::After(Duration::MAX),
            7 | 8 => Decision::After(ms(25)),
            _ => self.defer(view.retries),
        }
    }

    fn max_attempts(&self) -> Option<u32> {
        let most = self.pick(1, 12) as u32;
        (most < 9).then_some(most)
    }

    fn on_deadline(&self) -> Option<OnDeadline> {
        [Some(OnDeadline::Cap), Some(OnDeadline::GiveUp), None][self.pick(2, 3) as usize]
    }

    fn delay_asked(&self, _: &Failure, asked: Duration, own: Duration) -> Duration {
        match self.pick(3, 4) {
            0 => Duration::ZERO,
            1 => own,
            _ => asked,
        }
    }

    fn holds(&self) -> bool {
        self.pick(4, 3) == 0
    }

    fn surface(&self, held: &Failure, new: &Failure) -> Surface {
        if held.code == new.code {
            Surface::Held
        } else {
            Surface::New
        }
    }
}
