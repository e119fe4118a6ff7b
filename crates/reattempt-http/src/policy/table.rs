//! The table, and how it is built from the document.

use std::collections::{HashMap, HashSet, hash_map};
use std::sync::Arc;

use reattempt::admission::AdmissionSettings;
use reattempt::config::{self, Json, Members, Place};
use reattempt::health::HealthPolicy;
use reattempt::throttle::HedgeBudget;
use reattempt::{HedgeDelay, Recovery, RoutePolicy};

use super::entry::{Entry, warn_of_null};
use super::hedge_timing::HedgeTiming;
use super::index::Index;
use super::matching::Matching;
use super::recovery::{self, Budget};
use super::shared::{Names, Shared};
use super::throttles::{Carried, Counted, RouteBudget, Throttle, quota};
use super::{HttpPolicies, Options, members};
use crate::aws::AwsQuota;

/// What all clones of the policies share.
#[derive(Default)]
pub(super) struct Table {
    pub(super) routes: Vec<(Matching, Arc<RoutePolicy>)>,
    pub(super) index: Index,
    pub(super) default: Option<Arc<RoutePolicy>>,
    pub(super) throttles: HashMap<String, Counted>,
    pub(super) budgets: HashMap<String, Arc<HedgeBudget>>,
    /// By the names of their routes.
    pub(super) route_budgets: HashMap<String, RouteBudget>,
    /// The names of routes without one of their own that have a state, by their conditions.
    pub(super) unnamed: HashMap<String, String>,
    /// Those that learn, by the names of their routes.
    pub(super) own_delays: HashMap<String, (HedgeTiming, Arc<dyn HedgeDelay>)>,
    /// By the names of their routes.
    pub(super) own_quotas: HashMap<String, Arc<AwsQuota>>,
    pub(super) options: Options,
}

/// A document without faults, parsed but not yet in a table.
pub(super) struct Document {
    entries: Vec<Entry>,
    default: Option<Entry>,
    throttles: Vec<(String, Throttle)>,
    /// In thousandths.
    budgets: Vec<(String, u32)>,
    admission: Option<AdmissionSettings>,
    health: Option<HealthPolicy>,
}

impl Document {
    pub(super) fn read(place: &mut Place<'_>, json: Json<'_>, options: &Options) -> Option<Self> {
        let members = Members::of(place, json, members::TABLE)?;
        let default = "a request without a route is retried as the layer is set; \
                       write {} to send it once";
        let then = [("routes", "no request has a route"), ("default", default)];
        warn_of_null(place, &members, &then);
        let mut named = |name| members.optional(place, name, Members::any);
        let (throttles, budgets) = (named("throttles"), named("budgets"));
        let mut shared = Shared {
            options,
            throttles: Names::of(throttles.as_ref()),
            budgets: Names::of(budgets.as_ref()),
            names: HashSet::new(),
        };
        let entries = members.optional(place, "routes", |place, json| {
            routes(place, json, &mut shared)
        });
        let default = members.optional(place, "default", |place, json| {
            Entry::read_default(place, json, &mut shared)
        });
        let throttles = throttles.as_ref().and_then(|named| {
            let place = &mut place.field("throttles");
            read_all(place, named, &shared.throttles, Throttle::read)
        });
        let budgets = budgets.as_ref().and_then(|named| {
            let place = &mut place.field("budgets");
            read_all(place, named, &shared.budgets, budget)
        });
        let admission = members.optional(place, "admission", AdmissionSettings::read);
        let health = members.optional(place, "health", HealthPolicy::read);
        Some(Self {
            admission,
            health,
            entries: entries.unwrap_or_default(),
            default,
            throttles: throttles.unwrap_or_default(),
            budgets: budgets.unwrap_or_default(),
        })
    }

    /// The table that replaces `old`, and what the two share.
    pub(super) fn into_policies(self, old: &HttpPolicies) -> (HttpPolicies, Carried) {
        let options = &old.table.options;
        let mut carried = Carried::with_clock(options.clock.clone());
        let admission = carried.admission(self.admission, &old.admission);
        let health = self.health.unwrap_or_default();
        let health = health.randomness(options.randomness.clone());
        let health = carried.health(health, &old.health);
        let old = &*old.table;
        let mut table = Table {
            options: options.clone(),
            ..Table::default()
        };
        for (name, throttle) in self.throttles {
            let counted = carried.throttle(throttle, old.throttles.get(&name));
            table
                .throttles
                .extend(counted.map(|counted| (name, counted)));
        }
        for (name, share) in self.budgets {
            let budget = carried.budget(share, old.budgets.get(&name));
            table.budgets.extend(budget.map(|budget| (name, budget)));
        }
        for entry in self.entries {
            let matching = entry.matching.clone();
            let policy = policy(entry, old, &mut table, &mut carried);
            table.routes.push((matching, policy));
        }
        table.index = Index::new(table.routes.iter().map(|(matching, _)| matching));
        let default = self.default;
        table.default = default.map(|entry| policy(entry, old, &mut table, &mut carried));
        let policies = HttpPolicies {
            table: Arc::new(table),
            admission,
            health,
        };
        (policies, carried)
    }
}

