//! Where a call that is retried stands.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The first attempt is out, and nobody wants to hear of it if it works.
    First,
    /// An attempt of ours is out.
    Flight,
    /// Over: the outcome was returned.
    Done,
    /// Not ours: a recovery layer above acts.
    Claimed,
    /// Not ours: a recovery layer below has to act.
    Passing,
    /// The strategy is making its decision.
    Asking,
    Waiting,
    /// A zero delay touches no timer, but lets other tasks run once.
    Yielding,
    Readying,
    /// Nothing more is sent; the deadline above ends the call.
    Expired,
}

/// Where the loop goes next.
pub(super) enum Step<O> {
    Again,
    Return(O),
    Pending,
}
