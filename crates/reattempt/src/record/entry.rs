//! One entry: what became of an attempt, of a planned hedge, or of a call that waited.

use std::time::Duration;

use super::bits::{Bits, COARSE, FINE, scaled, unscaled};
use super::damage::number;
use super::file::LENGTH;
use crate::{AttemptKind, AttemptOutcome, ServerPushback, Stage, StopReason, Transparent};

/// What an entry is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// An attempt ended, or was dropped.
    Attempt,
    /// A planned hedge was refused: `stopped` says why.
    Refused,
    /// The call ended while no attempt was in flight, without a decision on an attempt: `stopped`
    /// says why.
    Ended,
}

/// One entry of a recording. Names are numbers, which [`Recording`](super::Recording) has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Entry {
    /// What it is about.
    pub what: What,
    /// The number of the call; numbers are used again after four billion calls.
    pub call: u32,
    /// When, in nanoseconds since the base of its block.
    pub at: u64,
    /// The number of the attempt, from 1; at most 4095.
    pub number: u16,
    /// Why it was sent.
    pub kind: AttemptKind,
    /// How it ended.
    pub outcome: AttemptOutcome,
    /// The gate that refused a further attempt, or why the call ended.
    pub stopped: Option<StopReason>,
    /// How long it took.
    pub took: Duration,
    /// Of a first attempt: the time from its sending to the deadline of the call.
    pub timeout: Option<Duration>,
    /// Of a hedge: how many entries were written between its sending and this one.
    pub since_sent: u64,
    /// The delay chosen before the next attempt.
    pub delay: Option<Duration>,
    /// The server's pushback; in a coarse unit, unless it is the delay.
    pub pushback: Option<ServerPushback>,
    /// How far it came, if it failed.
    pub stage: Option<Stage>,
    /// Whether it may be retried without being counted, as it was resolved.
    pub transparent: Transparent,
    /// The protocol's own code, if it failed with one within 24 bits.
    pub code: Option<i32>,
    /// The number of the reason's name, if it failed.
    pub reason: u8,
    /// The number of the route's name; at most 16383.
    pub route: u16,
    /// Even a request that is not idempotent may be sent again after this failure.
    pub safe: bool,
    /// The server failed, although the reason is one of answers.
    pub server_failed: bool,
    /// The request may take effect twice.
    pub idempotent: bool,
    /// A layer enforces the deadline.
    pub enforced: bool,
    /// The server's pushback could not be parsed.
    pub unreadable: bool,
    /// The attempt was cut off, because another goes on alone.
    pub cut_off: bool,
}

const KINDS: [AttemptKind; 4] = [
    AttemptKind::Initial,
    AttemptKind::Retry,
    AttemptKind::Hedge,
    AttemptKind::Transparent,
];
const OUTCOMES: [AttemptOutcome; 5] = [
    AttemptOutcome::Success,
    AttemptOutcome::Committed,
    AttemptOutcome::Fatal,
    AttemptOutcome::Retry,
    AttemptOutcome::Cancelled,
];
const STAGES: [Stage; 3] = [Stage::Dispatch, Stage::InFlight, Stage::Response];
const TRANSPARENT: [Transparent; 5] = [
    Transparent::No,
    Transparent::Once,
    Transparent::IfUnread,
    Transparent::NextBackend,
    Transparent::Unlimited,
];
const WHATS: [What; 3] = [What::Attempt, What::Refused, What::Ended];
/// The code is 24 bits with a sign.
const MOST_CODE: i32 = (1 << 23) - 1;

fn place<T: PartialEq>(of: &T, all: &[T]) -> u64 {
    all.iter().position(|one| one == of).unwrap_or(0) as u64
}

fn five(value: u64, out: &mut [u8]) {
    out[..5].copy_from_slice(&value.to_le_bytes()[..5]);
}

impl Entry {
    /// An entry of this call at this time, of an attempt that succeeded.
    #[must_use]
    pub const fn new(what: What, call: u32, at: u64) -> Self {
        Self {
            what,
            call,
            at,
            number: 1,
            kind: AttemptKind::Initial,
            outcome: AttemptOutcome::Success,
            stopped: None,
            took: Duration::ZERO,
            timeout: None,
            since_sent: 0,
            delay: None,
            pushback: None,
            stage: None,
            transparent: Transparent::No,
            code: None,
            reason: 0,
            route: 0,
            safe: false,
            server_failed: false,
            idempotent: false,
            enforced: false,
            unreadable: false,
            cut_off: false,
        }
    }

    fn is_delay(&self) -> bool {
        matches!((self.pushback, self.delay), (Some(ServerPushback::After(asked)), Some(delay)) if asked == delay)
    }

