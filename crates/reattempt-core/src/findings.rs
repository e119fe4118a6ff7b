//! What inner layers and transports found in one attempt, on its way up.

#[cfg(all(test, loom))]
mod models;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::sync::{AtomicU64, Ordering};
use crate::{ServerPushback, Stage};

/// Where an attempt went: an address or a name, as the transport spells it.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Backend(Arc<str>);

impl Backend {
    /// A backend of this name.
    #[must_use]
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self(name.into())
    }

    /// Its name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Resolves when a newer configuration was looked for: `true` if it moved what the call
/// is about, so that it is sent at once; `false` leaves it to the back-off.
pub type ConfigWaiter = Pin<Box<dyn Future<Output = bool> + Send + 'static>>;

/// What was found in one attempt, as the recovery layer reads it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Findings {
    /// The server's word on another attempt.
    pub pushback: Option<ServerPushback>,
    /// The server's word cannot be read, and counts as none.
    pub pushback_unreadable: bool,
    /// How far the attempt came, if a layer knows better than the error tells. The classifier's
    /// [`Stage::Response`] is final: this stage counts against it only in an
    /// [own answer](Self::own_answer).
    pub stage: Option<Stage>,
    /// A layer of this side made the answer itself (an attempt's deadline, a call that was shed).
    pub own_answer: bool,
    /// There is a backend that the call had not tried when this attempt was sent.
    pub untried_backend: bool,
    /// Some layer forbids another attempt (nested recovery, a hop that gave up).
    pub forbidden: bool,
    /// A newer configuration was asked for; a waiter may have been left.
    pub config_coming: bool,
    /// The waiter said at once that what the call is about has moved: the recovery layer's own
    /// finding.
    pub config_moved: bool,
    /// The request itself broke the attempt off, because another one goes on alone: the recovery
    /// layer's own finding, by [`Replay::was_cut_off`](crate::Replay::was_cut_off).
    pub cut_off: bool,
    /// The attempt's copy of the request had content of which nothing was read: the recovery
    /// layer's own finding, by [`Replay::was_unread`](crate::Replay::was_unread).
    pub unread: bool,
}

/// The most attempts of one call that can be out at once and still report.
pub(crate) const SLOTS: usize = 16;

/// An attempt's number and the slot it was given.
///
/// The slot is not the number's own: transparent and forced mends go on past [`SLOTS`] while an
/// early attempt may still be out, and none may take the slot of one that is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seat {
    pub(crate) attempt: u32,
    pub(crate) slot: u8,
}

impl Seat {
    /// The slot that is looked at first; the only one for the first [`SLOTS`] attempts, as nobody
    /// had it before them.
    #[inline]
    pub(crate) const fn first_choice(attempt: u32) -> Self {
        Self {
            attempt,
            slot: (attempt % SLOTS as u32) as u8,
        }
    }
}

/// One word an attempt: 12 bits of its number, 10 of flags, 42 of pushback in microseconds.
///
/// A report names its attempt; if the slot has gone to a later one since, it is ignored.
#[derive(Debug, Default)]
pub(crate) struct Slots([AtomicU64; SLOTS]);

/// Fifty days, which is more than any protocol's pushback says.
const VALUE_BITS: u32 = 42;
const VALUE_MASK: u64 = (1 << VALUE_BITS) - 1;
const FLAG_STAGE: u64 = 0b11 << VALUE_BITS;
const FLAG_FORBID: u64 = 1 << (VALUE_BITS + 2);
const FLAG_CONFIG: u64 = 1 << (VALUE_BITS + 3);
const FLAG_STOP: u64 = 1 << (VALUE_BITS + 4);
const FLAG_AFTER: u64 = 1 << (VALUE_BITS + 5);
/// Both at once say a third thing.
const UNREADABLE: u64 = FLAG_STOP | FLAG_AFTER;
const FLAG_COMMITTED: u64 = 1 << (VALUE_BITS + 6);
const FLAG_OVER: u64 = 1 << (VALUE_BITS + 7);
const FLAG_OWN_ANSWER: u64 = 1 << (VALUE_BITS + 8);
const FLAG_UNTRIED_BACKEND: u64 = 1 << (VALUE_BITS + 9);
const TAG_SHIFT: u32 = VALUE_BITS + 10;

const fn tag(attempt: u32) -> u64 {
    (attempt as u64) << TAG_SHIFT
}

