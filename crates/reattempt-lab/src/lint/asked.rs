//! Throttles, which are asked what they allow after failures.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use reattempt::throttle::Settled;
use reattempt::{Failure, RetryThrottle, RoutePolicy, Stage, reason};
use serde_json::{Value, json};

use super::routes::policies;
use crate::policy::{Clock, PolicyText, Simulated, as_value};

const FAILURE: Failure = Failure::new(reason::UNKNOWN, Stage::Response);

/// The most successes that are tried to earn an attempt; of a process with fewer calls, those of
/// [`TEN_MINUTES`].
pub(super) const MANY: u32 = 1000;

/// The time in which an attempt is to be earned.
pub(super) const TEN_MINUTES: Duration = Duration::from_secs(600);

/// How a throttle that starts full answers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answers {
    /// It is open, and one failure of a first attempt, the only one so far, closes it.
    pub(super) closes_at_once: bool,
    /// Attempts that it allows during the second half of 1000 failures in a row.
    pub(super) allowed: u32,
    /// Successes in a row that earn an attempt within [`TEN_MINUTES`] when all is spent; `None` if
    /// more than [`MANY`].
    pub(super) earns_after: Option<u32>,
}

/// The throttles of a policy that were asked, by their addresses. The questions empty a throttle,
/// and routes share throttles: each is asked once, in a copy.
#[derive(Debug)]
pub(super) struct Asked<'a> {
    text: &'a PolicyText,
    /// Of the copies.
    by: Simulated,
    known: RefCell<HashMap<*const (), Option<Answers>>>,
    /// Of throttles without parts that others share.
    copy: OnceCell<Vec<Arc<RoutePolicy>>>,
    /// The document of an HTTP policy.
    document: OnceCell<Value>,
}

impl<'a> Asked<'a> {
    pub(super) fn of(text: &'a PolicyText, by: Simulated) -> Self {
        Self {
            text,
            by,
            known: RefCell::default(),
            copy: OnceCell::new(),
            document: OnceCell::new(),
        }
    }

    /// The answers of this throttle, which the route with this index has. `composed`: it may be a
    /// throttle and a budget, each of which another route may have too.
    pub(super) fn answers(
        &self,
        of: &Arc<dyn RetryThrottle>,
        at: usize,
        composed: bool,
    ) -> Option<Answers> {
        let ask = || {
            let full = if composed {
                self.alone(at)?
            } else {
                let routes = self.copy.get_or_init(|| policies(self.text, &self.by));
                Arc::clone(routes.get(at)?)
            };
            Some(Answers::of(&**full.throttle()?, &self.by.clock))
        };
        let mut known = self.known.borrow_mut();
        *known.entry(Arc::as_ptr(of).cast()).or_insert_with(ask)
    }

    /// A new copy of this route of an HTTP policy, and of what it shares. The whole policy may have
    /// many such routes, and would be read again for each.
    fn alone(&self, at: usize) -> Option<Arc<RoutePolicy>> {
        let PolicyText::HttpPolicy(text) = self.text else {
            return None;
        };
        let document = self.document.get_or_init(|| as_value(text));
        let route = document["routes"].get(at).unwrap_or(&document["default"]);
        let shared = |all: &str, name: &Value| match name.as_str() {
            Some(name) => json!({ name: document[all][name] }),
            None => Value::Null,
        };
        let alone = json!({
            "routes": [route],
            "throttles": shared("throttles", &route["throttle"]),
            "budgets": shared("budgets", &route["hedge"]["budget"]),
        });
        policies(&PolicyText::HttpPolicy(alone.to_string()), &self.by).pop()
    }
}

impl Answers {
    /// Asks a full throttle with this clock, and leaves it empty.
    fn of(full: &dyn RetryThrottle, clock: &Clock) -> Self {
        let fail = || full.settled(Settled::Failure(&FAILURE));
        let take = || full.allows(None) && full.spend(None);
        let before = full.allows(None);
        // As the drivers count it: a throttle may allow a retry after a failure that stands alone.
        full.first_failed();
        fail();
        let closes_at_once = before && !full.allows(Some(&FAILURE));
        let mut allowed = 0;
        for nth in 0..1000 {
            fail();
            // One that only successes feed has closed before the second half.
            allowed += u32::from(take() && nth >= 500);
        }
        for _ in 0..2000 {
            fail();
        }
        // A budget holds few tokens; a throttle that asks no price stays open.
        for _ in 0..10_000 {
            if !take() {
                break;
            }
        }
        // By then a time window is empty. The successes follow at once, however fast they come:
        // those of a fast client all stand in one window.
        clock.pass(TEN_MINUTES);
        let earns_after = (1..=MANY).find(|_| {
            full.settled(Settled::Success);
            full.allows(None)
        });
        Self {
            closes_at_once,
            allowed,
            earns_after,
        }
    }
}
