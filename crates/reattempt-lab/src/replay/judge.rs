//! What the recorded policy says of recorded attempts, which a replay does not ask it again.

use reattempt::record::Entry;
use reattempt::{RetryReason, ServerPushback};

use super::facts::{is_forbidden, verdict};
use crate::load::RecordedFailure;
use crate::policy::{Classes, PolicyText};

/// The recorded policy beside the one under test.
pub(super) struct Judge {
    /// By the number of the route, with its spread; empty if the record has no policy.
    routes: Vec<(Classes, u32)>,
    /// The policy under test is the recorded one.
    own: bool,
}

impl Judge {
    pub(super) fn new(
        recorded: Option<&PolicyText>,
        tested: &PolicyText,
        routes: &[String],
    ) -> Self {
        let classes = recorded.and_then(|recorded| recorded.classes_of(routes));
        let with_spread = |classes: Classes| {
            let spread_ms = classes.spread_ms();
            (classes, spread_ms)
        };
        Self {
            routes: classes.into_iter().flatten().map(with_spread).collect(),
            own: recorded == Some(tested),
        }
    }

    /// The limit of a call of this route, in nanoseconds.
    pub(super) fn timeout(&self, route: u16) -> Option<u64> {
        self.routes.get(usize::from(route))?.0.timeout()
    }

    /// How an attempt failed, and the delay that it was to wait for.
    pub(super) fn failure(
        &self,
        entry: &Entry,
        reasons: &[RetryReason],
    ) -> (RecordedFailure, Option<u32>) {
        let asked = entry.pushback.and_then(ServerPushback::delay);
        let pushback_ms = asked.map(|asked| u32::try_from(asked.as_millis()).unwrap_or(u32::MAX));
        let too_long = matches!(entry.pushback, Some(ServerPushback::TooLong { .. }));
        let route = self.routes.get(usize::from(entry.route));
        // Nothing is added to a delay that is not waited for.
        let spread_ms = route.filter(|_| asked.is_some() && !too_long);
        let mut failure = RecordedFailure {
            verdict: verdict(entry, reasons),
            stop: entry.pushback == Some(ServerPushback::Stop) || is_forbidden(entry),
            spread_ms: spread_ms.map_or(0, |(_, spread_ms)| *spread_ms),
            is_kept: false,
        };
        // What the text says may be asked of another route's calls, too, which draw from this one.
        let explained =
            route.is_some_and(|(classes, _)| classes.explains(failure, pushback_ms, too_long));
        failure.is_kept = self.own && !explained;
        // A cap that is not in the text holds under any text.
        failure.stop |= too_long && !explained;
        (failure, pushback_ms)
    }
}
