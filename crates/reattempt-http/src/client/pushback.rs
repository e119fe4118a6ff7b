//! A reader of pushback that all attempts share.

use std::sync::Arc;

use reattempt::{CallContext, FoundPushback, ReadPushback, ServerPushback};

use crate::HttpPushback;

/// One pointer: each call keeps one in its template, and one in its attempt.
#[derive(Clone, Debug)]
pub struct SharedPushback(pub(super) Arc<HttpPushback>);

impl<Res, Err> ReadPushback<Res, Err> for SharedPushback
where
    HttpPushback: ReadPushback<Res, Err>,
{
    fn read(&self, outcome: Result<&Res, &Err>) -> Option<ServerPushback> {
        self.0.read(outcome)
    }

    fn read_in(&self, outcome: Result<&Res, &Err>, context: &CallContext) -> FoundPushback {
        self.0.read_in(outcome, context)
    }
}
