//! A random scenario: a stack of layers, policies that are swapped, and a few calls.

use reattempt::{Idempotency, OnDeadline};

use crate::dice::Dice;
use crate::fate::{Fate, Mood};
use crate::strategy::StrategyPlan;
use crate::throttle::ThrottlePlan;

/// A layer of the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Route,
    /// With or without a timeout of its own.
    Deadline(Option<u64>),
    Throttle,
    Retry,
    Hedge,
    Pushback,
    ConfigPoll,
}

#[derive(Clone, Debug)]
pub(crate) struct HedgePlan {
    pub(crate) max: u32,
    pub(crate) delay: u64,
    pub(crate) only_idempotent: bool,
    pub(crate) on_deadline: OnDeadline,
}

#[derive(Clone, Debug)]
pub(crate) enum RecoveryPlan {
    Default,
    None,
    Retry(StrategyPlan),
    Hedge(HedgePlan),
}

#[derive(Clone, Debug)]
pub(crate) struct PolicyPlan {
    pub(crate) recovery: RecoveryPlan,
    /// The index of a throttle of the scenario.
    pub(crate) throttle: Option<usize>,
    pub(crate) call_limit: Option<u64>,
    pub(crate) attempt_limit: Option<u64>,
}

/// The source of policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// `Routes::swap`.
    Routes,
    /// `LiveHttpPolicies::update`.
    Http,
    /// `LiveServiceConfig::update`.
    Grpc,
}

/// The policy of each class of calls.
pub(crate) type Table = [Option<PolicyPlan>; CLASSES];

pub(crate) const CLASSES: usize = 3;

/// When the caller drops the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leaves {
    AfterMs(u64),
    AfterPolls(u32),
}

