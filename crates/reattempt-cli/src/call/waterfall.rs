//! The answer of one call for people: one line per attempt, on a common time axis.

use std::fmt::Write;

use reattempt::ServerPushback;

use super::answer::{Answer, Timeout, shown};
use super::attempts::{Attempt, Pushback};
use super::in_millis::InMillis;
use crate::printable::{Lines, OneLine};

/// The width of the axis in characters.
const WIDTH: usize = 40;

pub(crate) fn draw(answer: &Answer) -> String {
    let mut out = String::new();
    headline(&mut out, answer);
    for line in shown(&answer.for_people) {
        let _ = writeln!(out, "  {}", Lines(line));
    }
    for attempt in &answer.attempts {
        row(&mut out, attempt, answer.elapsed_ms.value());
    }
    if let Some(stopped) = answer.stopped {
        let _ = writeln!(out, "  stopped: {stopped}, {}", why(stopped, answer));
    }
    out
}

/// Why no further attempt was made, for a word of the machine interface.
fn why(stopped: &str, answer: &Answer) -> &'static str {
    match stopped {
        "success" => "the call ended well",
        "fatal" => "a failure of this kind is not retried",
        "attempts" => "the policy allows no further attempt",
        "strategy" => "the strategy does not retry this failure",
        "not_idempotent" => {
            "the request is not idempotent, and the failed attempt may have been carried out"
        }
        "pushback" => "the server asked for no further attempt",
        "throttled" => {
            "the throttle, or the budget of retries or hedges, allows no further attempt"
        }
        "deadline" => at_deadline(&answer.attempts),
        "committed" => "the answer had begun, and then failed",
        "not_replayable" => "the request's body could not be kept for a further attempt",
        "cancelled" => "the caller cancelled",
        "admission" => "the server accepts too few calls, and this one was not sent",
        "circuit" => "the server has failed, and nothing is sent to it for a time",
        _ => "no further attempt was made",
    }
}

/// What the deadline kept from a call with these attempts.
fn at_deadline(attempts: &[Attempt]) -> &'static str {
    // The last one to end: one that was sent before it may have failed later.
    match attempts.iter().max_by_key(|attempt| attempt.end_ms.0) {
        Some(last) if last.verdict == "cancelled" => "the deadline ended the last attempt",
        Some(_) => "no further attempt fits before the deadline",
        None => "the deadline had passed before an attempt was sent",
    }
}

fn headline(out: &mut String, answer: &Answer) {
    let count = answer.attempts.len();
    let plural = if count == 1 { "" } else { "s" };
    let _ = write!(
        out,
        "{}: {count} attempt{plural} in {}",
        OneLine(&answer.call),
        millis(answer.elapsed_ms)
    );
    if let Some(timeout) = answer.timeout {
        let _ = write!(
            out,
            " ({} timeout)",
            match timeout {
                Timeout::Ambiguous => "ambiguous",
                Timeout::Unambiguous => "unambiguous",
            }
        );
    }
    if let Some(error) = &answer.error {
        let _ = write!(out, "\n  error: {}", OneLine(error));
    }
    out.push('\n');
}

fn row(out: &mut String, attempt: &Attempt, whole: f64) {
    let _ = write!(
        out,
        "  {:>3} {:<11} {} {:>9} {:>9}  ",
        attempt.n,
        attempt.kind,
        bar(attempt, whole, WIDTH),
        millis(attempt.start_ms),
        millis(attempt.end_ms),
    );
    // The interface of programs calls it by the classifier's verdict.
    let (ended, may_follow) = match attempt.verdict {
        "retry" => ("failed:", ", retryable"),
        "fatal" => ("failed:", ", final"),
        other => (other, ""),
    };
    out.push_str(ended);
    if let Some(reason) = attempt.reason {
        let _ = write!(out, " {reason}{may_follow}");
    }
    if attempt.reason.is_some() || attempt.verdict == "cancelled" {
        let _ = write!(out, " ({})", attempt.stage);
    }
    match attempt.pushback_ms {
        Some(Pushback(ServerPushback::Stop)) => out.push_str(", pushback: stop"),
        Some(Pushback(asked)) => {
            let delay = asked.delay().unwrap_or_default();
            let _ = if delay < ServerPushback::LONGEST {
                write!(out, ", pushback {}", millis(InMillis(delay)))
            } else {
                write!(out, ", pushback 25 days or more")
            };
            if matches!(asked, ServerPushback::TooLong { .. }) {
                out.push_str(", longer than the policy waits");
            }
        }
        None if attempt.pushback_unreadable => out.push_str(", pushback unreadable, ignored"),
        None => {}
    }
    if let Some(delay) = attempt.delay_ms {
        let _ = write!(out, ", next after {}", millis(delay));
    }
    if let Some(backend) = &attempt.backend {
        let _ = write!(out, " @ {}", OneLine(backend));
    }
    out.push('\n');
}

fn millis(time: InMillis) -> String {
    format!("{:.1} ms", time.value())
}