fn routes(place: &mut Place<'_>, json: Json<'_>, shared: &mut Shared<'_>) -> Option<Vec<Entry>> {
    let mut at = 0;
    let mut for_all: Option<usize> = None;
    config::array(place, json, "routes", |place, json| {
        if let Some(earlier) = for_all {
            place.warn(format!(
                "never matches, because routes[{earlier}] matches every request"
            ));
        }
        let entry = Entry::read_route(place, json, at, shared);
        if entry.as_ref().is_some_and(|entry| entry.matching.is_any()) {
            for_all.get_or_insert(at);
        }
        at += 1;
        entry
    })
}

fn policy(entry: Entry, old: &Table, table: &mut Table, carried: &mut Carried) -> Arc<RoutePolicy> {
    let was = was(&entry, old, table);
    let mut policy = RoutePolicy::new(entry.name.clone()).with_data(entry.http);
    let mut counted = entry
        .throttle
        .and_then(|name| table.throttles.get(&name))
        .cloned();
    let mut budget = None;
    policy = match (entry.retry, entry.hedge) {
        (Some(retry), _) => {
            if let (Some(version), None) = (retry.preset, &counted) {
                let old = was.as_ref().and_then(|was| old.own_quotas.get(was));
                let quota = quota(version, old);
                table.own_quotas.insert(entry.name, Arc::clone(&quota));
                counted = Some(Counted::Aws(quota));
            }
            policy.with_recovery(Recovery::Retry(retry.strategy))
        }
        (None, Some(hedge)) => {
            // What a delay has learned stays as long as its text does.
            let kept = was
                .as_ref()
                .and_then(|was| old_delay(old, was, hedge.delay));
            let delay = kept.or_else(|| hedge.delay.make());
            if let (Some(delay), true) = (&delay, hedge.delay.learns()) {
                let learns = (hedge.delay, Arc::clone(delay));
                table.own_delays.insert(entry.name.clone(), learns);
            }
            policy = match delay {
                Some(delay) => policy.hedge(hedge.policy(delay)),
                None => policy.no_recovery(),
            };
            budget = match hedge.budget {
                Some(Budget::Shared(name)) => {
                    let shared = table.budgets.get(&name).cloned();
                    shared.map(RouteBudget::Shared)
                }
                Some(Budget::Own(share)) => {
                    let old = was.as_ref().and_then(|was| old.route_budgets.get(was));
                    let own = carried.budget(share, old.and_then(RouteBudget::own));
                    own.map(RouteBudget::Own)
                }
                None => None,
            };
            let named = budget.clone().map(|budget| (entry.name, budget));
            table.route_budgets.extend(named);
            policy
        }
        (None, None) => policy.no_recovery(),
    };
    if let Some(throttle) = Counted::with_budget(counted, budget.map(RouteBudget::into_inner)) {
        policy = policy.with_throttle(throttle);
    }
    if let Some(limit) = entry.timeout {
        policy = policy.with_timeout(limit);
    }
    if let Some(limit) = entry.attempt_timeout {
        policy = policy.with_attempt_timeout(limit);
    }
    Arc::new(policy)
}

/// The name of this route in the old table, whose state it goes on with: without a name of its own,
/// that of the unnamed route with the same conditions, wherever that stood.
fn was(entry: &Entry, old: &Table, table: &mut Table) -> Option<String> {
    let is_stateful = entry.hedge.is_some()
        || entry
            .retry
            .as_ref()
            .is_some_and(|retry| retry.preset.is_some());
    if !entry.is_unnamed || !is_stateful {
        return Some(entry.name.clone());
    }
    match table.unnamed.entry(entry.matching.conditions()) {
        // Another route before it has the same conditions, so that it matches nothing.
        hash_map::Entry::Occupied(_) => None,
        hash_map::Entry::Vacant(vacant) => {
            let was = old.unnamed.get(vacant.key()).cloned();
            vacant.insert(entry.name.clone());
            was
        }
    }
}

/// The delay of the route with this name, if it was defined alike.
fn old_delay(old: &Table, name: &str, timing: HedgeTiming) -> Option<Arc<dyn HedgeDelay>> {
    let (was, delay) = old.own_delays.get(name)?;
    (*was == timing).then(|| Arc::clone(delay))
}

/// Parses the definitions that are shared by name.
fn read_all<T>(
    place: &mut Place<'_>,
    named: &Members<'_>,
    names: &Names<'_>,
    read: impl Fn(&mut Place<'_>, Json<'_>) -> Option<T>,
) -> Option<Vec<(String, T)>> {
    let read = |(name, json): (&str, _)| {
        let mut place = place.field(name);
        if let Some(misused) = names.misused(name) {
            place.warn(misused);
        }
        Some((name.to_owned(), read(&mut place, json)?))
    };
    // All of them are parsed, to report all faults.
    let all: Vec<_> = named.iter().map(read).collect();
    all.into_iter().collect()
}

fn budget(place: &mut Place<'_>, json: Json<'_>) -> Option<u32> {
    let members = Members::of(place, json, members::BUDGET)?;
    members.required(place, "percent", "a number", recovery::percent)
}