/// How the caller ends a response whose head committed the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Concludes {
    No,
    Well,
    /// With a failure; `true` counts in the throttle.
    Failing(bool),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Readiness {
    /// `None` never becomes ready.
    pub(crate) after: Option<u64>,
    pub(crate) breaks: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct BodyPlan {
    pub(crate) frames: u32,
    pub(crate) bytes_a_frame: usize,
    pub(crate) gap: u64,
    pub(crate) fails: bool,
}

#[derive(Debug)]
pub(crate) struct CallPlan {
    pub(crate) starts: u64,
    pub(crate) class: usize,
    /// Set by the caller; for an HTTP request the method counts too.
    pub(crate) idempotency: Idempotency,
    pub(crate) get: bool,
    pub(crate) body: BodyPlan,
    /// The caller's own timeout.
    pub(crate) limit: Option<u64>,
    pub(crate) strategy: Option<StrategyPlan>,
    pub(crate) policy: Option<PolicyPlan>,
    pub(crate) throttle: Option<usize>,
    pub(crate) watched: bool,
    pub(crate) leaves: Option<Leaves>,
    pub(crate) concludes: Concludes,
    pub(crate) readiness: Vec<Readiness>,
    /// The fates of its attempts in order; further attempts succeed, or repeat the list.
    pub(crate) fates: Vec<Fate>,
    pub(crate) again: bool,
}

#[derive(Debug)]
pub(crate) struct Scenario {
    /// `http::Request` with a `ReplayBody`; otherwise `Call<T>`.
    pub(crate) http: bool,
    /// The layers, outermost first.
    pub(crate) order: Vec<Kind>,
    pub(crate) strategy: StrategyPlan,
    /// The policy of the `HedgeLayer`; `None` hedges by route policy only.
    pub(crate) hedge: Option<HedgePlan>,
    pub(crate) transparent: [bool; 2],
    pub(crate) observed: [bool; 2],
    pub(crate) throttles: Vec<ThrottlePlan>,
    pub(crate) source: Source,
    pub(crate) tables: Vec<Table>,
    /// When the next table is put in force.
    pub(crate) swaps: Vec<u64>,
    /// The body buffer limits of one call, and of all calls together.
    pub(crate) bytes: [usize; 2],
    pub(crate) calls: Vec<CallPlan>,
}

impl Scenario {
    pub(crate) fn random(seed: u64) -> Self {
        let dice = &mut Dice::new(seed);
        let http = dice.chance(0.5);
        let source = if http {
            dice.one(&[Source::Routes, Source::Routes, Source::Http, Source::Grpc])
        } else {
            Source::Routes
        };
        let throttles: Vec<_> = (0..3).map(|_| ThrottlePlan::random(dice)).collect();
        let tables = 1 + dice.below(4);
        Self {
            http,
            order: order(dice),
            strategy: StrategyPlan::random(dice),
            hedge: dice.maybe(0.5, HedgePlan::random),
            transparent: [dice.chance(0.8), dice.chance(0.8)],
            observed: [dice.chance(0.8), dice.chance(0.8)],
            throttles,
            source,
            tables: (0..tables)
                .map(|_| std::array::from_fn(|_| dice.maybe(0.6, PolicyPlan::random)))
                .collect(),
            swaps: (1..tables).map(|_| dice.one(&[0, 1, 7, 20, 60])).collect(),
            bytes: [dice.one(&[0, 8, 30, 10_000]), dice.one(&[20, 100_000])],
            calls: {
                let calls = 1 + dice.below(4);
                (0..calls).map(|_| CallPlan::random(dice)).collect()
            },
        }
    }
}

/// Mostly the documented order; invalid orders must do no harm either.
fn order(dice: &mut Dice) -> Vec<Kind> {
    let limits = [
        None,
        None,
        Some(0),
        Some(1),
        Some(15),
        Some(60),
        Some(400),
        Some(3000),
        Some(20_000),
    ];
    let mut order = Vec::new();
    let mut with = |dice: &mut Dice, chance: f64, kind: Kind| {
        if dice.chance(chance) {
            order.push(kind);
        }
    };
    with(dice, 0.7, Kind::Route);
    let limit = dice.one(&limits);
    with(dice, 0.7, Kind::Deadline(limit));
    with(dice, 0.6, Kind::Throttle);
    let recovery = dice.one(&[
        [Some(Kind::Retry), None],
        [Some(Kind::Hedge), None],
        [Some(Kind::Retry), Some(Kind::Hedge)],
        [Some(Kind::Hedge), Some(Kind::Retry)],
        [Some(Kind::Retry), Some(Kind::Retry)],
    ]);
    recovery
        .into_iter()
        .flatten()
        .for_each(|kind| with(dice, 1.0, kind));
    let limit = dice.one(&limits);
    with(dice, 0.4, Kind::Deadline(limit));
    with(dice, 0.7, Kind::Pushback);
    with(dice, 0.5, Kind::ConfigPoll);
    if dice.chance(0.2) {
        dice.shuffle(&mut order);
    }
    order
}

impl HedgePlan {
    fn random(dice: &mut Dice) -> Self {
        Self {
            max: dice.one(&[1, 2, 3, 4, 6, 16, 40]),
            delay: dice.one(&[0, 0, 1, 5, 10, 25]),
            only_idempotent: dice.chance(0.5),
            on_deadline: dice.one(&[OnDeadline::Cap, OnDeadline::GiveUp]),
        }
    }
}

impl PolicyPlan {
    fn random(dice: &mut Dice) -> Self {
        let recovery = match dice.below(6) {
            0 => RecoveryPlan::Default,
            1 => RecoveryPlan::None,
            2 | 3 => RecoveryPlan::Retry(StrategyPlan::random(dice)),
            _ => RecoveryPlan::Hedge(HedgePlan::random(dice)),
        };
        Self {
            recovery,
            throttle: dice.maybe(0.4, |dice| dice.below(3)),
            call_limit: dice.maybe(0.3, |dice| dice.one(&[1, 20, 80, 700, 9000])),
            attempt_limit: dice.maybe(0.4, |dice| dice.one(&[1, 10, 40])),
        }
    }
}

impl CallPlan {
    fn random(dice: &mut Dice) -> Self {
        let mood = Mood::random(dice);
        let idempotency = [
            Idempotency::Unknown,
            Idempotency::Idempotent,
            Idempotency::Idempotent,
            Idempotency::Idempotent,
            Idempotency::NotIdempotent,
        ];
        let fates = dice.one(&[2, 5, 12, 50]);
        Self {
            starts: dice.one(&[0, 0, 1, 10, 50]),
            class: dice.below(CLASSES),
            idempotency: dice.one(&idempotency),
            get: dice.chance(0.5),
            body: BodyPlan {
                frames: dice.one(&[0, 0, 1, 2, 4]),
                bytes_a_frame: dice.one(&[0, 10, 1000]),
                gap: dice.one(&[0, 0, 1, 4]),
                fails: dice.chance(0.05),
            },
            limit: dice.maybe(0.2, |dice| dice.one(&[0, 5, 30, 200])),
            strategy: dice.maybe(0.2, StrategyPlan::random),
            policy: dice.maybe(0.2, PolicyPlan::random),
            throttle: dice.maybe(0.1, |dice| dice.below(3)),
            watched: dice.chance(0.6),
            leaves: leaves(dice),
            concludes: dice.one(&[
                Concludes::No,
                Concludes::Well,
                Concludes::Failing(true),
                Concludes::Failing(false),
            ]),
            readiness: (0..30).map(|_| readiness(dice)).collect(),
            fates: (0..fates).map(|_| Fate::random(dice, &mood)).collect(),
            again: dice.chance(0.5),
        }
    }
}

fn leaves(dice: &mut Dice) -> Option<Leaves> {
    let ms = [0, 1, 3, 10, 11, 40, 100, 1000];
    match dice.below(20) {
        0..3 => Some(Leaves::AfterMs(dice.one(&ms))),
        3 => Some(Leaves::AfterPolls(dice.one(&[0, 1, 2, 3, 5, 8, 20]))),
        _ => None,
    }
}

fn readiness(dice: &mut Dice) -> Readiness {
    let odd = [None, Some(1), Some(4), Some(30)];
    Readiness {
        after: dice.maybe(0.1, |dice| dice.one(&odd)).unwrap_or(Some(0)),
        breaks: dice.chance(0.02),
    }
}
