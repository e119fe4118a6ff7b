//! `reattempt lab --replay`: what recorded calls would have come to under another policy.

use std::fs;
use std::path::{Path, PathBuf};

use reattempt::config::Fault;
use reattempt::record::{Damage, Recording};
use reattempt_lab::replay::{Decisions, Replay};
use reattempt_lab::{PolicyText, Report, chart};
use serde_json::json;

use super::{Arguments, Problem, at_most, faults, in_file, pictures, read, warn};
use crate::printable::{Lines, OneLine, complain, say};

/// The most bytes of all files of a recording.
const MOST_BYTES: u64 = 1024 * 1024 * 1024;

/// What was recorded, among the policies.
const RECORDED: &str = "as recorded";

/// The file and its older parts.
fn files(file: &Path) -> Vec<PathBuf> {
    let older = (1..1000_u32).map(|number| {
        let mut path = file.as_os_str().to_owned();
        path.push(format!(".{number}"));
        PathBuf::from(path)
    });
    let older = older.take_while(|path| path.is_file());
    [file.to_owned()].into_iter().chain(older).collect()
}

fn recording(file: &Path) -> Result<Replay, Vec<Fault>> {
    let files = files(file);
    let mut texts: Vec<Vec<u8>> = Vec::new();
    let mut left = MOST_BYTES;
    for file in &files {
        let text = fs::File::open(file).and_then(|file| at_most(file, left));
        let text = text.map_err(|error| vec![in_file(file, error)])?;
        left = left.checked_sub(text.len() as u64).ok_or_else(|| {
            let what = "a recording of more than 1 GiB cannot be replayed";
            vec![Fault::new(file.display().to_string(), what)]
        })?;
        if texts
            .first()
            .is_some_and(|first| !Recording::is_same(first, &text))
        {
            complain!(
                "{}: of an earlier recording, ignored",
                OneLine(file.display())
            );
            break;
        }
        texts.push(text);
    }
    let fault = |damage: &Damage| {
        let file = files[damage.file].display();
        Fault::new(format!("{file}: byte {}", damage.offset), damage.what)
    };
    let read = Replay::read(&texts);
    let replay = read.map_err(|damages| damages.iter().map(fault).collect::<Vec<_>>())?;
    if let Some(cut_off) = &replay.recording().unfinished {
        warn(None, &[fault(cut_off)]);
    }
    Ok(replay)
}

fn policies(
    arguments: &Arguments,
    replay: &Replay,
) -> Result<Vec<(String, PolicyText)>, Vec<Fault>> {
    let mut policies = Vec::new();
    if let Some(own) = replay.own_policy() {
        let own = own.map_err(faults)?;
        warn(Some("the recorded policy"), &own.warnings());
        warn(Some("the recorded policy"), &replay.warnings(&own));
        policies.push(("the recorded policy".to_owned(), own));
    }
    for file in &arguments.policy {
        let name = file.display().to_string();
        if name == RECORDED || policies.iter().any(|(known, _)| *known == name) {
            let what = format!("{name} is the name of another policy of the replay");
            return Err(vec![Fault::new("--policy", what)]);
        }
        let text = read(file).map_err(|error| vec![in_file(file, error)])?;
        let (policy, warnings) =
            PolicyText::of_file(&String::from_utf8_lossy(&text)).map_err(|refused| {
                let named =
                    |fault: Fault| Fault::new(format!("{name}: {}", fault.path), fault.what);
                faults(refused).into_iter().map(named).collect::<Vec<_>>()
            })?;
        warn(Some(&name), &warnings);
        warn(Some(&name), &replay.warnings(&policy));
        policies.push((name, policy));
    }
    Ok(policies)
}

pub(super) fn run(arguments: &Arguments, file: &Path) -> Result<(), Problem> {
    let replay = recording(file)?;
    let mut report = Report {
        policies: vec![(RECORDED.to_owned(), replay.recorded())],
    };
    let mut decisions: Vec<(String, Decisions)> = Vec::new();
    for (name, policy) in policies(arguments, &replay)? {
        let seed = arguments.seed.unwrap_or(0);
        let outcome = replay
            .what_if(&policy, seed, &arguments.limits())
            .map_err(faults)?;
        decisions.push((name.clone(), replay.decisions(&policy).map_err(faults)?));
        report.policies.push((name, outcome));
    }
    let (lost, incomplete) = (replay.recording().lost, replay.incomplete());
    if arguments.json {
        let recording = json!({
            "calls": replay.calls(), "entries": replay.recording().entries.len(),
            "lost": lost, "incomplete": incomplete, "from_s": replay.from_s(),
        });
        let of = |(name, of): &(String, Decisions)| (name.clone(), json!(of));
        let decisions: serde_json::Map<_, _> = decisions.iter().map(of).collect();
        // The report is a document of its own, with its members in order.
        let text = report.to_json();
        let rest = text.strip_prefix('{').unwrap_or(&text);
        say!(
            "{{\"recording\":{recording},\"decisions\":{},{rest}",
            json!(decisions)
        )?;
        return Ok(());
    }
    say!(
        "{}: {} calls, {} entries, {lost} lost, {incomplete} without a beginning\n",
        OneLine(file.display()),
        replay.calls(),
        replay.recording().entries.len(),
    )?;
    say!("{}", Lines(chart::table(&report)))?;
    for (name, of) in &decisions {
        say!(
            "{}: {} of {} recorded decisions are the same",
            OneLine(name),
            of.same,
            of.of
        )?;
        if let Some(first) = &of.first {
            say!(
                "  the first other one, after {:.3} s, attempt {}: {}; recorded: {}",
                first.at_s,
                first.attempt,
                first.tested,
                first.recorded
            )?;
        }
    }
    Ok(pictures(
        arguments,
        &[(file.display().to_string(), report)],
    )?)
}
