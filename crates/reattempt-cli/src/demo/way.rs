//! The ways of a call to the server that are compared.

/// What stands between the caller and the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// A plain timeout.
    Bare,
    /// tower's retry with a budget over its timeout.
    Tower,
    /// The layers of reattempt.
    Stack,
}