/// The attempt as a bar of `width` characters for `whole` milliseconds; the delay after it is
/// shaded.
pub(crate) fn bar(attempt: &Attempt, whole: f64, width: usize) -> String {
    let (start, end) = (attempt.start_ms.value(), attempt.end_ms.value());
    let next = end + attempt.delay_ms.map_or(0.0, InMillis::value);
    let place = |at: f64| {
        if whole > 0.0 {
            // Within the axis, because a cast of a large float saturates.
            ((at / whole * width as f64).round() as usize).min(width)
        } else {
            0
        }
    };
    let first = place(start).min(width - 1);
    let last = place(end).max(first + 1);
    let shade = place(next).max(last);
    let mut bar = String::from("│");
    for at in 0..width {
        bar.push(match at {
            at if at < first => ' ',
            at if at < last => '█',
            at if at < shade => '░',
            _ => ' ',
        });
    }
    bar.push('│');
    bar
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn ms(millis: u64) -> InMillis {
        InMillis(Duration::from_millis(millis))
    }

    fn attempt(n: u32, start: u64, end: u64, delay: Option<u64>) -> Attempt {
        Attempt {
            n,
            kind: "retry",
            start_ms: ms(start),
            end_ms: ms(end),
            backend: None,
            verdict: "retry",
            reason: Some("GRPC_UNAVAILABLE"),
            stage: "response",
            pushback_ms: None,
            pushback_unreadable: false,
            delay_ms: delay.map(ms),
        }
    }

    fn cells(attempt: &Attempt, whole: f64, cell: char) -> usize {
        bar(attempt, whole, WIDTH)
            .chars()
            .filter(|c| *c == cell)
            .count()
    }

    #[test]
    fn the_last_line_says_why_the_call_stopped() {
        use reattempt::StopReason as Stop;

        let mut lines = std::collections::BTreeSet::new();
        for stopped in [
            Stop::Success,
            Stop::Fatal,
            Stop::Attempts,
            Stop::Strategy,
            Stop::NotIdempotent,
            Stop::Pushback,
            Stop::Throttled,
            Stop::Deadline,
            Stop::Committed,
            Stop::NotReplayable,
            Stop::Cancelled,
        ] {
            let mut answer = Answer::unsent("1".to_owned());
            answer.attempts.push(attempt(1, 0, 25, None));
            answer.stopped = Some(stopped.name());
            let drawn = draw(&answer);
            let last = drawn.lines().last().unwrap();
            let why = last.strip_prefix(&format!("  stopped: {}, ", stopped.name()));
            lines.insert(why.expect(last).to_owned());
        }
        assert_eq!(lines.len(), 11, "each has a line of its own: {lines:?}");
    }

    #[test]
    fn the_last_line_says_what_the_deadline_did() {
        let said = |attempts: Vec<Attempt>| {
            let mut answer = Answer::unsent("1".to_owned());
            answer.attempts = attempts;
            answer.stopped = Some("deadline");
            let drawn = draw(&answer);
            let last = drawn.lines().last().unwrap();
            last.strip_prefix("  stopped: deadline, ")
                .unwrap()
                .to_owned()
        };
        let cut_off = |end| {
            let mut cut_off = attempt(1, 0, end, None);
            (cut_off.verdict, cut_off.reason) = ("cancelled", None);
            cut_off
        };
        let failed = attempt(2, 20, 50, None);
        let ended = "the deadline ended the last attempt";
        assert_eq!(said(vec![cut_off(100)]), ended);
        assert_eq!(said(vec![cut_off(100), failed.clone()]), ended);
        let no_room = "no further attempt fits before the deadline";
        assert_eq!(said(vec![failed.clone()]), no_room);
        assert_eq!(said(vec![cut_off(40), failed]), no_room);
        let unsent = "the deadline had passed before an attempt was sent";
        assert_eq!(said(Vec::new()), unsent);
    }

    #[test]
    fn a_row_says_how_far_a_cut_off_attempt_came() {
        let mut cut_off = attempt(1, 0, 100, None);
        (cut_off.verdict, cut_off.reason) = ("cancelled", None);
        (cut_off.stage, cut_off.backend) = ("dispatch", Some("h:1".to_owned()));
        let mut drawn = String::new();
        row(&mut drawn, &cut_off, 100.0);
        assert!(drawn.ends_with("  cancelled (dispatch) @ h:1\n"), "{drawn}");
    }

    #[test]
    fn a_pushback_beyond_the_longest_is_shown_as_a_bound() {
        let shown = |delay| {
            let mut attempt = attempt(1, 0, 25, None);
            attempt.pushback_ms = Some(Pushback(delay));
            let mut drawn = String::new();
            row(&mut drawn, &attempt, 100.0);
            drawn
        };
        let days = |days: u64| Duration::from_secs(days * 24 * 3600);
        let drawn = shown(ServerPushback::After(days(25)));
        assert!(drawn.ends_with(", pushback 2160000000.0 ms\n"), "{drawn}");
        for longer in [days(26), Duration::MAX] {
            let drawn = shown(ServerPushback::After(longer));
            assert!(drawn.ends_with(", pushback 25 days or more\n"), "{drawn}");
        }
        let drawn = shown(ServerPushback::TooLong { millis: 60_000 });
        let too_long = ", pushback 60000.0 ms, longer than the policy waits\n";
        assert!(drawn.ends_with(too_long), "{drawn}");
    }

    #[test]
    fn bars_share_one_axis() {
        let first = attempt(1, 0, 25, Some(50));
        assert_eq!(
            (cells(&first, 100.0, '█'), cells(&first, 100.0, '░')),
            (10, 20)
        );
        let second = attempt(2, 75, 100, None);
        assert_eq!(cells(&second, 100.0, '█'), 10);
        assert!(bar(&second, 100.0, WIDTH).ends_with("██████████│"));
    }

    #[test]
    fn an_attempt_of_no_time_is_seen_and_bars_stay_on_the_axis() {
        assert_eq!(cells(&attempt(1, 100, 100, Some(9_000)), 100.0, '█'), 1);
        assert_eq!(cells(&attempt(1, 0, 0, None), 0.0, '█'), 1);
        let far = bar(&attempt(1, 500, 900, None), 100.0, WIDTH);
        assert_eq!(far.chars().count(), WIDTH + 2);
    }
}
