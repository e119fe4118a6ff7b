//! Throttles, behind a witness that logs every call to each.

use std::sync::Arc;

use reattempt::throttle::{Both, HedgeBudget, Settled, TokenBucket};
use reattempt::{Failure, RetryThrottle};
use reattempt_http::aws::{AwsQuota, AwsVersion};

use crate::dice::Dice;
use crate::log::Event;
use crate::world::World;

#[derive(Clone, Copy, Debug)]
pub(crate) enum ThrottlePlan {
    /// Maximum of tokens, and thousandths gained per success.
    Bucket(u32, u32),
    /// Hedges per thousand.
    Budget(u32),
    Both(u32, u32, u32),
    /// Tokens of the AWS quota.
    Quota(u32),
}

impl ThrottlePlan {
    pub(crate) fn random(dice: &mut Dice) -> Self {
        let (most, ratio) = (
            dice.one(&[1, 10, 100, 1000]),
            dice.one(&[1, 100, 1734, 1734]),
        );
        let share = dice.one(&[1, 300, 1000]);
        match dice.below(4) {
            0 => Self::Bucket(most, ratio),
            1 => Self::Budget(share),
            2 => Self::Both(most, ratio, share),
            _ => Self::Quota(dice.one(&[0, 30, 500, 10_000])),
        }
    }

    fn bucket(most: u32, ratio: u32) -> Arc<dyn RetryThrottle> {
        Arc::new(TokenBucket::new(most, ratio).expect("a bucket"))
    }

    fn budget(share: u32) -> Arc<dyn RetryThrottle> {
        Arc::new(HedgeBudget::of_thousandths(share).expect("a budget"))
    }

    pub(crate) fn make(self, id: usize, world: &Arc<World>) -> Arc<Witness> {
        let (inner, parts): (Arc<dyn RetryThrottle>, _) = match self {
            Self::Bucket(most, ratio) => {
                let bucket = Self::bucket(most, ratio);
                (Arc::clone(&bucket), [Some(bucket), None])
            }
            Self::Budget(share) => {
                let budget = Self::budget(share);
                (Arc::clone(&budget), [Some(budget), None])
            }
            Self::Both(most, ratio, share) => {
                let (bucket, budget) = (Self::bucket(most, ratio), Self::budget(share));
                let both = Both(Arc::clone(&bucket), Arc::clone(&budget));
                (Arc::new(both), [Some(bucket), Some(budget)])
            }
            Self::Quota(tokens) => {
                let quota = Arc::new(AwsQuota::of(AwsVersion::V2_1, tokens));
                (quota.clone(), [Some(quota), None])
            }
        };
        Arc::new(Witness {
            id,
            inner,
            parts,
            world: Arc::clone(world),
        })
    }
}

/// An operation on a throttle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Op {
    Success,
    Failure(Failure),
    Recovered(Failure),
    Allows(Option<Failure>, bool),
    Spend(Option<Failure>, bool),
    Refund(Option<Failure>),
}

#[derive(Debug)]
pub(crate) struct Witness {
    id: usize,
    inner: Arc<dyn RetryThrottle>,
    parts: [Option<Arc<dyn RetryThrottle>>; 2],
    world: Arc<World>,
}

impl Witness {
    fn note(&self, op: Op) {
        let fill = |part: &Option<Arc<dyn RetryThrottle>>| part.as_ref()?.milli_tokens();
        self.world.note(Event::Throttle {
            throttle: self.id,
            op,
            fills: [fill(&self.parts[0]), fill(&self.parts[1])],
        });
    }
}

impl RetryThrottle for Witness {
    fn settled(&self, outcome: Settled<'_>) {
        self.inner.settled(outcome);
        self.note(match outcome {
            Settled::Success => Op::Success,
            Settled::Failure(failure) => Op::Failure(*failure),
        });
    }

    fn allows(&self, failure: Option<&Failure>) -> bool {
        let allows = self.inner.allows(failure);
        self.note(Op::Allows(failure.copied(), allows));
        allows
    }

    fn spend(&self, failure: Option<&Failure>) -> bool {
        let spent = self.inner.spend(failure);
        self.note(Op::Spend(failure.copied(), spent));
        spent
    }

    fn refund(&self, failure: Option<&Failure>) {
        self.inner.refund(failure);
        self.note(Op::Refund(failure.copied()));
    }

    fn recovered(&self, failure: Option<&Failure>) {
        self.inner.recovered(failure);
        self.note(failure.map_or(Op::Success, |failure| Op::Recovered(*failure)));
    }

    fn first_failed(&self) {
        self.inner.first_failed();
    }

    fn milli_tokens(&self) -> Option<u64> {
        self.inner.milli_tokens()
    }
}
