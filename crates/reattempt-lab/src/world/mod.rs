//! The simulated world: clients, the network, servers, and the policies' own machines between them.
//!
//! Time is whole nanoseconds. What is kept is what is in flight.

mod arrivals;
mod attempts;
mod backend;
mod call;
mod caller;
mod ending;
mod events;
mod hedges;
pub(crate) mod past;
mod pick;
mod serving;
mod slab;
mod tried;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use reattempt::admission::Admission;
use reattempt::backoff::Randomness;
use reattempt::health::Pool;

use past::Past;

use crate::policy::{Clock, Own, Parsed, Routes, Simulated, Stack, Table, Way};
use crate::random;
use crate::report::Counts;
use crate::scenario::Scenario;
use arrivals::Arrivals;
use backend::Server;
use call::{Attempt, Call};
use events::{Events, What};
use slab::Slab;

/// The most calls, and the most attempts, that are simulated at one time: a few gigabytes.
pub(crate) const MOST_IN_FLIGHT: usize = 10_000_000;

/// Why a run has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stopped {
    /// It needs more events than it may.
    Events,
    /// There are more than [`MOST_IN_FLIGHT`].
    InFlight,
    /// The policy could not be read again; it was read before.
    Policy,
}

/// One tier: its servers, and the processes that call them.
#[derive(Debug)]
struct Tier<'a> {
    servers: Vec<Server<'a>>,
    /// By kind of call.
    tables: Vec<Table>,
    text: &'a Stack,
    /// Made when they make their first call.
    processes: Vec<Option<Box<Process>>>,
}

/// A client, or a server that calls the next tier.
#[derive(Debug)]
struct Process {
    /// By kind of call.
    own: Vec<Own>,
    admission: Option<Arc<Admission>>,
    /// The health of the backends that it calls.
    pool: Option<Pool>,
    turn: u32,
}

/// One run of one policy.
#[derive(Debug)]
pub(crate) struct World<'a> {
    scenario: &'a Scenario,
    now: u64,
    events: Events,
    arrivals: Arrivals<'a>,
    calls: Slab<Call>,
    attempts: Slab<Attempt>,
    tiers: Vec<Tier<'a>>,
    /// What recorded attempts came to, instead of servers.
    past: Option<&'a Past>,
    simulated: Simulated,
    /// Half a round trip there, and the other half back.
    there: u64,
    back: u64,
    counts: Counts,
}

impl<'a> World<'a> {
    /// The world of a scenario under this policy.
    pub(crate) fn new(
        scenario: &'a Scenario,
        tested: &'a Stack,
        past: Option<&'a Past>,
    ) -> Option<Self> {
        let generator = Mutex::new(random::stream(scenario.seed, 2));
        let randomness = Randomness::drawn(move || {
            let mut generator = generator.lock().unwrap_or_else(PoisonError::into_inner);
            random::roll(&mut generator)
        });
        let clock = Clock::new();
        let simulated = Simulated { randomness, clock };
        let mut tiers = Vec::with_capacity(scenario.tiers.len());
        for (at, tier) in scenario.tiers.iter().enumerate() {
            let text = scenario.policy_of(at, tested);
            let outer = at
                .checked_sub(1)
                .map(|outer| scenario.policy_of(outer, tested).protocol());
            let (parsed, protocol) = (text.parse(&simulated).ok()?, text.protocol());
            let (routes, kinds) = (Routes::of(&parsed), scenario.calls.iter());
            let tables = kinds.map(|kind| {
                let (answers, overload) = (&scenario.answers, scenario.overload);
                Table::new(answers, overload, &routes, protocol, kind, outer)
            });
            tiers.push(Tier {
                servers: tier.backends.iter().map(Server::new).collect(),
                tables: tables.collect::<Option<_>>()?,
                text,
                processes: (0..scenario.callers(at)).map(|_| None).collect(),
            });
        }
        let mut world = Self {
            scenario,
            now: 0,
            events: Events::new(),
            arrivals: Arrivals::new(scenario, past),
            calls: Slab::new(),
            attempts: Slab::new(),
            tiers,
            past,
            simulated,
            there: scenario.rtt / 2,
            back: scenario.rtt - scenario.rtt / 2,
            counts: Counts::new(scenario),
        };
        world.plan();
        Some(world)
    }

    /// Lanes for the delays that are known, and the changes of capacity.
    fn plan(&mut self) {
        self.events.lane(self.there);
        self.events.lane(self.back);
        for tier in &self.tiers {
            for table in &tier.tables {
                for delay in [table.timeout, table.attempt_timeout] {
                    if delay != u64::MAX {
                        self.events.lane(delay);
                    }
                }
            }
        }
        for (at, tier) in self.tiers.iter().enumerate() {
            for (backend, server) in tier.servers.iter().enumerate() {
                for change in server.changes() {
                    self.events
                        .after(0, change, What::Capacity, backend as u32, at as u32);
                }
            }
        }
    }

