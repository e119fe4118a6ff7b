//! The phases of a retried call.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The first attempt is in flight, and no observer wants its events if it succeeds.
    First,
    /// An attempt of this layer is in flight.
    Flight,
    /// The outcome was returned.
    Done,
    /// Another recovery layer, above, acts.
    Claimed,
    /// A recovery layer below has to act.
    Passing,
    /// The strategy's decision is pending.
    Asking,
    Waiting,
    /// A zero delay arms no timer, but lets other tasks run once.
    Yielding,
    Readying,
    /// Nothing more is sent; the deadline above ends the call.
    Expired,
}

/// The next step of the loop.
pub(super) enum Step<O> {
    Again,
    Return(O),
    Pending,
}
