//! What inner layers and transports report of one attempt.

#[cfg(all(test, reattempt_loom))]
mod models;

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use crate::sync::{AtomicU64, Ordering};
use crate::{ServerPushback, Stage};

/// Resolves after a newer configuration was looked up: `true` if it moved the call's target, so
/// that the retry is sent at once; `false` leaves the delay to the back-off.
pub type ConfigWaiter = Pin<Box<dyn Future<Output = bool> + Send + 'static>>;

/// What one attempt reported, as the recovery layer reads it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AttemptReport {
    /// The server-provided pushback.
    pub pushback: Option<ServerPushback>,
    /// The server's pushback could not be parsed and counts as none.
    pub pushback_unreadable: bool,
    /// How far the attempt came, if a layer knows better than the error says. The classifier's
    /// [`Stage::Response`] is final: this stage overrides it only for an [own
    /// answer](Self::own_answer).
    pub stage: Option<Stage>,
    /// A local layer produced the response (an attempt's deadline, load shedding).
    pub own_answer: bool,
    /// When this attempt was sent, there was a backend that the call had not tried.
    pub untried_backend: bool,
    /// A layer forbids further attempts (nested recovery, a hop that gave up).
    pub forbidden: bool,
    /// The server may have carried out the request, whatever the failure says.
    pub in_doubt: bool,
    /// A circuit breaker refused the attempt: it was never sent.
    pub circuit_open: bool,
    /// A newer configuration was requested; a waiter may have been stored.
    pub config_coming: bool,
    /// A layer below [follows](crate::AttemptReporter::follow) the response, and reports how a
    /// committed one ends. Kept only on a call with a throttle.
    pub followed: bool,
}

/// The maximum number of attempts of one call that can be in flight and still report.
pub(crate) const SLOTS: usize = 16;

/// An attempt's number and the slot assigned to it.
///
/// The slot does not follow from the number: transparent and forced retries continue past [`SLOTS`]
/// while an early attempt may still be in flight, and none may take a slot in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AttemptKey {
    pub(crate) attempt: u32,
    pub(crate) slot: u8,
}

impl AttemptKey {
    /// The slot that is tried first. For the first [`SLOTS`] attempts it is always free, since no
    /// earlier attempt used it.
    #[inline]
    pub(crate) const fn first_choice(attempt: u32) -> Self {
        Self {
            attempt,
            slot: (attempt % SLOTS as u32) as u8,
        }
    }
}

/// One word per attempt: 10 bits of attempt number, 13 of flags, 41 of pushback in microseconds.
///
/// A report names its attempt; if a later attempt owns the slot, the report is ignored.
#[derive(Debug, Default)]
pub(crate) struct AttemptSlots([AtomicU64; SLOTS]);

/// Twenty-five days: as far as gRPC's pushback of 31 bits of milliseconds goes.
const VALUE_BITS: u32 = 41;
const VALUE_MASK: u64 = (1 << VALUE_BITS) - 1;
const FLAG_STAGE: u64 = 0b11 << VALUE_BITS;
const FLAG_FORBID: u64 = 1 << (VALUE_BITS + 2);
const FLAG_CONFIG: u64 = 1 << (VALUE_BITS + 3);
const FLAG_STOP: u64 = 1 << (VALUE_BITS + 4);
const FLAG_AFTER: u64 = 1 << (VALUE_BITS + 5);
/// Both flags together encode a third state.
const UNREADABLE: u64 = FLAG_STOP | FLAG_AFTER;
const FLAG_COMMITTED: u64 = 1 << (VALUE_BITS + 6);
const FLAG_OVER: u64 = 1 << (VALUE_BITS + 7);
const FLAG_OWN_ANSWER: u64 = 1 << (VALUE_BITS + 8);
const FLAG_UNTRIED_BACKEND: u64 = 1 << (VALUE_BITS + 9);
const FLAG_FOLLOWED: u64 = 1 << (VALUE_BITS + 10);
const FLAG_IN_DOUBT: u64 = 1 << (VALUE_BITS + 11);
const FLAG_CIRCUIT_OPEN: u64 = 1 << (VALUE_BITS + 12);
const TAG_SHIFT: u32 = VALUE_BITS + 13;

const fn tag(attempt: u32) -> u64 {
    (attempt as u64) << TAG_SHIFT
}

impl AttemptSlots {
    #[inline]
    fn slot(&self, slot: u8) -> &AtomicU64 {
        &self.0[slot as usize % SLOTS]
    }

    /// Assigns an empty slot to this attempt: its first choice or, if an earlier attempt is still
    /// in flight there, the slot of an attempt that is over.
    #[inline]
    pub(crate) fn begin(&self, attempt: u32) -> AttemptKey {
        let mut seat = AttemptKey::first_choice(attempt);
        // Up to this number every attempt is the first of this call in its slot, whose content is
        // left over from an earlier call.
        if attempt > SLOTS as u32 && !self.is_over(seat.slot) {
            seat.slot = self.free(seat.slot);
        }
        self.slot(seat.slot).store(tag(attempt), Ordering::Release);
        seat
    }