    /// Runs until nothing happens any more. `left` is how many events it may take, and then how
    /// many it did not.
    pub(crate) fn run(mut self, left: &mut u64) -> Result<Counts, Stopped> {
        let mut events = 0_u64;
        loop {
            let next = self.events.next();
            let arrives = self.arrivals.at();
            if let Some(at) = arrives.filter(|at| next.is_none_or(|(next, _)| *at <= next)) {
                self.is_now(at);
                self.arrive().ok_or(Stopped::Policy)?;
            } else if let Some(event) = next.and_then(|(_, place)| self.events.pop(place)) {
                self.is_now(event.at);
                self.happen(&event).ok_or(Stopped::Policy)?;
            } else {
                break;
            }
            events += 1;
            *left = left.checked_sub(1).ok_or(Stopped::Events)?;
            if events % 4096 == 0 {
                self.tidy();
                if self.calls.len().max(self.attempts.len()) > MOST_IN_FLIGHT {
                    return Err(Stopped::InFlight);
                }
            }
        }
        for call in self.calls.iter() {
            if call.tier == 0 && call.counted {
                self.counts.never(call.arrived);
            }
        }
        Ok(self.counts)
    }

    fn tidy(&mut self) {
        let (calls, attempts) = (&self.calls, &self.attempts);
        self.events.tidy(|event| match event.what() {
            What::Deadline | What::Leave | What::Hedge | What::Resume => {
                !calls.is_current(event.id, event.generation)
            }
            What::AttemptTimeout => !attempts.is_current(event.id, event.generation),
            _ => false,
        });
    }

    /// `None` only if a policy could not be read again.
    fn happen(&mut self, event: &events::Event) -> Option<()> {
        let (id, generation) = (event.id, event.generation);
        match event.what() {
            What::Arrive => self.arrived(id),
            What::Served => self.served(id)?,
            What::Settle => self.settle(id),
            What::Cancel => self.stopped(id),
            What::Capacity => self.serve_next(generation as usize, id),
            What::Resume if self.calls.is_current(id, generation) => self.resume(id),
            What::Hedge if self.calls.is_current(id, generation) => self.hedge(id, event.at),
            What::AttemptTimeout if self.attempts.is_current(id, generation) => self.timed_out(id),
            What::Deadline if self.calls.is_current(id, generation) => self.expired(id),
            What::Leave if self.calls.is_current(id, generation) => self.leaves(id),
            _ => {}
        }
        Some(())
    }

    fn is_now(&mut self, at: u64) {
        self.now = at;
        self.simulated.clock.set(at);
    }

    /// The machines' clock.
    fn instant(&self, at: u64) -> Instant {
        self.simulated.clock.at(at)
    }

    /// Nanoseconds of an instant of the machines.
    fn nanos(&self, at: Instant) -> u64 {
        let since = at
            .saturating_duration_since(self.simulated.clock.base)
            .as_nanos();
        u64::try_from(since).unwrap_or(u64::MAX)
    }

    /// The process that calls this tier, with policies of its own.
    fn process(&mut self, tier: usize, process: u32) -> Option<()> {
        let now = self.instant(self.now);
        let tier = &mut self.tiers[tier];
        let place = &mut tier.processes[process as usize];
        if place.is_none() {
            let parsed: Parsed = tier.text.parse(&self.simulated).ok()?;
            let (routes, kinds) = (Routes::of(&parsed), self.scenario.calls.iter());
            let own = kinds.map(|kind| {
                let own = Own::new(&routes, kind, &self.simulated);
                let way = tier.text.hedge.as_ref().map(|hedge| (hedge.0)());
                let way = way.map(|hedge| Way::Hedge(Arc::new(hedge)));
                Own {
                    way: way.unwrap_or(own.way),
                    ..own
                }
            });
            let mut own: Vec<Own> = own.collect();
            tier.text.govern(&mut own, &self.simulated);
            for own in &own {
                if let Way::Hedge(policy) = &own.way {
                    if let Some(delay) = policy.delay().fixed() {
                        self.events
                            .lane(u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX));
                    }
                }
            }
            // As many clients as there may be, each begins with another backend.
            let turn = process % (tier.servers.len().max(1) as u32);
            *place = Some(Box::new(Process {
                own,
                admission: tier.text.admission(&parsed, &self.simulated),
                pool: tier.text.pool(tier.servers.len(), &self.simulated, now),
                turn,
            }));
        }
        Some(())
    }
}
