//! The figures and pictures in the lab's pages are those of this version: the lab is deterministic.
//! With `REATTEMPT_WRITE=1` the gallery is written anew.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use reattempt_lab::gallery::GALLERY;
use reattempt_lab::lint::COUNTER_EXAMPLES;
use reattempt_lab::{Limits, Report, Scenario, chart};

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs")
}

/// Compares the file with this text, or writes it.
fn is_in(file: &str, text: &str) {
    let path = docs().join("lab").join(file);
    if std::env::var_os("REATTEMPT_WRITE").is_some() {
        fs::write(path, text).unwrap();
    } else {
        let old = fs::read_to_string(&path).unwrap_or_default();
        assert!(old == text, "docs/lab/{file} is another: REATTEMPT_WRITE=1");
    }
}

/// The table without how calls ended, and what each tier was sent.
fn table(report: &Report) -> String {
    let whole = chart::table(report);
    let (rows, _) = whole.split_once("\n\n").unwrap();
    let tiers = report.policies.iter().filter_map(|(_, outcome)| {
        let inner = outcome.tiers.last()?;
        Some(format!("{:.2}", inner.amplification))
    });
    let tiers: Vec<String> = tiers.collect();
    if tiers.is_empty() {
        return rows.to_owned();
    }
    let tiers = tiers.join(", ");
    format!("{rows}\n\nattempts a call at the inner tier: {tiers}")
}

#[test]
fn each_scenario_of_the_gallery_has_its_section() {
    let mut gallery = "# The gallery\n\nTen scenarios that come with [the lab](../lab.md): what \
        happens, what it teaches, the table and the picture.\n\n\
        | scenario | what happens |\n| --- | --- |\n"
        .to_owned();
    let mut sections = String::new();
    for example in GALLERY {
        let scenario = Scenario::parse(example.document).unwrap();
        let report = scenario.run(&Limits::default()).unwrap();
        let (name, about, teaches) = (example.name, example.about, example.teaches);
        // As the program does.
        let picture = chart::svg(&format!("{name}: {about}"), &report);
        is_in(&format!("{name}.svg"), &picture);
        let table = table(&report);
        let _ = writeln!(gallery, "| [{name}](#{name}) | {about} |");
        let _ = write!(
            sections,
            "\n## {name}\n\nWhat happens: {about}. {teaches}\n\n![{about}]({name}.svg)\n\n\
             `reattempt lab --scenario {name} --svg {name}.svg` prints the table and draws the \
             picture.\n\n```text\n{table}\n```\n"
        );
    }
    is_in("gallery.md", &(gallery + &sections));
}

#[test]
fn the_lints_page_has_the_figures_of_its_counter_examples() {
    let page = fs::read_to_string(docs().join("lab.md")).unwrap();
    for example in COUNTER_EXAMPLES {
        let [linted, corrected] = example.run().unwrap();
        let rule = example.rule;
        let seen = format!("| {} |", example.seen(linted, corrected));
        let row = page
            .lines()
            .find(|line| line.starts_with(&format!("| `{rule}` |")));
        assert!(
            row.is_some_and(|row| row.ends_with(&seen)),
            "{rule}: {seen}"
        );
    }
}