    /// Its bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; LENGTH] {
        let mut bits = Bits::default();
        let code = self
            .code
            .filter(|code| (-MOST_CODE..=MOST_CODE).contains(code));
        let pushback = match self.pushback {
            None => 0,
            Some(ServerPushback::Stop) => 1,
            Some(ServerPushback::After(_)) if self.is_delay() => 2,
            Some(ServerPushback::After(_) | ServerPushback::TooLong { .. }) => 3,
        };
        bits.put(place(&self.what, &WHATS), 2);
        bits.put(place(&self.kind, &KINDS), 2);
        bits.put(place(&self.outcome, &OUTCOMES), 3);
        bits.put(self.stopped.map_or(0, StopReason::to_byte).into(), 4);
        bits.put(self.stage.map_or(0, |stage| place(&stage, &STAGES) + 1), 2);
        bits.put(place(&self.transparent, &TRANSPARENT), 3);
        bits.put(pushback, 2);
        bits.put(self.number.into(), 12);
        bits.put(self.reason.into(), 8);
        bits.put(self.route.into(), 14);
        let flags = [
            code.is_some(),
            self.safe,
            self.idempotent,
            self.enforced,
            self.unreadable,
            self.cut_off,
            self.server_failed,
            matches!(self.pushback, Some(ServerPushback::TooLong { .. })),
        ];
        for flag in flags {
            bits.put(flag.into(), 1);
        }
        let asked = self.pushback.and_then(ServerPushback::delay);
        let beside = match self.kind {
            AttemptKind::Initial => scaled(self.timeout, 40, FINE),
            _ => self.since_sent.min((1 << 40) - 1),
        };
        let mut out = [0; LENGTH];
        out[..8].copy_from_slice(&bits.word().to_le_bytes());
        out[8..12].copy_from_slice(&self.call.to_le_bytes());
        five(self.at.min((1 << 40) - 1), &mut out[12..]);
        five(scaled(Some(self.took), 40, FINE), &mut out[17..]);
        five(beside, &mut out[22..]);
        five(scaled(self.delay, 40, FINE), &mut out[27..]);
        out[32..35].copy_from_slice(&scaled(asked, 24, COARSE).to_le_bytes()[..3]);
        let code = code.unwrap_or(0) as u32;
        out[35..38].copy_from_slice(&code.to_le_bytes()[..3]);
        out
    }

    /// The entry with these bytes; `None` if a field has a value that no entry has.
    #[must_use]
    pub fn decode(bytes: &[u8; LENGTH]) -> Option<Self> {
        let mut bits = Bits::of(number(&bytes[..8]));
        let mut next = |width| bits.take(width) as usize;
        let what = *WHATS.get(next(2))?;
        let kind = KINDS[next(2)];
        let outcome = *OUTCOMES.get(next(3))?;
        let stopped = match next(4) {
            0 => None,
            stopped => Some(StopReason::from_byte(stopped as u8)?),
        };
        let stage = next(2).checked_sub(1).map(|stage| STAGES[stage]);
        let transparent = *TRANSPARENT.get(next(3))?;
        let pushback = next(2);
        let (attempt, reason, route) = (next(12) as u16, next(8) as u8, next(14) as u16);
        let flags: [bool; 8] = std::array::from_fn(|_| next(1) == 1);
        let beside = number(&bytes[22..27]);
        let delay = unscaled(number(&bytes[27..32]), 40, FINE);
        let asked = unscaled(number(&bytes[32..35]), 24, COARSE);
        let code = (number(&bytes[35..38]) << 8) as u32 as i32 >> 8;
        let is_first = kind == AttemptKind::Initial;
        Some(Self {
            what,
            call: number(&bytes[8..12]) as u32,
            at: number(&bytes[12..17]),
            number: attempt,
            kind,
            outcome,
            stopped,
            took: unscaled(number(&bytes[17..22]), 40, FINE)?,
            timeout: unscaled(beside, 40, FINE).filter(|_| is_first),
            since_sent: if is_first { 0 } else { beside },
            delay,
            pushback: match pushback {
                0 => None,
                1 => Some(ServerPushback::Stop),
                2 => Some(ServerPushback::After(delay?)),
                _ if flags[7] => Some(ServerPushback::too_long(asked?)),
                _ => Some(ServerPushback::After(asked?)),
            },
            stage,
            transparent,
            code: flags[0].then_some(code),
            reason,
            route,
            safe: flags[1],
            server_failed: flags[6],
            idempotent: flags[2],
            enforced: flags[3],
            unreadable: flags[4],
            cut_off: flags[5],
        })
    }
}
