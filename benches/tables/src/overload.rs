//! What each throttle does to a server in trouble: the figures of `docs/overload.md`.

use reattempt_lab::{Limits, Outcome, Scenario};
use serde_json::Value;

#[path = "../../../crates/reattempt-lab/tests/lab/overload/worlds.rs"]
mod worlds;

use worlds::{CAPACITY, TRIGGERS};

/// The outcome of each policy.
fn run(mut world: Value) -> Vec<(String, Outcome)> {
    world["policies"] = worlds::policies()
        .into_iter()
        .map(|(name, policy)| (name.to_owned(), policy))
        .collect();
    let text = world.to_string();
    let scenario = Scenario::parse(&text).unwrap_or_else(|faults| panic!("{faults}"));
    let report = scenario.run(&Limits::default());
    report.unwrap_or_else(|faults| panic!("{faults}")).policies
}

fn table(title: &str, columns: &str, world: Value, row: impl Fn(&Outcome) -> String) {
    println!("\n{title}\n{:<18}{columns}", "");
    for (name, outcome) in run(world) {
        println!("{name:<18}{}", row(&outcome));
    }
}

/// All of it.
pub(crate) fn print() {
    for share in [0.05, 0.25, 0.5, 1.0] {
        table(
            &format!("each attempt fails with {share}"),
            "   success  amplification",
            worlds::transient(share),
            |seen| format!("{:>10.4}{:>15.4}", seen.success, seen.amplification),
        );
    }
    table(
        "four times the capacity is offered",
        " arrive / capacity  served / capacity",
        worlds::four_times(),
        |seen| {
            let offered = seen.calls as f64 / (4.0 * CAPACITY);
            let share = |number: f64| number / offered / CAPACITY;
            let served = share(seen.success * seen.calls as f64);
            format!("{:>18.3}{:>19.3}", share(seen.attempts as f64), served)
        },
    );
    for trigger in TRIGGERS {
        for load in [0.5, 0.7, 0.8, 0.9] {
            table(
                &format!("storm: {trigger:?} for 10 s at load {load}"),
                "   success  amplification  recovered after s",
                worlds::storm(trigger, load),
                |seen| {
                    let back = seen.recovered_s;
                    let back = back.map_or("never".to_owned(), |seconds| seconds.to_string());
                    format!(
                        "{:>10.4}{:>15.4}{back:>19}",
                        seen.success, seen.amplification
                    )
                },
            );
        }
    }
    table(
        "one call a second, after an outage of a minute: each attempt fails with 0.1",
        "   success",
        worlds::trickle(),
        |seen| format!("{:>10.4}", seen.success),
    );
}
