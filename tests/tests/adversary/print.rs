//! Prints a scenario: its settings, and one line per fate.

use std::fmt;

use crate::scenario::{CallPlan, Readiness, Scenario};

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "http: {}, layers: {:?}", self.http, self.order)?;
        writeln!(f, "strategy: {:?}, hedge: {:?}", self.strategy, self.hedge)?;
        let (transparent, observed) = (self.transparent, self.observed);
        writeln!(f, "transparent: {transparent:?}, observed: {observed:?}")?;
        writeln!(f, "throttles: {:?}", self.throttles)?;
        writeln!(f, "{:?}, swapped after {:?} ms:", self.source, self.swaps)?;
        for table in &self.tables {
            writeln!(f, "  {table:?}")?;
        }
        writeln!(f, "bytes of a body and of all: {:?}", self.bytes)?;
        for (number, call) in self.calls.iter().enumerate() {
            write!(f, "call {number} {call}")?;
        }
        Ok(())
    }
}

impl fmt::Display for CallPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "at {} ms, class {}", self.starts, self.class)?;
        writeln!(f, "  {:?}, get: {}", self.idempotency, self.get)?;
        writeln!(f, "  {:?}", self.body)?;
        writeln!(f, "  limit: {:?}, {:?}", self.limit, self.strategy)?;
        writeln!(f, "  policy: {:?}", self.policy)?;
        writeln!(
            f,
            "  throttle: {:?}, watched: {}",
            self.throttle, self.watched
        )?;
        writeln!(
            f,
            "  leaves: {:?}, concludes: {:?}",
            self.leaves, self.concludes
        )?;
        let at_once = Readiness {
            after: Some(0),
            breaks: false,
        };
        for (nth, ready) in (1..).zip(&self.readiness) {
            if *ready != at_once {
                writeln!(f, "  instance {nth}: {ready:?}")?;
            }
        }
        writeln!(f, "  begins again: {}", self.again)?;
        for (number, fate) in (1..).zip(&self.fates) {
            writeln!(f, "  attempt {number}: {fate:?}")?;
        }
        Ok(())
    }
}
