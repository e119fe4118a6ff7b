//! From the document to the table.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use reattempt::throttle::{Both, HedgeBudget};
use reattempt::{RetryThrottle, RoutePolicy, TokenBucket};

use super::entry::{Entry, Shared};
use super::{HttpPolicies, Options};
use crate::json::{self, Json, Members, Place};

/// A document without faults, read but not yet put into a table: only then may it touch live throttles.
pub(super) struct Document {
    entries: Vec<Entry>,
    default: Option<Entry>,
    throttles: Vec<(String, Throttle)>,
}

/// `maxTokens`, and `tokenRatio` in thousandths.
#[derive(Clone, Copy)]
struct Throttle {
    max: u32,
    ratio: u32,
}

impl Document {
    pub(super) fn read(place: &mut Place<'_>, json: &Json, options: &Options) -> Option<Self> {
        let members = Members::of(place, json, &["routes", "default", "throttles"])?;
        let named = members.optional(place, "throttles", Members::any);
        let named: Vec<(&str, &Json)> = named.iter().flat_map(Members::iter).collect();
        let mut shared = Shared {
            options,
            throttles: named.iter().map(|(name, _)| *name).collect(),
            counted: HashSet::new(),
            names: HashSet::new(),
        };
        let entries = members.optional(place, "routes", |place, json| {
            routes(place, json, &mut shared)
        });
        let default = members.optional(place, "default", |place, json| {
            Entry::read_default(place, json, &mut shared)
        });
        let throttles = members.optional(place, "throttles", |place, _| {
            let read = |(name, json): &(&str, &Json)| {
                let mut place = place.field(name);
                if !shared.counted.contains(name) {
                    place.warn("no route counts in it");
                }
                Some(((*name).to_owned(), Throttle::read(&mut place, json)?))
            };
            // All of them are read, so that all faults are told.
            let throttles: Vec<_> = named.iter().map(read).collect();
            throttles.into_iter().collect::<Option<Vec<_>>>()
        });
        Some(Self {
            entries: entries.unwrap_or_default(),
            default,
            throttles: throttles.unwrap_or_default(),
        })
    }

    pub(super) fn into_policies(self, old: &HttpPolicies) -> HttpPolicies {
        let throttles = self.throttles.into_iter().filter_map(|(name, throttle)| {
            let bucket = throttle.carry(old.throttles.get(&name))?;
            Some((name, bucket))
        });
        let mut table = HttpPolicies {
            routes: Vec::new(),
            default: None,
            throttles: throttles.collect(),
            budgets: HashMap::new(),
            options: old.options.clone(),
        };
        for entry in self.entries {
            let matching = entry.matching.clone();
            let policy = policy(entry, old, &mut table);
            table.routes.push((matching, policy));
        }
        table.default = self.default.map(|entry| policy(entry, old, &mut table));
        table
    }
}

fn routes(place: &mut Place<'_>, json: &Json, shared: &mut Shared<'_>) -> Option<Vec<Entry>> {
    let mut at = 0;
    let mut for_all: Option<usize> = None;
    json::array(place, json, "routes", |place, json| {
        if let Some(earlier) = for_all {
            place.warn(&format!(
                "is never asked, because routes[{earlier}] is for every request"
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

fn policy(entry: Entry, old: &HttpPolicies, table: &mut HttpPolicies) -> Arc<RoutePolicy> {
    let mut policy = RoutePolicy::new(entry.name.clone()).data(entry.http);
    let bucket = entry
        .throttle
        .and_then(|name| table.throttles.get(&name))
        .cloned();
    let mut budget = None;
    policy = match (entry.retry, entry.hedge) {
        (Some(retry), _) => policy.retry(retry.strategy),
        (None, Some(hedge)) => {
            budget = hedge
                .budget
                .and_then(|share| carry_budget(share, old.budgets.get(&entry.name)));
            policy.hedge(hedge.policy)
        }
        (None, None) => policy.no_recovery(),
    };
    if let Some(budget) = &budget {
        table.budgets.insert(entry.name, Arc::clone(budget));
    }
    let throttle: Option<Arc<dyn RetryThrottle>> = match (bucket, budget) {
        // The bucket only looks, the budget spends: it is asked second.
        (Some(bucket), Some(budget)) => Some(Arc::new(Both(bucket, budget))),
        (Some(bucket), None) => Some(bucket),
        (None, Some(budget)) => Some(budget),
        (None, None) => None,
    };
    if let Some(throttle) = throttle {
        policy = policy.throttle(throttle);
    }
    if let Some(limit) = entry.timeout {
        policy = policy.call_limit(limit);
    }
    if let Some(limit) = entry.attempt_timeout {
        policy = policy.attempt_limit(limit);
    }
    Arc::new(policy)
}

fn carry_budget(share: u32, old: Option<&Arc<HedgeBudget>>) -> Option<Arc<HedgeBudget>> {
    // The reader has checked the share, so that neither step can fail.
    match old {
        Some(old) => old.reconfigure(share).ok().map(|()| Arc::clone(old)),
        None => HedgeBudget::of_thousandths(share).ok().map(Arc::new),
    }
}

impl Throttle {
    fn read(place: &mut Place<'_>, json: &Json) -> Option<Self> {
        let members = Members::of(place, json, &["maxTokens", "tokenRatio"])?;
        let max = members.required(place, "maxTokens", "an integer", |place, json| {
            json::integer(place, json, "an integer from 1 to 1000", 1, 1000)
        });
        let ratio = members.required(place, "tokenRatio", "a number", json::thousandths);
        Some(Self {
            max: u32::try_from(max?).ok()?,
            ratio: ratio?,
        })
    }

    fn carry(self, old: Option<&Arc<TokenBucket>>) -> Option<Arc<TokenBucket>> {
        let Self { max, ratio } = self;
        // The reader has checked both numbers, so that neither step can fail.
        match old {
            Some(old) => old.reconfigure(max, ratio).ok().map(|()| Arc::clone(old)),
            None => TokenBucket::new(max, ratio).ok().map(Arc::new),
        }
    }
}
