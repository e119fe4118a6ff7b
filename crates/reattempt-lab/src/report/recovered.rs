//! When success was back after the trouble.

use super::Second;
use crate::scenario::Scenario;

const SECOND: f64 = 1e9;
/// Seconds in a row.
const IN_A_ROW: usize = 10;
/// Of the success before.
const OF_BEFORE: f64 = 0.99;

/// When success was back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Recovered {
    /// This many seconds after the trouble.
    After(f64),
    /// Not within the scenario, which went on for long enough with calls.
    Never,
}

/// Seconds from the end of the last fault, or of the last higher rate, to the first of ten seconds
/// in a row in which success is at least 99 % of that before the first of them. A second without a
/// call says nothing of success: the ten begin with one that has calls. `None` if there is no
/// trouble, no success before it, or after it no ten seconds that begin with calls.
pub(super) fn recovered(scenario: &Scenario, rows: &[Second]) -> Option<Recovered> {
    let faults = || {
        scenario
            .troubles()
            // A later one meets the calls that are left.
            .filter(|trouble| trouble.from < scenario.duration)
            .map(|trouble| (trouble.from, trouble.to))
    };
    let all = || faults().chain(scenario.higher_rates());
    let begins = all().map(|(from, _)| from).min()?;
    let ends = all().map(|(_, to)| to).max()?;
    if ends >= scenario.duration {
        return None;
    }
    let before = rows
        .iter()
        .filter(|row| (row.second as f64 + 1.0) * SECOND <= begins as f64);
    let (calls, good) = before.fold((0, 0.0), |(calls, good), row| {
        let share = row.success.unwrap_or(0.0);
        (calls + row.calls, good + share * row.calls as f64)
    });
    let enough = OF_BEFORE * good / calls as f64;
    // Not a number without a call.
    if enough.is_nan() || enough <= 0.0 {
        return None;
    }
    let last = scenario.duration.div_ceil(SECOND as u64);
    let after = |row: &&Second| row.second as f64 * SECOND >= ends as f64 && row.second < last;
    let after: Vec<&Second> = rows.iter().filter(after).collect();
    let is_good = |row: &&Second| row.success.is_none_or(|share| share >= enough);
    let begins_with_calls = |ten: &&[&Second]| ten[0].calls > 0;
    let tens = after.windows(IN_A_ROW).filter(begins_with_calls);
    let mut tens = tens.peekable();
    tens.peek()?;
    let first = tens.find(|ten| ten.iter().all(is_good));
    Some(first.map_or(Recovered::Never, |ten| {
        Recovered::After(ten[0].second as f64 - ends as f64 / SECOND)
    }))
}
