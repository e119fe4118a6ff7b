//! What happens next: a calendar of integer nanoseconds.
//!
//! Whatever follows after a constant delay (half a round trip, a deadline, a hedge delay, a step of
//! a back-off without jitter) is due in the order in which it was planned: such events are in
//! lanes, which are plain queues. Others are in a heap. At one instant answers come before timers,
//! and hedges before deadlines, as in the layers' futures; else the order in which they were
//! planned decides.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, VecDeque};

/// What an event does; the declaration order is the order at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum What {
    /// An attempt arrives at its backend.
    Arrive,
    /// A worker is done with an attempt.
    Served,
    /// An outcome arrives at the caller.
    Settle,
    /// A cancellation arrives at the backend.
    Cancel,
    /// The number of workers of a backend changes.
    Capacity,
    /// The wait before a retry is over.
    Resume,
    /// A hedge is due.
    Hedge,
    /// The timeout of an attempt passes.
    AttemptTimeout,
    /// The deadline of a call passes.
    Deadline,
    /// The caller of a call loses its patience.
    Leave,
}

const ALL: [What; 10] = [
    What::Arrive,
    What::Served,
    What::Settle,
    What::Cancel,
    What::Capacity,
    What::Resume,
    What::Hedge,
    What::AttemptTimeout,
    What::Deadline,
    What::Leave,
];

/// The bits of a sequence number; four more say what happens, and two come first.
const KIND_BITS: u32 = 4;
const CLASS_SHIFT: u32 = 62;

impl What {
    const fn class(self) -> u64 {
        match self {
            Self::Hedge | Self::AttemptTimeout => 1,
            Self::Deadline | Self::Leave => 2,
            _ => 0,
        }
    }
}

/// One event: when, its order at that instant, whom it is about, and which of those that had the
/// same place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event {
    pub(super) at: u64,
    order: u64,
    pub(super) id: u32,
    pub(super) generation: u32,
}

impl Event {
    pub(super) const fn what(&self) -> What {
        ALL[(self.order & ((1 << KIND_BITS) - 1)) as usize]
    }

    /// When, and then its order, which no other event has: one comparison without a branch.
    const fn key(&self) -> u128 {
        (self.at as u128) << 64 | self.order as u128
    }

    const NEVER: u128 = u128::MAX;
}

impl PartialEq for Event {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Event {}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Event {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

/// Events that follow after one delay.
#[derive(Debug)]
struct Lane {
    delay: u64,
    events: VecDeque<Event>,
    /// The length from which on it is worth to look for events that are void.
    crowded: usize,
}

const MOST_LANES: usize = 16;
const SEEN: usize = 16;
const CROWDED: usize = 4096;

/// The calendar.
#[derive(Debug, Default)]
pub(super) struct Events {
    heap: BinaryHeap<Reverse<Event>>,
    lanes: Vec<Lane>,
    /// Delays that went to the heap, each at a place that follows from it. One that is there
    /// already when it comes again is a step of a back-off without jitter.
    seen: [u64; SEEN],
    /// The first event of each lane, and of the heap at last.
    heads: [u128; MOST_LANES],
    head_of_heap: u128,
    /// As of a lane.
    crowded: usize,
    planned: u64,
}

impl Events {
    pub(super) fn new() -> Self {
        Self {
            heads: [Event::NEVER; MOST_LANES],
            head_of_heap: Event::NEVER,
            // Of no delay that is planned.
            seen: [u64::MAX; SEEN],
            ..Self::default()
        }
    }

    /// Events that follow after this delay get a lane, as long as there are lanes.
    pub(super) fn lane(&mut self, delay: u64) {
        if self.lanes.len() < MOST_LANES && self.find(delay).is_none() {
            self.lanes.push(Lane {
                delay,
                events: VecDeque::new(),
                crowded: CROWDED,
            });
        }
    }

    fn find(&self, delay: u64) -> Option<usize> {
        self.lanes.iter().position(|lane| lane.delay == delay)
    }

    /// Plans an event after this delay.
    pub(super) fn after(&mut self, now: u64, delay: u64, what: What, id: u32, generation: u32) {
        let at = now.saturating_add(delay);
        self.planned += 1;
        let order = what.class() << CLASS_SHIFT | self.planned << KIND_BITS | what as u64;
        let event = Event {
            at,
            order,
            id,
            generation,
        };
        // Within a lane the class has to be the same: it comes before the sequence.
        match self.find(delay) {
            Some(lane) if self.fits(lane, &event) => {
                let events = &mut self.lanes[lane].events;
                if events.is_empty() {
                    self.heads[lane] = event.key();
                }
                events.push_back(event);
            }
            found => {
                self.heap.push(Reverse(event));
                self.head_of_heap = self.head_of_heap.min(event.key());
                if found.is_none() && self.lanes.len() < MOST_LANES {
                    self.see(delay);
                }
            }
        }
    }

    /// A delay that comes again gets a lane.
    fn see(&mut self, delay: u64) {
        let mixed = delay.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let place = (mixed >> 32) as usize % SEEN;
        if self.seen[place] == delay {
            self.lane(delay);
        }
        self.seen[place] = delay;
    }

    fn fits(&self, lane: usize, event: &Event) -> bool {
        let last = self.lanes[lane].events.back();
        last.is_none_or(|last| last < event)
    }

    /// When the next event is, and where [`Events::pop`] finds it.
    pub(super) fn next(&self) -> Option<(u64, usize)> {
        let mut first = (self.head_of_heap, MOST_LANES);
        for (lane, head) in self.heads[..self.lanes.len()].iter().enumerate() {
            if *head < first.0 {
                first = (*head, lane);
            }
        }
        (first.0 != Event::NEVER).then_some(((first.0 >> 64) as u64, first.1))
    }

    pub(super) fn pop(&mut self, place: usize) -> Option<Event> {
        if place == MOST_LANES {
            let Reverse(event) = self.heap.pop()?;
            let next = self.heap.peek();
            self.head_of_heap = next.map_or(Event::NEVER, |Reverse(next)| next.key());
            return Some(event);
        }
        let events = &mut self.lanes[place].events;
        let event = events.pop_front()?;
        self.heads[place] = events.front().map_or(Event::NEVER, Event::key);
        Some(event)
    }

    /// Drops void events where there are many, so that what is kept is bounded by what is in
    /// flight: a deadline of a minute is void as soon as its call has ended.
    pub(super) fn tidy(&mut self, is_void: impl Fn(&Event) -> bool) {
        for (at, lane) in self.lanes.iter_mut().enumerate() {
            if lane.events.len() > lane.crowded {
                lane.events.retain(|event| !is_void(event));
                lane.crowded = CROWDED.max(lane.events.len() * 2);
                let next = lane.events.front();
                self.heads[at] = next.map_or(Event::NEVER, Event::key);
            }
        }
        if self.heap.len() > self.crowded.max(CROWDED) {
            self.heap.retain(|Reverse(event)| !is_void(event));
            self.crowded = self.heap.len() * 2;
            let next = self.heap.peek();
            self.head_of_heap = next.map_or(Event::NEVER, |Reverse(next)| next.key());
        }
    }
}
