//! The four kinds of gRPC methods.

use serde::Deserialize;

/// How many messages each side sends: one or any number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    #[default]
    Unary,
    ServerStream,
    ClientStream,
    Bidi,
}

impl Kind {
    pub(super) const fn asks_once(self) -> bool {
        matches!(self, Self::Unary | Self::ServerStream)
    }

    pub(super) const fn answers_once(self) -> bool {
        matches!(self, Self::Unary | Self::ClientStream)
    }
}
