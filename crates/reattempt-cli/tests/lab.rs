//! `reattempt lab` and `reattempt check --lint`, as programs use them.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn reattempt(arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_reattempt"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A command that needs no input may have ended.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

const SCENARIO: &str = r#"{"seed": 3, "duration_s": 5, "arrivals": [{"per_s": 50}],
    "backends": [{"servers": 4, "latency": {"exponential_ms": 10}}],
    "policies": {"one": {"http_policy": {"default": {}}}}}"#;

#[test]
fn json_writes_one_result_and_the_same_bytes_again() {
    let first = reattempt(&["lab", "--json"], SCENARIO);
    assert!(first.status.success() && first.stderr.is_empty());
    assert_eq!(first.stdout, reattempt(&["lab", "--json"], SCENARIO).stdout);
    let result: Value = serde_json::from_slice(&first.stdout).unwrap();
    assert_eq!(result["policies"]["one"]["success"], 1.0);
}

#[test]
fn warnings_of_policies_are_on_standard_error() {
    let typo = SCENARIO.replace("\"default\": {}", "\"default\": {\"retries\": {}}");
    let path = "warning: $.policies.one.http_policy.default.retries: ";
    let programs = reattempt(&["lab", "--json"], &typo);
    assert!(programs.status.success());
    let result: Value = serde_json::from_slice(&programs.stdout).unwrap();
    assert_eq!(result["policies"]["one"]["amplification"], 1.0);
    let warnings = String::from_utf8(programs.stderr).unwrap();
    assert!(
        warnings.starts_with(path) && warnings.lines().count() == 1,
        "{warnings}"
    );
    let file = std::env::temp_dir().join(format!("reattempt-typo-{}.json", std::process::id()));
    std::fs::write(&file, typo).unwrap();
    let name = file.to_str().unwrap();
    let people = reattempt(&["lab", name], "");
    assert!(people.status.success());
    let warnings = String::from_utf8(people.stderr).unwrap();
    assert!(
        warnings.starts_with(&format!("{name}: {path}")) && warnings.lines().count() == 1,
        "{warnings}"
    );
    std::fs::remove_file(&file).unwrap();
}

/// docs/lab.md: its scenario, and its searches in it.
#[test]
fn the_scenario_of_the_page_can_be_searched() {
    let page = include_str!("../../../docs/lab.md");
    let scenario = page.split("```json\n").nth(1).unwrap();
    let scenario = scenario.split("```").next().unwrap();
    let command = page.lines().find(|line| line.contains("--tune")).unwrap();
    let command = command.split('#').next().unwrap();
    let knobs: Vec<&str> = command
        .split_whitespace()
        .skip_while(|word| *word != "--tune")
        .collect();
    assert_eq!(knobs.len(), 4, "{command}");
    let search = ["lab", "--json", "--seeds", "1"];
    for knobs in [&knobs[..2], &knobs[..]] {
        let found = reattempt(&[&search[..], knobs].concat(), scenario);
        assert!(
            found.status.success() && found.stderr.is_empty(),
            "{found:?}"
        );
        let found: Value = serde_json::from_slice(&found.stdout).unwrap();
        assert!(found["frontier"].as_array().unwrap().len() > 1, "{found}");
    }
}

#[test]
fn a_document_that_cannot_be_used_is_exit_2_with_all_faults() {
    let broken = SCENARIO.replace("\"seed\": 3", "\"seed\": true, \"sead\": 1");
    let refused = reattempt(&["lab", "--json"], &broken);
    assert_eq!(refused.status.code(), Some(2));
    assert!(refused.stdout.is_empty());
    let faults = String::from_utf8(refused.stderr).unwrap();
    let paths: Vec<&str> = faults
        .lines()
        .filter_map(|line| line.split(": ").next())
        .collect();
    assert_eq!(paths, ["$.seed", "$.sead"]);
    for text in ["", "{", "[]", "nonsense"] {
        assert_eq!(
            reattempt(&["lab", "--json"], text).status.code(),
            Some(2),
            "{text:?}"
        );
    }
    let short = reattempt(&["lab", "--json", "--max-events", "10"], SCENARIO);
    assert_eq!(short.status.code(), Some(2));
    let fault = String::from_utf8(short.stderr).unwrap();
    assert!(
        fault.starts_with("$.policies.one: the run was ended after 10 events"),
        "{fault}"
    );
}

