//! How lists and figures are written in the log.

use std::fmt;

use crate::RetryInfo;

/// Each reason with its count: `KV_LOCKED (2), KV_TEMPORARY_FAILURE (1)`.
pub(super) struct Reasons<'a>(pub(super) &'a RetryInfo);

impl fmt::Display for Reasons<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        list(
            f,
            self.0
                .reasons()
                .map(|reason| (reason.name(), self.0.count(reason))),
        )
    }
}

/// Each gate that refused a hedge, with its count.
pub(super) struct Refusals<'a>(pub(super) &'a RetryInfo);

impl fmt::Display for Refusals<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        list(
            f,
            self.0.refusals().map(|by| (by.name(), self.0.refused(by))),
        )
    }
}

fn list(
    f: &mut fmt::Formatter<'_>,
    counted: impl Iterator<Item = (&'static str, u32)>,
) -> fmt::Result {
    let mut before = "";
    for (name, count) in counted {
        write!(f, "{before}{name} ({count})")?;
        before = ", ";
    }
    Ok(())
}

/// Thousandths of a token as tokens: `9.05`.
pub(super) struct Tokens(pub(super) u64);

impl fmt::Display for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::info::tokens(f, self.0)
    }
}
