//! How long calls fail after a failover: a node of three dies, and some time later the others take
//! over with a new configuration revision.
//!
//! `cargo run --release -p reattempt-wire-cost --bin kv_failover -- [outages]`
//!
//! Measured from the instant at which the new configuration is available. Outages vary in duration,
//! so that their ends are spread evenly over the poll interval and the floor; all three ways run
//! each outage concurrently, each with its own cluster and client.

mod outage;
mod way;

use std::time::Duration;

use tower::BoxError;

use outage::{Outage, Story};
use way::{FLOOR, INTERVAL, Way};

/// Lower median, minimum and maximum, in milliseconds.
fn spread(times: impl Iterator<Item = Duration>) -> String {
    let mut times: Vec<f64> = times.map(|time| time.as_secs_f64() * 1e3).collect();
    times.sort_by(f64::total_cmp);
    match (&*times, times.get(times.len().saturating_sub(1) / 2)) {
        ([best, .., worst], Some(median)) => format!("{median:.1} | {best:.1} | {worst:.1}"),
        ([only], _) => format!("{only:.1} | {only:.1} | {only:.1}"),
        _ => "- | - | -".to_owned(),
    }
}

fn rows(way: Way, stories: &[Story]) {
    let each = |time: fn(&Story) -> Duration| spread(stories.iter().map(time));
    let most = |count: fn(&Story) -> usize| stories.iter().map(count).max().unwrap_or_default();
    let figures = [
        ("first read", each(|story| story.first_read)),
        ("first write", each(|story| story.first_write)),
        ("all that waited", each(|story| story.all_that_waited)),
    ];
    for (what, figure) in figures {
        println!("| {way} | {what} | {figure} |");
    }
    let lost: usize = stories.iter().map(|story| story.lost).sum();
    println!(
        "| {way} | *requests, maximum* | {} in the outage, {} after | | |",
        most(|story| story.asked_in_outage),
        most(|story| story.asked_after)
    );
    println!(
        "| {way} | *lost calls* | {lost} of {} | | |",
        stories.iter().map(|story| story.calls).sum::<usize>()
    );
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let outages: u32 = match std::env::args().nth(1) {
        Some(text) => text.parse()?,
        None => 15,
    };
    println!(
        "interval {INTERVAL:?}, floor {FLOOR:?}, best effort; {} over loopback; {outages} outages of 1 s to {:?}\n",
        Outage::LOAD,
        Duration::from_secs(1) + INTERVAL
    );
    let mut stories = Way::ALL.map(|_| Vec::new());
    for outage in 0..outages {
        // Multiples of the golden ratio cover an interval evenly, for any number of outages.
        let part = (f64::from(outage) * 0.618_034).fract();
        let lasts = Duration::from_secs(1) + INTERVAL.mul_f64(part);
        let [poll, refresh, both] = Way::ALL.map(|way| Outage { way, lasts }.run());
        let (poll, refresh, both) = tokio::try_join!(poll, refresh, both)?;
        for (of_way, story) in stories.iter_mut().zip([poll, refresh, both]) {
            of_way.push(story);
        }
    }
    println!("| way | until it succeeds, ms | median | best | worst |");
    println!("| --- | --- | ---: | ---: | ---: |");
    for (way, stories) in Way::ALL.into_iter().zip(&stories) {
        rows(way, stories);
    }
    Ok(())
}