impl Slots {
    #[inline]
    fn slot(&self, slot: u8) -> &AtomicU64 {
        &self.0[slot as usize % SLOTS]
    }

    /// Hands a slot to this attempt, empty: its own, or where an earlier attempt is still out in
    /// that, one that is over.
    #[inline]
    pub(crate) fn begin(&self, attempt: u32) -> Seat {
        let mut seat = Seat::first_choice(attempt);
        // Up to here every attempt is the first of this call in its slot, and what lies there is an
        // older call's.
        if attempt > SLOTS as u32 && !self.is_over(seat.slot) {
            seat.slot = self.free(seat.slot);
        }
        self.slot(seat.slot).store(tag(attempt), Ordering::Release);
        seat
    }

    fn is_over(&self, slot: u8) -> bool {
        self.slot(slot).load(Ordering::Acquire) & FLAG_OVER != 0
    }

    /// A slot whose attempt is over. There is one: fewer than [`SLOTS`] attempts are out when one
    /// more is sent.
    #[cold]
    fn free(&self, first: u8) -> u8 {
        (0..SLOTS as u8)
            .find(|slot| self.is_over(*slot))
            .unwrap_or(first)
    }

    /// Changes this attempt's word; false when the slot belongs to a later one.
    fn change(&self, seat: Seat, change: impl Fn(u64) -> u64) -> bool {
        self.slot(seat.slot)
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |word| {
                (word >> TAG_SHIFT == tag(seat.attempt) >> TAG_SHIFT).then(|| change(word))
            })
            .is_ok()
    }

    pub(crate) fn pushback(&self, seat: Seat, pushback: ServerPushback) {
        self.change(seat, |word| {
            let word = word & !(FLAG_STOP | FLAG_AFTER | VALUE_MASK);
            match pushback {
                ServerPushback::Stop => word | FLAG_STOP,
                ServerPushback::After(delay) => {
                    let micros = u64::try_from(delay.as_micros()).unwrap_or(u64::MAX);
                    word | FLAG_AFTER | micros.min(VALUE_MASK)
                }
            }
        });
    }

    pub(crate) fn pushback_unreadable(&self, seat: Seat) {
        self.change(seat, |word| (word & !VALUE_MASK) | UNREADABLE);
    }

    pub(crate) fn stage(&self, seat: Seat, stage: Stage) {
        let bits = (stage as u64 + 1) << VALUE_BITS;
        self.change(seat, |word| (word & !FLAG_STAGE) | bits);
    }

    pub(crate) fn forbid(&self, seat: Seat) {
        self.change(seat, |word| word | FLAG_FORBID);
    }

    pub(crate) fn own_answer(&self, seat: Seat) {
        self.change(seat, |word| word | FLAG_OWN_ANSWER);
    }

    pub(crate) fn untried_backend(&self, seat: Seat, is_left: bool) {
        let bits = if is_left { FLAG_UNTRIED_BACKEND } else { 0 };
        self.change(seat, |word| (word & !FLAG_UNTRIED_BACKEND) | bits);
    }

    /// False when the slot belongs to a later attempt, or this one is out no more.
    pub(crate) fn config_coming(&self, seat: Seat) -> bool {
        self.change(seat, |word| word | FLAG_CONFIG) && !self.is_over(seat.slot)
    }

    /// This attempt is out no more.
    pub(crate) fn over(&self, seat: Seat) {
        self.change(seat, |word| word | FLAG_OVER);
    }

    /// True if one of the first `sent` attempts is out and may have left the client.
    pub(crate) fn any_may_have_left(&self, sent: u32) -> bool {
        let dispatch = (Stage::Dispatch as u64 + 1) << VALUE_BITS;
        (0..SLOTS as u32)
            // The others were not handed out yet, and hold what an older call left.
            .filter(|slot| sent >= SLOTS as u32 || (1..=sent).contains(slot))
            .any(|slot| {
                let word = self.slot(slot as u8).load(Ordering::Acquire);
                word & FLAG_OVER == 0 && word & FLAG_STAGE != dispatch
            })
    }

    pub(crate) fn commit(&self, seat: Seat) {
        self.change(seat, |word| word | FLAG_COMMITTED);
    }

    /// True exactly once for an attempt that was committed: its final status may now be counted.
    pub(crate) fn conclude(&self, seat: Seat) -> bool {
        self.slot(seat.slot)
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |word| {
                let mine = word >> TAG_SHIFT == tag(seat.attempt) >> TAG_SHIFT;
                (mine && word & FLAG_COMMITTED != 0).then_some(word & !FLAG_COMMITTED)
            })
            .is_ok()
    }

    pub(crate) fn read(&self, seat: Seat) -> Findings {
        let word = self.slot(seat.slot).load(Ordering::Acquire);
        if word >> TAG_SHIFT != tag(seat.attempt) >> TAG_SHIFT {
            return Findings::default();
        }
        Findings {
            pushback: match word & UNREADABLE {
                FLAG_STOP => Some(ServerPushback::Stop),
                FLAG_AFTER => Some(ServerPushback::After(Duration::from_micros(
                    word & VALUE_MASK,
                ))),
                _ => None,
            },
            pushback_unreadable: word & UNREADABLE == UNREADABLE,
            stage: match (word & FLAG_STAGE) >> VALUE_BITS {
                1 => Some(Stage::Dispatch),
                2 => Some(Stage::InFlight),
                3 => Some(Stage::Response),
                _ => None,
            },
            own_answer: word & FLAG_OWN_ANSWER != 0,
            untried_backend: word & FLAG_UNTRIED_BACKEND != 0,
            forbidden: word & FLAG_FORBID != 0,
            config_coming: word & FLAG_CONFIG != 0,
            config_moved: false,
            cut_off: false,
            unread: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Copy, Debug)]
    enum Report {
        Pushback(ServerPushback),
        Unreadable,
        Stage(Stage),
        Forbid,
        OwnAnswer,
        UntriedBackend,
        Config,
        Over,
        Commit,
        Conclude,
    }

    fn report() -> impl Strategy<Value = Report> {
        let most = VALUE_MASK;
        prop_oneof![
            (0..=most)
                .prop_map(|us| Report::Pushback(ServerPushback::After(Duration::from_micros(us)))),
            prop::sample::select(vec![
                Report::Pushback(ServerPushback::After(Duration::from_micros(most))),
                Report::Pushback(ServerPushback::Stop),
                Report::Unreadable,
            ]),
            prop::sample::select(vec![
                Report::Stage(Stage::Dispatch),
                Report::Stage(Stage::InFlight),
                Report::Stage(Stage::Response),
            ]),
            prop::sample::select(vec![
                Report::Forbid,
                Report::OwnAnswer,
                Report::UntriedBackend,
                Report::Config,
            ]),
            prop::sample::select(vec![Report::Over, Report::Commit, Report::Conclude]),
        ]
    }

    proptest! {
        /// However often and in whatever order: against one plain value for each attempt.
        #[test]
        #[cfg_attr(miri, ignore = "slow: `.ci/miri` runs it")]
        fn a_report_changes_its_own_finding_of_its_own_attempt(
            reports in prop::collection::vec((0_usize..3, report()), 0..40),
        ) {
            let slots = Slots::default();
            let seats = [1, 2, 3].map(|attempt| slots.begin(attempt));
            let mut plain = [Findings::default(); 3];
            let (mut over, mut committed) = ([false; 3], [false; 3]);
            for (at, report) in reports {
                let (seat, found) = (seats[at], &mut plain[at]);
                match report {
                    Report::Pushback(word) => {
                        slots.pushback(seat, word);
                        (found.pushback, found.pushback_unreadable) = (Some(word), false);
                    }
                    Report::Unreadable => {
                        slots.pushback_unreadable(seat);
                        (found.pushback, found.pushback_unreadable) = (None, true);
                    }
                    Report::Stage(stage) => {
                        slots.stage(seat, stage);
                        found.stage = Some(stage);
                    }
                    Report::Forbid => {
                        slots.forbid(seat);
                        found.forbidden = true;
                    }
                    Report::OwnAnswer => {
                        slots.own_answer(seat);
                        found.own_answer = true;
                    }
                    Report::UntriedBackend => {
                        slots.untried_backend(seat, true);
                        found.untried_backend = true;
                    }
                    Report::Config => {
                        prop_assert_eq!(slots.config_coming(seat), !over[at]);
                        found.config_coming = true;
                    }
                    Report::Over => {
                        slots.over(seat);
                        over[at] = true;
                    }
                    Report::Commit => {
                        slots.commit(seat);
                        committed[at] = true;
                    }
                    Report::Conclude => {
                        prop_assert_eq!(slots.conclude(seat), std::mem::take(&mut committed[at]));
                    }
                }
                prop_assert_eq!(seats.map(|seat| slots.read(seat)), plain);
                let left = (0..3).any(|at| !over[at] && plain[at].stage != Some(Stage::Dispatch));
                prop_assert_eq!(slots.any_may_have_left(3), left);
            }
        }
    }

    #[test]
    fn only_attempts_that_were_sent_may_have_left() {
        for sent in 1..=20 {
            let slots = Slots::default();
            for attempt in 1..sent {
                slots.over(slots.begin(attempt));
            }
            let last = slots.begin(sent);
            assert!(slots.any_may_have_left(sent), "{sent}");
            slots.over(last);
            assert!(!slots.any_may_have_left(sent), "{sent}");
        }
    }

    #[test]
    fn what_is_reported_is_read_back() {
        let slots = Slots::default();
        let three = slots.begin(3);
        let after = ServerPushback::After(Duration::from_millis(250));
        slots.pushback(three, after);
        slots.stage(three, Stage::InFlight);
        assert!(slots.config_coming(three));
        let found = slots.read(three);
        assert_eq!(found.pushback, Some(after));
        assert_eq!(found.stage, Some(Stage::InFlight));
        assert!(found.config_coming && !found.forbidden);
        slots.pushback(three, ServerPushback::Stop);
        assert_eq!(slots.read(three).pushback, Some(ServerPushback::Stop));
    }

    #[test]
    fn a_late_writer_of_a_dead_attempt_is_ignored() {
        let slots = Slots::default();
        let one = slots.begin(1);
        slots.over(one);
        let later = slots.begin(1 + SLOTS as u32);
        assert_eq!(one.slot, later.slot);
        slots.pushback(one, ServerPushback::Stop);
        slots.forbid(one);
        slots.commit(later);
        assert!(!slots.config_coming(one) && !slots.conclude(one));
        assert_eq!(slots.read(later), Findings::default());
        assert_eq!(slots.read(one), Findings::default());
        assert!(slots.conclude(later));
    }

    #[test]
    fn an_attempt_that_is_still_out_keeps_its_slot_however_many_follow() {
        let slots = Slots::default();
        let one = slots.begin(1);
        slots.pushback(one, ServerPushback::Stop);
        for n in 2..200 {
            let seat = slots.begin(n);
            assert_eq!(slots.read(seat), Findings::default());
            slots.over(seat);
            assert!(slots.any_may_have_left(n), "{n}");
        }
        assert_eq!(slots.read(one).pushback, Some(ServerPushback::Stop));
        slots.commit(one);
        assert!(slots.conclude(one));
        slots.over(one);
        assert!(!slots.any_may_have_left(199));
    }

    #[test]
    fn attempts_that_are_out_together_do_not_mix() {
        let slots = Slots::default();
        let seats: Vec<_> = (1..=SLOTS as u32).map(|n| slots.begin(n)).collect();
        slots.forbid(seats[4]);
        let forbidden = seats.iter().filter(|seat| slots.read(**seat).forbidden);
        assert!(forbidden.eq([&seats[4]]));
    }

    #[test]
    fn a_huge_pushback_saturates() {
        let slots = Slots::default();
        let one = slots.begin(1);
        slots.pushback(one, ServerPushback::After(Duration::MAX));
        assert_eq!(
            slots.read(one).pushback,
            Some(ServerPushback::After(Duration::from_micros(VALUE_MASK)))
        );
    }

    #[test]
    fn the_latest_word_counts_also_one_that_cannot_be_read() {
        let slots = Slots::default();
        let one = slots.begin(1);
        for word in [
            ServerPushback::After(Duration::from_secs(1)),
            ServerPushback::Stop,
        ] {
            slots.pushback(one, word);
            slots.pushback_unreadable(one);
            let found = slots.read(one);
            assert_eq!((found.pushback, found.pushback_unreadable), (None, true));
            slots.pushback(one, word);
            let found = slots.read(one);
            assert_eq!(
                (found.pushback, found.pushback_unreadable),
                (Some(word), false)
            );
        }
    }

    #[test]
    fn a_committed_attempt_is_concluded_once() {
        let slots = Slots::default();
        let one = slots.begin(1);
        assert!(!slots.conclude(one), "not committed yet");
        slots.commit(one);
        assert!(slots.conclude(one));
        assert!(!slots.conclude(one));
    }
}
