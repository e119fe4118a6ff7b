//! A few calls of the run with the stack, attempt by attempt.

use std::cmp::Reverse;
use std::fmt::Write;

use reattempt::{ServerPushback, StopReason};

use super::comparison::Comparison;
use super::load::{CallRecord, Story};
use super::style::{Style, millis};
use super::trouble::{Weather, is_search};
use crate::call::attempts::{Attempt, Pushback};
use crate::call::waterfall::bar;

/// The width of the axis in characters.
const WIDTH: usize = 16;

/// Notable calls, each with its description: the first of each kind, so that a seed repeats them.
pub(crate) fn interesting(comparison: &Comparison) -> Vec<(&CallRecord, &'static str)> {
    let calls = |weather| {
        let phase = comparison.phases.iter().find(|p| p.weather == weather);
        let range = phase.map_or(0..0, |phase| phase.from..phase.to);
        let calls = comparison.with.records.get(range).unwrap_or_default();
        calls.iter().filter(|call| call.outcome.story.is_some())
    };
    let hardest = |weather| {
        let retried = calls(weather).filter(|call| call.worked() && call.outcome.attempts > 1);
        retried.min_by_key(|call| {
            let (attempts, number) = (call.outcome.attempts, call.number);
            // Retries before hedges, and a limited number of lines.
            let fewer = Reverse(attempts.min(3));
            (is_search(number), attempts > 6, fewer, number)
        })
    };
    let hedged = calls(Weather::SlowTail).find(|call| call.worked() && call.outcome.attempts > 1);
    let held = calls(Weather::Overload).find(|call| call.stopped() == Some(StopReason::Throttled));
    let [failed, pushed, moved] =
        [Weather::Temporary, Weather::Pushback, Weather::Move].map(hardest);
    [
        (failed, "a temporary failure is retried"),
        (hedged, "a hedge overtakes a slow attempt"),
        (pushed, "retried after the server's pushback"),
        (moved, "retried through a move"),
        (held, "stopped by the throttle"),
    ]
    .into_iter()
    .filter_map(|(call, shows)| Some((call?, shows)))
    .collect()
}

/// The calls shown in the tables: three at most.
pub(crate) fn draw(comparison: &Comparison, style: Style) -> String {
    let mut calls = interesting(comparison);
    // One retry is enough here; the page shows all of them.
    if calls.len() > 3 {
        let twin = match comparison.protocol.has_pushback() {
            true => Weather::Temporary,
            false => Weather::Overload,
        };
        calls.retain(|(call, _)| {
            let mut phases = comparison.phases.iter();
            let phase = phases.find(|phase| phase.holds(call.number));
            phase.is_none_or(|phase| phase.weather != twin)
        });
    }
    let mut out = String::new();
    for (call, shows) in calls.into_iter().take(3) {
        out.push_str(&call_by_attempt(call, shows, style));
        out.push('\n');
    }
    out
}

/// One call: a headline and one line per attempt, on a common time axis.
pub(crate) fn call_by_attempt(call: &CallRecord, shows: &str, style: Style) -> String {
    let mut out = String::new();
    let Some(Story { info, attempts }) = &call.outcome.story else {
        return out;
    };
    let route = ["get", "search"][usize::from(is_search(call.number))];
    let outcome = match &call.outcome.seen {
        Ok(()) => "answered",
        Err(seen) => seen,
    };
    let _ = write!(
        out,
        "{} {}: {outcome} after {}",
        style.bold(&format!("call {} ({route})", call.number)),
        shows,
        millis(Some(call.latency)),
    );
    let ended_well = [StopReason::Success, StopReason::Committed];
    if let Some(stopped) = info
        .stopped()
        .filter(|stopped| !ended_well.contains(stopped))
    {
        let _ = write!(out, ", stopped: {}", stopped.name());
    }
    out.push('\n');
    let whole = call.latency.as_secs_f64() * 1e3;
    let backends = backends(attempts);
    for attempt in attempts {
        row(&mut out, attempt, whole, &backends);
    }
    if backends.len() > 1 {
        let named = backends.iter().zip('a'..);
        let names: Vec<_> = named
            .map(|(name, letter)| format!("{letter} = {name}"))
            .collect();
        let _ = writeln!(out, "     {}", style.dim(&names.join(", ")));
    }
    out
}

/// The different servers that the attempts went to.
fn backends(attempts: &[Attempt]) -> Vec<&str> {
    let mut found: Vec<&str> = Vec::new();
    for backend in attempts.iter().flat_map(|attempt| &attempt.backend) {
        let backend = backend.as_str();
        if !found.contains(&backend) {
            found.push(backend);
        }
    }
    found
}

fn row(out: &mut String, attempt: &Attempt, whole: f64, backends: &[&str]) {
    let _ = write!(
        out,
        "  {:>2} {:<11} {} {:>6.1} ms  ",
        attempt.n,
        attempt.kind,
        bar(attempt, whole, WIDTH),
        attempt.start_ms.value(),
    );
    match (attempt.reason, attempt.verdict) {
        (Some(reason), _) => out.push_str(reason),
        (None, "success") => out.push_str("answered"),
        (None, "cancelled") => out.push_str("dropped, another was faster"),
        (None, verdict) => out.push_str(verdict),
    }
    if let Some(Pushback(ServerPushback::Stop)) = attempt.pushback_ms {
        out.push_str(", pushback: stop");
    }
    if let Some(delay) = attempt.delay_ms {
        let asked = attempt.pushback_ms.map_or("", |_| "asked for ");
        let delay = delay.value();
        if delay == 0.0 {
            out.push_str(" → at once");
        } else {
            let _ = write!(out, " → {asked}{delay:.1} ms");
        }
    }
    let backend = attempt.backend.as_deref().filter(|_| backends.len() > 1);
    let letter = backend.and_then(|backend| {
        let place = backends.iter().position(|known| *known == backend)?;
        ('a'..='z').nth(place)
    });
    if let Some(letter) = letter {
        let _ = write!(out, " @{letter}");
    }
    out.push('\n');
}
