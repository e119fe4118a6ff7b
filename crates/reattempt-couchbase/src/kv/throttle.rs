//! The duration for which a server throttles a connection.

use reattempt::{CallContext, FoundPushback, ReadPushback, ServerPushback};

use super::{KvAnswer, Status};

/// Reads the throttle duration of a response with status 0x0c (`EWOULD_THROTTLE`).
///
/// A duration of zero counts as none, so the strategy's own back-off applies.
///
/// Only effective together with
/// [`KvClassifier::with_current_server_codes`](super::KvClassifier::with_current_server_codes):
/// without it 0x0c is final, and a delay for a final failure is not used.
#[derive(Clone, Copy, Debug, Default)]
pub struct KvPushback;

impl KvPushback {
    /// The reader.
    #[must_use]
    pub const fn new() -> Self {
        Self
    }
}

impl<A, E> ReadPushback<A, E> for KvPushback
where
    A: KvAnswer,
{
    fn read(&self, outcome: Result<&A, &E>, _: &CallContext) -> FoundPushback {
        let is_throttled = |answer: &&A| Status(answer.status()) == Status::EWOULD_THROTTLE;
        let throttled = outcome.ok().filter(is_throttled);
        let throttled = throttled.and_then(KvAnswer::throttle_duration);
        // Zero would retry at the speed of the network.
        let throttled = throttled.filter(|throttled| !throttled.is_zero());
        throttled.map(ServerPushback::After).into()
    }
}
