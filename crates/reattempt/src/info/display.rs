//! A call's history as text, for logs and people. Programs read the fields.

use std::fmt;

use super::RetryInfo;
use crate::{AttemptKind, AttemptOutcome, AttemptRecord};

impl AttemptKind {
    /// The name in logs and in the program's output.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Initial => "initial",
            Self::Retry => "retry",
            Self::Hedge => "hedge",
            Self::Transparent => "transparent",
        }
    }
}

impl AttemptOutcome {
    /// The name in logs and in the program's output.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Committed => "committed",
            Self::Fatal => "fatal",
            Self::Retry => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// Thousandths of a token as tokens: `9.05`.
pub(crate) fn tokens(f: &mut fmt::Formatter<'_>, milli: u64) -> fmt::Result {
    let (whole, thousandths) = (milli / 1000, milli % 1000);
    if thousandths == 0 {
        return write!(f, "{whole}");
    }
    let places = format!("{thousandths:03}");
    write!(f, "{whole}.{}", places.trim_end_matches('0'))
}

/// One line, such as
/// `attempt 1 (initial) at 10.0.0.1:50051: failed: GRPC_UNAVAILABLE, retryable, code 14, response;
/// next after 10ms`.
impl fmt::Display for AttemptRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "attempt {} ({})", self.number, self.kind.name())?;
        if let Some(backend) = &self.backend {
            write!(f, " at {backend}")?;
        }
        let (outcome, may_follow) = match (self.outcome, &self.failure) {
            (AttemptOutcome::Retry, Some(_)) => ("failed", ", retryable"),
            (AttemptOutcome::Fatal, Some(_)) => ("failed", ", final"),
            (outcome, _) => (outcome.name(), ""),
        };
        write!(f, ": {outcome}")?;
        if let Some(failure) = &self.failure {
            write!(f, ": {}{may_follow}", failure.reason)?;
            if let Some(code) = failure.code {
                write!(f, ", code {code}")?;
            }
            write!(f, ", {}", failure.stage.name())?;
        }
        match self.pushback {
            Some(pushback) => write!(f, "; pushback {pushback}")?,
            None if self.pushback_unreadable => f.write_str("; pushback unreadable, ignored")?,
            None => {}
        }
        if let Some(milli) = self.milli_tokens {
            f.write_str("; ")?;
            tokens(f, milli)?;
            f.write_str(" tokens")?;
        }
        if let Some(delay) = self.delay {
            write!(f, "; next after {delay:?}")?;
        }
        match self.stopped {
            // Outcomes that always end the call already say so.
            Some(stopped) if stopped.name() != self.outcome.name() => {
                write!(f, "; no further attempt: {}", stopped.name())
            }
            _ => Ok(()),
        }
    }
}

/// One line, such as `3 attempts, ended by success; failed for GRPC_UNAVAILABLE (2)`. `{:#}` adds a
/// line for each record.
impl fmt::Display for RetryInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.attempts == 0 && self.stopped.is_none() {
            // The call has not begun, or it has no recovery layer, which counts attempts.
            return f.write_str("no attempt was counted");
        }
        let plural = if self.attempts == 1 { "" } else { "s" };
        write!(f, "{} attempt{plural}", self.attempts)?;
        if self.transparent > 0 {
            write!(f, " ({} transparent)", self.transparent)?;
        }
        match self.stopped {
            Some(stopped) => write!(f, ", ended by {}", stopped.name())?,
            None => f.write_str(", in progress")?,
        }
        let mut before = "; failed for";
        for (reason, count) in &self.reasons {
            write!(f, "{before} {reason} ({count})")?;
            before = ",";
        }
        let mut before = "; hedges refused by";
        for (by, count) in &self.refused {
            write!(f, "{before} {} ({count})", by.name())?;
            before = ",";
        }
        if f.alternate() {
            if self.dropped > 0 {
                write!(f, "\n  ({} earlier attempts)", self.dropped)?;
            }
            for record in &self.records {
                write!(f, "\n  {record}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::attempt::Backend;
    use crate::failure::reason::KV_LOCKED;
    use crate::{Failure, ServerPushback, Stage, StopReason};

    fn record() -> AttemptRecord {
        let mut record = AttemptRecord::new(1, AttemptKind::Initial, AttemptOutcome::Retry);
        record.failure = Some(Failure::new(KV_LOCKED, Stage::Response).code(9));
        record
    }

    #[test]
    fn a_record_displays_all_its_fields() {
        assert_eq!(
            record().to_string(),
            "attempt 1 (initial): failed: KV_LOCKED, retryable, code 9, response"
        );
        let mut full = record();
        full.backend = Some(Backend::new("10.0.0.1:11210"));
        full.pushback = Some(ServerPushback::After(Duration::from_millis(250)));
        full.delay = Some(Duration::from_millis(250));
        full.milli_tokens = Some(9_050);
        full.stopped = Some(StopReason::Deadline);
        assert_eq!(
            full.to_string(),
            "attempt 1 (initial) at 10.0.0.1:11210: failed: KV_LOCKED, retryable, code 9, response; pushback 250ms; 9.05 tokens; \
             next after 250ms; no further attempt: deadline"
        );
        full.pushback = None;
        full.pushback_unreadable = true;
        assert!(
            full.to_string()
                .contains("; pushback unreadable, ignored; 9.05")
        );
        full.stopped = Some(StopReason::Fatal);
        full.outcome = AttemptOutcome::Fatal;
        let said = full.to_string();
        assert!(
            said.contains(": failed: KV_LOCKED, final, code 9"),
            "{said}"
        );
        assert!(said.ends_with("; next after 250ms"), "{said}");
        full.milli_tokens = Some(10_000);
        assert!(full.to_string().contains("; 10 tokens;"));
    }

    #[test]
    fn a_calls_story_is_one_line_or_one_line_a_record() {
        let mut info = RetryInfo::default();
        assert_eq!(info.to_string(), "no attempt was counted");
        info.attempts = 3;
        info.transparent = 1;
        info.stopped = Some(StopReason::Success);
        info.push(&record());
        info.count_refused(StopReason::Throttled);
        let line = "3 attempts (1 transparent), ended by success; failed for KV_LOCKED (1); \
                    hedges refused by throttled (1)";
        assert_eq!(info.to_string(), line);
        let lines = format!(
            "{line}\n  attempt 1 (initial): failed: KV_LOCKED, retryable, code 9, response"
        );
        assert_eq!(format!("{info:#}"), lines);
    }
}
