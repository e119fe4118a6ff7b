//! Readers of server pushback, by protocol.

use crate::{CallContext, ServerPushback};

/// Reads the server's pushback from one outcome.
///
/// Closures `Fn(Result<&Res, &Err>) -> Option<ServerPushback>` implement it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot read pushback from `Result<&{Res}, &{Err}>`",
    note = "use a protocol crate's reader, or a closure with its argument type written out"
)]
pub trait ReadPushback<Res, Err> {
    /// The server's pushback, or `None` if there is none.
    fn read(&self, outcome: Result<&Res, &Err>) -> Option<ServerPushback>;

    /// The same, for a reader that depends on the route's policy; `context` is the attempt's own.
    fn read_in(
        &self,
        outcome: Result<&Res, &Err>,
        context: &CallContext,
    ) -> Option<ServerPushback> {
        let _ = context;
        self.read(outcome)
    }

    /// Called if nothing was read: whether the server sent a pushback that cannot be parsed. It
    /// counts as none, and the attempt's record shows it.
    fn is_unreadable(&self, outcome: Result<&Res, &Err>, context: &CallContext) -> bool {
        let _ = (outcome, context);
        false
    }
}

#[diagnostic::do_not_recommend]
impl<F, Res, Err> ReadPushback<Res, Err> for F
where
    F: Fn(Result<&Res, &Err>) -> Option<ServerPushback>,
{
    fn read(&self, outcome: Result<&Res, &Err>) -> Option<ServerPushback> {
        self(outcome)
    }
}
