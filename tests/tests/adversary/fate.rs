//! The random result of an attempt.

use reattempt::reason::{
    KV_LOCKED, KV_NOT_MY_VBUCKET, KV_TEMPORARY_FAILURE, SOCKET_CLOSED_WHILE_IN_FLIGHT,
    SOCKET_NOT_AVAILABLE, UNKNOWN,
};
use reattempt::{Failure, RetryReason, Stage, Transparent, Verdict};
use reattempt_http::reasons::HTTP_TOO_MANY_REQUESTS;

use crate::dice::Dice;

reattempt::retry_reasons! {
    /// Always retried, even if not idempotent: a combination that none of our protocols has.
    pub(crate) ALWAYS_AND_UNSAFE(false, true);
}

/// When an attempt ends, after it has read its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Takes {
    /// After this many milliseconds; 0 is at once and without a timer.
    Ms(u64),
    Never,
    /// At the exact instant of its timeout; never if there is none.
    TillLimit,
}

/// The server's pushback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    /// After this many milliseconds.
    After(u64),
    Stop,
    Unreadable,
}

/// How much of the request body is read first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reads {
    Nothing,
    Frames(u32),
    All,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiter {
    /// `None` never resolves.
    pub(crate) after: Option<u64>,
    pub(crate) moved: bool,
    /// Reported by the transport; otherwise by `ConfigPollLayer`.
    pub(crate) reported: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Fate {
    pub(crate) verdict: Verdict,
    /// A failure is a response instead of an error.
    pub(crate) as_answer: bool,
    pub(crate) reads: Reads,
    pub(crate) takes: Takes,
    pub(crate) word: Option<Word>,
    /// The transport reports the pushback; otherwise `PushbackLayer` reads it.
    pub(crate) reported: bool,
    /// The stages reported when the attempt is sent, and when it ends.
    pub(crate) stages: [Option<Stage>; 2],
    pub(crate) forbids: bool,
    pub(crate) waiter: Option<Waiter>,
    pub(crate) backend: bool,
    /// Reports that there is a backend that the call has not tried.
    pub(crate) untried: bool,
    /// Reports that the response is not from a server.
    pub(crate) own_answer: bool,
}

/// The probabilities of a scenario. They differ, so that each rule is exercised often in some.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mood {
    /// Every failure has this reason.
    reason: Option<RetryReason>,
    /// Every failure is transparent in this way.
    unseen: Option<Transparent>,
    success: f64,
    fatal: f64,
    transparent: f64,
    word: f64,
    slow: f64,
}

impl Mood {
    pub(crate) fn random(dice: &mut Dice) -> Self {
        let reasons = [KV_NOT_MY_VBUCKET, KV_TEMPORARY_FAILURE, KV_LOCKED];
        let calm = Self {
            reason: dice.maybe(0.7, |dice| dice.one(&reasons)),
            unseen: dice.maybe(0.4, |_| Transparent::Unlimited),
            success: 0.0,
            fatal: 0.0,
            transparent: 0.0,
            word: 0.0,
            slow: 0.0,
        };
        if dice.chance(0.3) {
            // The same failure repeatedly, until something ends it.
            return calm;
        }
        Self {
            reason: None,
            unseen: None,
            success: dice.one(&[0.01, 0.05, 0.2, 0.5]),
            fatal: dice.one(&[0.0, 0.0, 0.02, 0.15]),
            transparent: dice.one(&[0.0, 0.15, 0.7, 1.0]),
            word: dice.one(&[0.0, 0.0, 0.1, 0.5]),
            slow: dice.one(&[0.0, 0.0, 0.02, 0.2]),
        }
    }
}

impl Fate {
    pub(crate) const SUCCESS: Self = Self {
        verdict: Verdict::Success,
        as_answer: true,
        reads: Reads::Nothing,
        takes: Takes::Ms(1),
        word: None,
        reported: false,
        stages: [None; 2],
        forbids: false,
        waiter: None,
        backend: false,
        untried: false,
        own_answer: false,
    };

    pub(crate) fn random(dice: &mut Dice, mood: &Mood) -> Self {
        let verdict = if dice.chance(mood.success) {
            dice.one(&[Verdict::Success, Verdict::Success, Verdict::Committed])
        } else if dice.chance(mood.fatal) {
            Verdict::Fatal(failure(dice, mood))
        } else {
            Verdict::Retry(failure(dice, mood))
        };
        let stages = [None, None, Some(Stage::Dispatch), Some(Stage::InFlight)];
        Self {
            verdict,
            as_answer: verdict.failure().is_none() || dice.chance(0.4),
            reads: dice.one(&[Reads::Nothing, Reads::Frames(2), Reads::All]),
            takes: takes(dice, mood),
            word: dice.maybe(mood.word, word),
            reported: dice.chance(0.5),
            stages: [dice.one(&stages), dice.one(&stages)],
            forbids: dice.chance(0.005),
            waiter: dice.maybe(0.2, |dice| Waiter {
                after: dice.one(&[None, Some(0), Some(1), Some(6), Some(40)]),
                moved: dice.chance(0.6),
                reported: dice.chance(0.5),
            }),
            backend: dice.chance(0.2),
            untried: dice.chance(0.5),
            own_answer: dice.chance(0.1),
        }
    }
}

fn failure(dice: &mut Dice, mood: &Mood) -> Failure {
    let reasons: [RetryReason; 9] = [
        KV_TEMPORARY_FAILURE,
        KV_TEMPORARY_FAILURE,
        KV_LOCKED,
        UNKNOWN,
        SOCKET_NOT_AVAILABLE,
        SOCKET_CLOSED_WHILE_IN_FLIGHT,
        KV_NOT_MY_VBUCKET,
        ALWAYS_AND_UNSAFE,
        HTTP_TOO_MANY_REQUESTS,
    ];
    let stages = [Stage::Dispatch, Stage::InFlight, Stage::Response];
    let reason = mood.reason.unwrap_or(dice.one(&reasons));
    let mut failure = Failure::new(reason, dice.one(&stages));
    if failure.stage == Stage::Dispatch {
        failure.safe = true;
    }
    failure.code = dice.maybe(0.3, |dice| dice.one(&[1, 2]));
    let transparency = [
        Transparent::Once,
        Transparent::Unlimited,
        Transparent::IfUnread,
        Transparent::NextBackend,
    ];
    failure.transparent = mood.unseen.unwrap_or_default();
    if mood.unseen.is_some() {
        return failure;
    }
    failure.transparent = dice
        .maybe(mood.transparent, |dice| dice.one(&transparency))
        .unwrap_or_default();
    failure
}

fn takes(dice: &mut Dice, mood: &Mood) -> Takes {
    if dice.chance(mood.slow) {
        return dice.one(&[Takes::Never, Takes::TillLimit, Takes::Ms(5000)]);
    }
    Takes::Ms(dice.one(&[0, 0, 0, 1, 2, 5, 10, 10, 30, 100]))
}

const DAY: u64 = 24 * 60 * 60 * 1000;

fn word(dice: &mut Dice) -> Word {
    dice.one(&[
        Word::After(0),
        Word::After(0),
        Word::After(0),
        Word::After(1),
        Word::After(1),
        Word::After(3),
        Word::After(3),
        Word::After(60),
        Word::After(60),
        Word::After(DAY),
        Word::After(DAY + 1),
        Word::After(400 * DAY),
        Word::Stop,
        Word::Unreadable,
    ])
}