#[test]
fn people_get_tables_and_pictures() {
    let listed = reattempt(&["lab", "--list"], "");
    assert_eq!(
        String::from_utf8(listed.stdout).unwrap().lines().count(),
        10
    );
    let folder = std::env::temp_dir().join(format!("reattempt-lab-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let [scenario, svg, html] = ["s.json", "s.svg", "s.html"].map(|name| folder.join(name));
    std::fs::write(&scenario, SCENARIO).unwrap();
    let paths = [&scenario, &svg, &html].map(|path| path.to_str().unwrap());
    let shown = reattempt(
        &["lab", paths[0], "--svg", paths[1], "--html", paths[2]],
        "",
    );
    let table = String::from_utf8(shown.stdout).unwrap();
    assert!(
        shown.status.success() && table.contains("one  ") && table.contains("100.00 %"),
        "{table}"
    );
    let picture = std::fs::read_to_string(&svg).unwrap();
    assert!(picture.starts_with("<svg ") && picture.contains("one: 100.00 % success"));
    let page = std::fs::read_to_string(&html).unwrap();
    assert!(page.contains("<svg ") && !page.contains("<script"));
    std::fs::remove_dir_all(&folder).unwrap();
    let unknown = reattempt(&["lab", "--scenario", "none"], "");
    assert_eq!(unknown.status.code(), Some(2));
}

#[test]
fn check_lint_adds_findings() {
    let file = std::env::temp_dir().join(format!("reattempt-lint-{}.json", std::process::id()));
    std::fs::write(
        &file,
        r#"{"default": {"retry": {"maxAttempts": 2, "backoff": {"jitter": "none"}}}}"#,
    )
    .unwrap();
    let path = file.to_str().unwrap();
    let arguments = ["check", "--kind", "http-policy", "--lint"];
    let people = reattempt(&[&arguments[..], &[path]].concat(), "");
    let lines = String::from_utf8(people.stdout).unwrap();
    assert!(people.status.success(), "a finding is no fault");
    assert!(
        lines.contains("finding: $.default.retry: no throttle")
            && lines.contains("(no-throttle; in the lab"),
        "{lines}"
    );
    assert!(
        lines.contains("finding: $.default.retry.backoff.jitter:"),
        "{lines}"
    );
    let json = reattempt(&[&arguments[..], &["--json", path]].concat(), "");
    let report: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(report["findings"][0]["rule"], "no-throttle");
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn tune_prints_the_frontier_and_its_policies() {
    let retrying = SCENARIO
        .replace(
            "\"default\": {}",
            "\"default\": {\"retry\": {\"maxAttempts\": 2}}",
        )
        .replace(
            "{\"exponential_ms\": 10}",
            "{\"exponential_ms\": 10}, \"faults\": [{\"kind\": \"error\", \"share\": 0.3}]",
        );
    let search = ["lab", "--json", "--tune", "attempts=1..3", "--seeds", "2"];
    let first = reattempt(&search, &retrying);
    assert!(first.status.success(), "{first:?}");
    assert_eq!(first.stdout, reattempt(&search, &retrying).stdout);
    let found: Value = serde_json::from_slice(&first.stdout).unwrap();
    let frontier = found["frontier"].as_array().unwrap();
    assert_eq!(frontier.len(), 3, "{found}");
    let policy = &frontier[0]["policy"]["http_policy"]["default"]["retry"]["maxAttempts"];
    assert_eq!(*policy, 3);
    let refused = reattempt(&["lab", "--json", "--tune", "throttle=1..3"], &retrying);
    assert_eq!(refused.status.code(), Some(2));
    assert_eq!(
        String::from_utf8(refused.stderr).unwrap(),
        "$.policies.one: has no throttle with maxTokens: add it, or name another policy by --tuned\n"
    );
}

#[test]
fn a_bad_recording_is_exit_2_with_each_offset() {
    let file = std::env::temp_dir().join(format!("reattempt-replay-{}.rec", std::process::id()));
    std::fs::write(&file, b"RATTREC2 and more").unwrap();
    let path = file.to_str().unwrap();
    let refused = reattempt(&["lab", "--replay", path], "");
    assert_eq!(refused.status.code(), Some(2));
    let fault = String::from_utf8(refused.stderr).unwrap();
    assert!(
        fault.ends_with("byte 0: is no recording of this version\n"),
        "{fault}"
    );
    std::fs::remove_file(&file).unwrap();
    let missing = reattempt(&["lab", "--replay", path], "");
    assert_eq!(missing.status.code(), Some(2));
}

#[test]
fn a_flag_without_the_one_it_needs_is_a_usage_error() {
    for (flags, said) in [
        (["--policy", "a.json"], "--policy: needs --replay FILE\n"),
        (["--tuned", "one"], "--tuned: needs --tune KNOB=FROM..TO\n"),
        (["--seeds", "2"], "--seeds: needs --tune KNOB=FROM..TO\n"),
    ] {
        for what in [&["--scenario", "calm"][..], &["a.json"], &["--json"], &[]] {
            let refused = reattempt(&[&["lab"], what, &flags].concat(), SCENARIO);
            assert_eq!(refused.status.code(), Some(2), "{what:?}");
            assert_eq!(String::from_utf8(refused.stderr).unwrap(), said);
        }
    }
    for flags in [&["a.json", "--svg", "a.svg"][..], &["--policy", "a.json"]] {
        let refused = reattempt(&[&["lab", "--list"], flags].concat(), "");
        assert_eq!(refused.status.code(), Some(2), "{flags:?}");
        let said = String::from_utf8(refused.stderr).unwrap();
        assert!(said.contains("'--list'"), "{said}");
    }
}

/// The header of a recording, without a call.
fn empty_recording() -> Vec<u8> {
    let mut text = b"RATTREC1\x26\0\0\0".to_vec();
    text.extend([0; 16]);
    // FNV-1a.
    let sum = text.iter().fold(0x811c_9dc5_u32, |sum, byte| {
        (sum ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    });
    text.extend(sum.to_le_bytes());
    text
}

/// The program that wrote it was killed, or still runs.
#[test]
fn a_recording_that_is_cut_off_is_replayed_with_a_warning() {
    let mut text = empty_recording();
    text.extend(b"RBLK\x01");
    let file = std::env::temp_dir().join(format!("reattempt-cut-{}.rec", std::process::id()));
    std::fs::write(&file, text).unwrap();
    let replayed = reattempt(&["lab", "--replay", file.to_str().unwrap()], "");
    std::fs::remove_file(&file).unwrap();
    let said = String::from_utf8(replayed.stderr).unwrap();
    let warning = "byte 32: a block is not complete\n";
    assert!(
        said.starts_with("warning: ") && said.ends_with(warning),
        "{said}"
    );
    assert_eq!(replayed.status.code(), Some(0));
}

#[test]
fn policies_of_a_replay_with_one_name_are_refused() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let [recording, policy] = ["named.rec", "named.json"].map(|name| folder.join(name));
    std::fs::write(&recording, empty_recording()).unwrap();
    std::fs::write(&policy, r#"{"default": {}}"#).unwrap();
    let policy = policy.to_str().unwrap();
    let replay = ["lab", "--replay", recording.to_str().unwrap()];
    let once = reattempt(&[&replay[..], &["--policy", policy]].concat(), "");
    assert_eq!(once.status.code(), Some(0), "{once:?}");
    for [first, second] in [[policy, policy], [policy, "as recorded"]] {
        let policies = ["--policy", first, "--policy", second];
        let refused = reattempt(&[&replay[..], &policies].concat(), "");
        assert_eq!(refused.status.code(), Some(2));
        let what = format!("--policy: {second} is the name of another policy of the replay\n");
        assert_eq!(String::from_utf8(refused.stderr).unwrap(), what);
    }
}

#[test]
fn a_search_with_pictures_or_no_seeds_is_a_usage_error() {
    let search = ["lab", "--scenario", "calm", "--tune", "attempts=1..2"];
    for (flags, named) in [
        (["--svg", "a.svg"], "'--svg <FILE>'"),
        (["--html", "a.html"], "'--html <FILE>'"),
        (["--seeds", "0"], "'--seeds <N>'"),
    ] {
        let refused = reattempt(&[&search[..], &flags].concat(), "");
        assert_eq!(refused.status.code(), Some(2));
        let said = String::from_utf8(refused.stderr).unwrap();
        assert!(said.contains(named), "{said}");
    }
}

/// The exit status and standard error of runs that write to `output`: a list, JSON, and a table.
#[cfg(target_os = "linux")]
fn written_to(output: impl Fn() -> Stdio) -> Vec<(Option<i32>, String)> {
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("written.json");
    std::fs::write(&file, SCENARIO).unwrap();
    let path = file.to_str().unwrap();
    let runs = [&["--list"][..], &["--json"], &[path]].map(|arguments| {
        let ran = Command::new(env!("CARGO_BIN_EXE_reattempt"))
            .arg("lab")
            .args(arguments)
            .stdin(std::fs::File::open(&file).unwrap())
            .stdout(output())
            .output()
            .unwrap();
        (ran.status.code(), String::from_utf8(ran.stderr).unwrap())
    });
    runs.to_vec()
}

#[cfg(target_os = "linux")]
#[test]
fn a_result_that_cannot_be_written_is_exit_1() {
    let full = || std::fs::File::create("/dev/full").unwrap().into();
    for (status, said) in written_to(full) {
        assert_eq!(status, Some(1), "{said}");
        let begins = "reattempt lab: cannot write the result: No space left";
        assert!(
            said.starts_with(begins) && said.lines().count() == 1,
            "{said}"
        );
    }
}

#[test]
fn a_picture_that_cannot_be_written_is_exit_1() {
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("unwritten.json");
    std::fs::write(&file, SCENARIO).unwrap();
    // A file is no folder.
    let (file, picture) = (file.to_str().unwrap(), file.join("a"));
    let picture = picture.to_str().unwrap();
    for flag in ["--svg", "--html"] {
        let ran = reattempt(&["lab", file, flag, picture], "");
        assert_eq!(ran.status.code(), Some(1));
        let said = String::from_utf8(ran.stderr).unwrap();
        let begins = format!("reattempt lab: cannot write the result: {picture}: ");
        assert!(
            said.starts_with(&begins) && said.lines().count() == 1,
            "{said}"
        );
    }
}

/// As `| head -1` does.
#[cfg(target_os = "linux")]
#[test]
fn a_reader_that_wants_no_more_is_no_error() {
    let closed = || std::io::pipe().unwrap().1.into();
    for ended in written_to(closed) {
        assert_eq!(ended, (Some(0), String::new()));
    }
}
