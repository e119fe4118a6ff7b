//! `reattempt demo`, the built program, over real sockets.

use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};

const PROTOCOLS: [&str; 4] = ["gRPC", "HTTP", "KV", "MongoDB"];
const CAPABILITIES: [&str; 3] = ["Hedging that learns", "Overload", "Backends with health"];

/// One demo at a time: each one loads the machine.
static MACHINE: Mutex<()> = Mutex::new(());

fn demo(arguments: &[&str]) -> Output {
    let _alone = MACHINE.lock().unwrap_or_else(PoisonError::into_inner);
    Command::new(env!("CARGO_BIN_EXE_reattempt"))
        .arg("demo")
        .args(arguments)
        .output()
        .expect("the program runs")
}

/// The section of each protocol.
fn sections(text: &str) -> Vec<&str> {
    text.split("━━ ").skip(1).collect()
}

/// The success rates without and with the stack.
fn success(section: &str) -> [f64; 2] {
    let line = section.lines().find(|line| line.starts_with("success"));
    let line = line.expect("a line for the success rate");
    let words: Vec<_> = line.split_whitespace().collect();
    let rates = words.windows(2).filter(|pair| pair[1] == "%");
    let rates: Vec<f64> = rates.filter_map(|pair| pair[0].parse().ok()).collect();
    // tower's own retry may stand between the two.
    [rates[0], rates[rates.len() - 1]]
}

fn page(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}

#[test]
fn the_stack_carries_more_calls_through_the_same_trouble() {
    let file = page("demo.html");
    let output = demo(&[
        "--quick",
        "--seed",
        "1",
        "--html",
        &file.display().to_string(),
    ]);
    let text = String::from_utf8(output.stdout).expect("text");
    let problem = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{problem}");
    assert_eq!(problem, "", "no terminal, no progress bar");

    let sections = sections(&text);
    assert_eq!(
        sections.len(),
        PROTOCOLS.len() + CAPABILITIES.len(),
        "{text}"
    );
    for (section, capability) in sections[PROTOCOLS.len()..].iter().zip(CAPABILITIES) {
        assert!(section.starts_with(capability), "{section}");
    }
    for (section, protocol) in sections.iter().zip(PROTOCOLS) {
        assert!(section.starts_with(protocol), "{section}");
        let [without, with] = success(section);
        assert!(with > without, "{protocol}: {without} without, {with} with");
        for row in [
            "latency p99.9",
            "attempts per call",
            "held by the throttle",
            "overload",
        ] {
            assert!(section.contains(row), "{protocol} says nothing of {row}");
        }
        assert!(section.contains("hedge"), "{protocol} shows no call");
    }
    let widest = text.lines().map(|line| line.chars().count()).max();
    assert!(widest <= Some(98), "a line of {widest:?} columns");

    let html = std::fs::read_to_string(&file).expect("the page");
    assert_eq!(html.matches("<svg").count(), 4 * PROTOCOLS.len());
    assert_eq!(html.matches("<svg").count(), html.matches("</svg>").count());
    for alien in ["<script", "<link", "<img", "@import", "url(", "src="] {
        assert!(!html.contains(alien), "the page holds {alien}");
    }
    for name in PROTOCOLS.into_iter().chain(CAPABILITIES) {
        let heading = format!("\">{name}<small>");
        assert!(html.contains(&heading), "the page lacks {name}");
    }
}

#[test]
fn one_protocol_can_be_chosen_and_a_seed_repeats_its_trouble() {
    let tell = || {
        let output = demo(&["--quick", "--seed", "7", "--protocol", "http"]);
        assert!(output.status.success());
        String::from_utf8(output.stdout).expect("text")
    };
    let (one, other) = (tell(), tell());
    assert_eq!(sections(&one).len(), 1);
    // The phases that do not depend on socket timing.
    for phase in [
        "calm",
        "temporary failures",
        "pushback",
        "overload",
        "recovery",
    ] {
        let rates = |text: &str| {
            let line = text.lines().find(|line| line.starts_with(phase));
            let words = line.expect("a line for each phase")[phase.len()..].split_whitespace();
            // Call counts, and both rates with their percent signs.
            words.take(5).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(rates(&one), rates(&other), "{phase}");
    }
}

/// The figures of a row, without their units.
fn row(section: &str, label: &str) -> Vec<f64> {
    let line = section.lines().find(|line| line.starts_with(label));
    let line = line.unwrap_or_else(|| panic!("no {label} in {section}"));
    let words = line[label.len()..].split_whitespace();
    words
        .map_while(|word| match word {
            "%" | "x" | "ms" => Some(None),
            word => word.parse().ok().map(Some),
        })
        .flatten()
        .collect()
}

/// A phase for each. Counts, and no times, which depend on the machine's load.
#[test]
fn each_capability_shows_what_it_gains() {
    let output = demo(&[
        "--quick",
        "--capability",
        "overload",
        "--capability",
        "backends",
        "--capability",
        "hedging",
    ]);
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).expect("text");
    let sections = sections(&text);
    assert_eq!(sections.len(), CAPABILITIES.len(), "{text}");

    let requests = row(sections[0], "requests per call");
    assert_eq!(requests.len(), 2, "{text}");
    assert!(requests[0] == 1.0 && requests[1] <= 1.12, "{text}");

    let arrived = row(sections[1], "requests arrived");
    assert_eq!(arrived.len(), 4, "{text}");
    let [_, retries, governor, admission] = arrived[..] else {
        panic!("{text}")
    };
    assert!(retries > 2.0 * governor, "{text}");
    assert!(governor > admission, "{text}");

    let asked = row(sections[2], "requests sent to it");
    assert!(asked[0] > 50.0 && asked[1] < asked[0] / 4.0, "{text}");
    assert_eq!(row(sections[2], "success"), [100.0; 2], "none is lost");
}

#[test]
fn capabilities_without_a_protocol_have_a_page() {
    let file = page("capability.html");
    let path = file.display().to_string();
    let output = demo(&["--quick", "--capability", "backends", "--html", &path]);
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).expect("text");
    let html = std::fs::read_to_string(&file).expect("the page");
    let (_, figures) = html.split_once("<pre>").expect("a table");
    let (figures, _) = figures.split_once("</pre>").expect("its end");
    assert!(figures.contains("requests sent to it"), "{html}");
    assert!(text.contains(figures), "not what was printed: {figures}");
    for of_protocols in ["each protocol", "the overload", "without the stack"] {
        assert!(!html.contains(of_protocols), "{html}");
    }
}

#[test]
fn a_page_that_cannot_be_written_is_said() {
    let file = page("no-such-folder").join("demo.html");
    let file = file.display().to_string();
    let output = demo(&["--quick", "--protocol", "kv", "--html", &file]);
    let problem = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(problem.contains("no-such-folder"), "{problem}");
}
