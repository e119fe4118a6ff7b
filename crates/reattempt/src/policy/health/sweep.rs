//! A50's two algorithms: which backends of one interval are outliers.

use super::options::{FailurePercentageEjection, SuccessRateEjection};

/// Successes and failures of one backend in one interval.
pub(super) type Counts = (u64, u64);

const fn volume(counts: Counts) -> u64 {
    counts.0.saturating_add(counts.1)
}

fn success_rate(counts: Counts) -> f64 {
    counts.0 as f64 / volume(counts) as f64
}

/// Those with enough attempts, if there are enough of them.
fn judged(all: &[Counts], minimum: u32, needed: u32) -> Option<Vec<usize>> {
    // One that had no attempt has no rate.
    let enough = |at: &usize| volume(all[*at]) >= u64::from(needed.max(1));
    let judged: Vec<_> = (0..all.len()).filter(enough).collect();
    (judged.len() as u64 >= u64::from(minimum)).then_some(judged)
}

/// The outliers by success rate, in the order of the list.
pub(super) fn by_success_rate(all: &[Counts], by: &SuccessRateEjection) -> Vec<usize> {
    let Some(judged) = judged(all, by.minimum_hosts, by.request_volume) else {
        return Vec::new();
    };
    let rates: Vec<f64> = judged.iter().map(|at| success_rate(all[*at])).collect();
    let number = rates.len() as f64;
    let mean = rates.iter().sum::<f64>() / number;
    let variance = rates.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>() / number;
    let least = mean - variance.sqrt() * (f64::from(by.stdev_factor) / 1000.0);
    let gap = f64::from(by.minimum_gap) / 100.0;
    let is_outlier = |at: &usize| {
        let rate = success_rate(all[*at]);
        rate < least && mean - rate >= gap
    };
    judged.into_iter().filter(is_outlier).collect()
}

/// Those of which too large a share failed, in the order of the list.
pub(super) fn by_failure_percentage(all: &[Counts], by: &FailurePercentageEjection) -> Vec<usize> {
    let Some(judged) = judged(all, by.minimum_hosts, by.request_volume) else {
        return Vec::new();
    };
    let fails = |at: &usize| {
        let counts = all[*at];
        u128::from(counts.1) * 100 > u128::from(volume(counts)) * u128::from(by.threshold)
    };
    judged.into_iter().filter(fails).collect()
}