    fn is_over(&self, slot: u8) -> bool {
        self.slot(slot).load(Ordering::Acquire) & FLAG_OVER != 0
    }

    /// The slot of an attempt that is over. One always exists: fewer than [`SLOTS`] attempts are in
    /// flight when a further one is sent.
    #[cold]
    fn free(&self, first: u8) -> u8 {
        (0..SLOTS as u8)
            .find(|slot| self.is_over(*slot))
            .unwrap_or(first)
    }

    /// Changes the word of this attempt; false if the slot belongs to a later attempt.
    fn change(&self, seat: AttemptKey, change: impl Fn(u64) -> u64) -> bool {
        self.slot(seat.slot)
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |word| {
                (word >> TAG_SHIFT == tag(seat.attempt) >> TAG_SHIFT).then(|| change(word))
            })
            .is_ok()
    }

    pub(crate) fn pushback(&self, seat: AttemptKey, pushback: ServerPushback) {
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

    pub(crate) fn pushback_unreadable(&self, seat: AttemptKey) {
        self.change(seat, |word| (word & !VALUE_MASK) | UNREADABLE);
    }

    pub(crate) fn stage(&self, seat: AttemptKey, stage: Stage) {
        let bits = (stage as u64 + 1) << VALUE_BITS;
        self.change(seat, |word| (word & !FLAG_STAGE) | bits);
    }

    pub(crate) fn forbid(&self, seat: AttemptKey) {
        self.change(seat, |word| word | FLAG_FORBID);
    }

    pub(crate) fn in_doubt(&self, seat: AttemptKey) {
        self.change(seat, |word| word | FLAG_IN_DOUBT);
    }

    pub(crate) fn circuit_open(&self, seat: AttemptKey, is_open: bool) {
        let bits = if is_open { FLAG_CIRCUIT_OPEN } else { 0 };
        self.change(seat, |word| (word & !FLAG_CIRCUIT_OPEN) | bits);
    }

    pub(crate) fn own_answer(&self, seat: AttemptKey) {
        self.change(seat, |word| word | FLAG_OWN_ANSWER);
    }

    pub(crate) fn untried_backend(&self, seat: AttemptKey, is_left: bool) {
        let bits = if is_left { FLAG_UNTRIED_BACKEND } else { 0 };
        self.change(seat, |word| (word & !FLAG_UNTRIED_BACKEND) | bits);
    }

    pub(crate) fn followed(&self, seat: AttemptKey) {
        self.change(seat, |word| word | FLAG_FOLLOWED);
    }

    /// False if the slot belongs to a later attempt or this attempt is over.
    pub(crate) fn config_coming(&self, seat: AttemptKey) -> bool {
        self.change(seat, |word| word | FLAG_CONFIG) && !self.is_over(seat.slot)
    }

    /// Marks this attempt as over.
    pub(crate) fn over(&self, seat: AttemptKey) {
        self.change(seat, |word| word | FLAG_OVER);
    }

    /// True if one of the first `sent` attempts is in flight and may have left the client.
    pub(crate) fn any_may_have_left(&self, sent: u32) -> bool {
        self.any_but(None, sent)
    }

    /// The same of those other than this one.
    #[cfg(feature = "tokio")]
    pub(crate) fn others_may_have_left(&self, seat: AttemptKey, sent: u32) -> bool {
        self.any_but(Some(u32::from(seat.slot)), sent)
    }

    fn any_but(&self, own: Option<u32>, sent: u32) -> bool {
        let dispatch = (Stage::Dispatch as u64 + 1) << VALUE_BITS;
        (0..SLOTS as u32)
            // The other slots are not assigned yet and hold data of an earlier call.
            .filter(|slot| sent >= SLOTS as u32 || (1..=sent).contains(slot))
            .filter(|slot| own != Some(*slot))
            .any(|slot| {
                let word = self.slot(slot as u8).load(Ordering::Acquire);
                word & FLAG_OVER == 0 && word & FLAG_STAGE != dispatch
            })
    }

    pub(crate) fn commit(&self, seat: AttemptKey) {
        self.change(seat, |word| word | FLAG_COMMITTED);
    }

    /// True exactly once for a committed attempt: its final status may now be counted.
    pub(crate) fn conclude(&self, seat: AttemptKey) -> bool {
        self.slot(seat.slot)
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |word| {
                let mine = word >> TAG_SHIFT == tag(seat.attempt) >> TAG_SHIFT;
                (mine && word & FLAG_COMMITTED != 0).then_some(word & !FLAG_COMMITTED)
            })
            .is_ok()
    }

    pub(crate) fn read(&self, seat: AttemptKey) -> AttemptReport {
        let word = self.slot(seat.slot).load(Ordering::Acquire);
        if word >> TAG_SHIFT != tag(seat.attempt) >> TAG_SHIFT {
            return AttemptReport::default();
        }
        AttemptReport {
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
            in_doubt: word & FLAG_IN_DOUBT != 0,
            circuit_open: word & FLAG_CIRCUIT_OPEN != 0,
            config_coming: word & FLAG_CONFIG != 0,
            followed: word & FLAG_FOLLOWED != 0,
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
        InDoubt,
        CircuitOpen(bool),
        OwnAnswer,
        UntriedBackend,
        Followed,
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
                Report::InDoubt,
                Report::CircuitOpen(true),
                Report::CircuitOpen(false),
                Report::OwnAnswer,
                Report::UntriedBackend,
                Report::Followed,
                Report::Config,
            ]),
            prop::sample::select(vec![Report::Over, Report::Commit, Report::Conclude]),
        ]
    }

    proptest! {
        /// Compares any sequence of reports with one plain value per attempt.
        #[test]
        #[cfg_attr(miri, ignore = "slow: `.ci/miri` runs it")]
        fn a_report_changes_its_own_finding_of_its_own_attempt(
            reports in prop::collection::vec((0_usize..3, report()), 0..40),
        ) {
            let slots = AttemptSlots::default();
            let seats = [1, 2, 3].map(|attempt| slots.begin(attempt));
            let mut plain = [AttemptReport::default(); 3];
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
                    Report::InDoubt => {
                        slots.in_doubt(seat);
                        found.in_doubt = true;
                    }
                    Report::CircuitOpen(is_open) => {
                        slots.circuit_open(seat, is_open);
                        found.circuit_open = is_open;
                    }
                    Report::OwnAnswer => {
                        slots.own_answer(seat);
                        found.own_answer = true;
                    }
                    Report::UntriedBackend => {
                        slots.untried_backend(seat, true);
                        found.untried_backend = true;
                    }
                    Report::Followed => {
                        slots.followed(seat);
                        found.followed = true;
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
            let slots = AttemptSlots::default();
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
    fn reports_are_read_back() {
        let slots = AttemptSlots::default();
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
        let slots = AttemptSlots::default();
        let one = slots.begin(1);
        slots.over(one);
        let later = slots.begin(1 + SLOTS as u32);
        assert_eq!(one.slot, later.slot);
        slots.pushback(one, ServerPushback::Stop);
        slots.forbid(one);
        slots.commit(later);
        assert!(!slots.config_coming(one) && !slots.conclude(one));
        assert_eq!(slots.read(later), AttemptReport::default());
        assert_eq!(slots.read(one), AttemptReport::default());
        assert!(slots.conclude(later));
    }

    #[test]
    fn an_attempt_in_flight_keeps_its_slot_while_others_follow() {
        let slots = AttemptSlots::default();
        let one = slots.begin(1);
        slots.pushback(one, ServerPushback::Stop);
        for n in 2..200 {
            let seat = slots.begin(n);
            assert_eq!(slots.read(seat), AttemptReport::default());
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
    fn the_slot_of_an_attempt_that_is_over_is_taken_and_no_other() {
        let slots = AttemptSlots::default();
        let seats: Vec<_> = (1..=SLOTS as u32).map(|n| slots.begin(n)).collect();
        seats.iter().for_each(|seat| slots.forbid(*seat));
        slots.over(seats[7]);
        let next = slots.begin(1 + SLOTS as u32);
        assert_eq!(next.slot, seats[7].slot);
        let kept = seats.iter().filter(|seat| slots.read(**seat).forbidden);
        assert_eq!(kept.count(), SLOTS - 1);
    }

    #[test]
    fn concurrent_attempts_do_not_mix() {
        let slots = AttemptSlots::default();
        let seats: Vec<_> = (1..=SLOTS as u32).map(|n| slots.begin(n)).collect();
        slots.forbid(seats[4]);
        let forbidden = seats.iter().filter(|seat| slots.read(**seat).forbidden);
        assert!(forbidden.eq([&seats[4]]));
    }

    #[test]
    fn a_huge_pushback_saturates() {
        let slots = AttemptSlots::default();
        let one = slots.begin(1);
        slots.pushback(one, ServerPushback::After(Duration::MAX));
        assert_eq!(
            slots.read(one).pushback,
            Some(ServerPushback::After(Duration::from_micros(VALUE_MASK)))
        );
    }

    #[test]
    fn the_latest_pushback_counts_even_if_unreadable() {
        let slots = AttemptSlots::default();
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
        let slots = AttemptSlots::default();
        let one = slots.begin(1);
        assert!(!slots.conclude(one), "not committed yet");
        slots.commit(one);
        assert!(slots.conclude(one));
        assert!(!slots.conclude(one));
    }
}
