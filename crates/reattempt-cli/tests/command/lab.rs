//! `reattempt lab` and `reattempt check --lint`, as programs use them.

use serde_json::Value;

use super::{file, has, path, run, run_with};

const SCENARIO: &str = r#"{"seed": 3, "duration_s": 5, "arrivals": [{"per_s": 50}],
    "backends": [{"servers": 4, "latency": {"exponential_ms": 10}}],
    "policies": {"one": {"http_policy": {"default": {}}}}}"#;

fn json(said: &str) -> Value {
    serde_json::from_str(said).unwrap()
}

/// One line that begins so.
#[track_caller]
fn is_line(said: &str, begins: &str) {
    assert!(said.starts_with(begins), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[tokio::test]
async fn json_writes_one_result_and_the_same_bytes_again() {
    let first = run_with("lab --json", SCENARIO).await.says(0);
    assert_eq!(first, run_with("lab --json", SCENARIO).await.says(0));
    assert_eq!(json(&first)["policies"]["one"]["success"], 1.0);
}

#[tokio::test]
async fn a_document_that_is_too_long_is_refused_by_its_limit() {
    let long = " ".repeat(4 * 1024 * 1024 + 9) + SCENARIO;
    let what = "must be at most 4194304 bytes long";
    let said = run_with("lab --json", &long).await.complains(2);
    assert_eq!(said, format!("$: {what}"));
    let name = file("long.json", long);
    let said = run(format!("lab '{name}'")).await.complains(2);
    assert_eq!(said, format!("{name}: {what}"));
}

#[tokio::test]
async fn warnings_of_policies_are_on_standard_error() {
    let typo = SCENARIO.replace("\"default\": {}", "\"default\": {\"retries\": {}}");
    let warning = "warning: $.policies.one.http_policy.default.retries: ";
    let programs = run_with("lab --json", &typo).await;
    assert_eq!(programs.status, Some(0));
    let amplification = &json(&programs.out)["policies"]["one"]["amplification"];
    assert_eq!(*amplification, 1.0);
    is_line(&programs.err, warning);
    let name = file("typo.json", typo);
    let people = run(format!("lab '{name}'")).await;
    assert_eq!(people.status, Some(0));
    is_line(&people.err, &format!("{name}: {warning}"));
}

/// docs/lab.md: its scenario, and its searches in it.
#[tokio::test]
async fn the_scenario_of_the_page_can_be_searched() {
    let page = include_str!("../../../../docs/lab.md");
    let scenario = page.split("```json\n").nth(1).unwrap();
    let scenario = scenario.split("```").next().unwrap();
    let command = page.lines().find(|line| line.contains("--tune")).unwrap();
    let command = command.split('#').next().unwrap();
    let knobs: Vec<&str> = command
        .split_whitespace()
        .skip_while(|word| *word != "--tune")
        .collect();
    assert_eq!(knobs.len(), 4, "{command}");
    for knobs in [&knobs[..2], &knobs[..]] {
        let search = format!("lab --json --seeds 1 {}", knobs.join(" "));
        let found = json(&run_with(&search, scenario).await.says(0));
        assert!(found["frontier"].as_array().unwrap().len() > 1, "{found}");
    }
}

#[tokio::test]
async fn a_document_that_cannot_be_used_is_exit_2_with_all_faults() {
    let broken = SCENARIO.replace("\"seed\": 3", "\"seed\": true, \"sead\": 1");
    let faults = run_with("lab --json", &broken).await.complains(2);
    let paths = faults.lines().filter_map(|line| line.split(": ").next());
    assert_eq!(paths.collect::<Vec<_>>(), ["$.seed", "$.sead"]);
    for text in ["", "{", "[]", "nonsense"] {
        run_with("lab --json", text).await.complains(2);
    }
    let short = run_with("lab --json --max-events 10", SCENARIO).await;
    let ended = "$.policies.one: the run was ended after 10 events";
    assert!(short.complains(2).starts_with(ended));
}

#[tokio::test]
async fn people_get_tables_and_pictures() {
    let listed = run("lab --list").await.says(0);
    assert_eq!(listed.lines().count(), 10);
    let scenario = file("pictured.json", SCENARIO);
    let [svg, html] = ["s.svg", "s.html"].map(path);
    let shown = run(format!("lab '{scenario}' --svg '{svg}' --html '{html}'"));
    has(&shown.await.says(0), ["one  ", "100.00 %"]);
    let picture = std::fs::read_to_string(&svg).unwrap();
    assert!(picture.starts_with("<svg ") && picture.contains("one: 100.00 % success"));
    let page = std::fs::read_to_string(&html).unwrap();
    assert!(page.contains("<svg ") && !page.contains("<script"));
    run("lab --scenario none").await.complains(2);
}

#[tokio::test]
async fn check_lint_adds_findings() {
    let policy = r#"{"default": {"retry": {"maxAttempts": 2, "backoff": {"jitter": "none"}}}}"#;
    let file = file("lint.json", policy);
    let check = format!("check --kind http-policy --lint '{file}'");
    // A finding is no fault.
    let lines = run(&check).await.says(0);
    let throttle = "finding: $.default.retry: no throttle";
    let jitter = "finding: $.default.retry.backoff.jitter:";
    has(&lines, [throttle, "(no-throttle; in the lab", jitter]);
    let report = json(&run(format!("{check} --json")).await.says(0));
    assert_eq!(report["findings"][0]["rule"], "no-throttle");
}

#[tokio::test]
async fn tune_prints_the_frontier_and_its_policies() {
    let retry = "\"default\": {\"retry\": {\"maxAttempts\": 2}}";
    let retrying = SCENARIO.replace("\"default\": {}", retry);
    let latency = "{\"exponential_ms\": 10}";
    let faults = format!("{latency}, \"faults\": [{{\"kind\": \"error\", \"share\": 0.3}}]");
    let retrying = retrying.replace(latency, &faults);
    let search = "lab --json --tune attempts=1..3 --seeds 2";
    let first = run_with(search, &retrying).await.says(0);
    assert_eq!(first, run_with(search, &retrying).await.says(0));
    let found = json(&first);
    let frontier = found["frontier"].as_array().unwrap();
    assert_eq!(frontier.len(), 3, "{found}");
    let policy = &frontier[0]["policy"]["http_policy"]["default"]["retry"]["maxAttempts"];
    assert_eq!(*policy, 3);
    let refused = run_with("lab --json --tune throttle=1..3", &retrying).await;
    let fault = "has no throttle with maxTokens: add it, or name another policy by --tuned";
    assert_eq!(refused.complains(2), format!("$.policies.one: {fault}"));
}

#[tokio::test]
async fn a_bad_recording_is_exit_2_with_each_offset() {
    let path = file("bad.rec", "RATTREC2 and more");
    let fault = run(format!("lab --replay '{path}'")).await.complains(2);
    assert!(
        fault.ends_with("byte 0: is no recording of this version"),
        "{fault}"
    );
    run("lab --replay '/no such file'").await.complains(2);
}

#[tokio::test]
async fn a_flag_without_the_one_it_needs_is_a_usage_error() {
    for (flag, said) in [
        ("--policy a.json", "--policy: needs --replay FILE"),
        ("--tuned one", "--tuned: needs --tune KNOB=FROM..TO"),
        ("--seeds 2", "--seeds: needs --tune KNOB=FROM..TO"),
    ] {
        for what in ["--scenario calm", "a.json", "--json", ""] {
            let refused = run_with(&format!("lab {what} {flag}"), SCENARIO).await;
            assert_eq!(refused.complains(2), said, "{what}");
        }
    }
    for flags in ["a.json --svg a.svg", "--policy a.json"] {
        let refused = run(format!("lab --list {flags}")).await;
        has(&refused.complains(2), ["'--list'"]);
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
#[tokio::test]
async fn a_recording_that_is_cut_off_is_replayed_with_a_warning() {
    let cut_off = [&*empty_recording(), b"RBLK\x01"].concat();
    let replayed = run(format!("lab --replay '{}'", file("cut.rec", cut_off))).await;
    assert_eq!(replayed.status, Some(0));
    let said = replayed.err;
    assert!(said.starts_with("warning: "), "{said}");
    assert!(
        said.ends_with("byte 32: a block is not complete\n"),
        "{said}"
    );
}

#[tokio::test]
async fn policies_of_a_replay_with_one_name_are_refused() {
    let policy = file("named.json", r#"{"default": {}}"#);
    let replay = format!("lab --replay '{}'", file("named.rec", empty_recording()));
    let once = format!("{replay} --policy '{policy}'");
    assert_eq!(run(&once).await.status, Some(0));
    for second in [&*policy, "as recorded"] {
        let said = run(format!("{once} --policy '{second}'"))
            .await
            .complains(2);
        let what = format!("--policy: {second} is the name of another policy of the replay");
        assert_eq!(said, what);
    }
}

#[tokio::test]
async fn a_search_with_pictures_or_no_seeds_is_a_usage_error() {
    for (flag, named) in [
        ("--svg a.svg", "'--svg <FILE>'"),
        ("--html a.html", "'--html <FILE>'"),
        ("--seeds 0", "'--seeds <N>'"),
    ] {
        let refused = run(format!("lab --scenario calm --tune attempts=1..2 {flag}"));
        has(&refused.await.complains(2), [named]);
    }
}

/// The ends of runs that write to `output`: a list, JSON, and a table.
#[cfg(target_os = "linux")]
async fn written_to(name: &str, output: impl Fn() -> std::process::Stdio) -> Vec<super::Ended> {
    let path = file(name, SCENARIO);
    let mut ended = Vec::new();
    for arguments in ["--list", "--json", &format!("'{path}'")] {
        let mut program = super::program(&format!("lab {arguments}"));
        let input = std::fs::File::open(&path).unwrap();
        let child = program.stdin(input).stdout(output()).spawn().unwrap();
        ended.push(super::end_of(child, "").await);
    }
    ended
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_result_that_cannot_be_written_is_exit_1() {
    let full = || std::fs::File::create("/dev/full").unwrap().into();
    for ended in written_to("full.json", full).await {
        let begins = "reattempt lab: cannot write the result: No space left";
        is_line(&ended.complains(1), begins);
    }
}

#[tokio::test]
async fn a_picture_that_cannot_be_written_is_exit_1() {
    let file = file("unwritten.json", SCENARIO);
    // A file is no folder.
    let picture = format!("{file}/a");
    for flag in ["--svg", "--html"] {
        let ran = run(format!("lab '{file}' {flag} '{picture}'")).await;
        assert_eq!(ran.status, Some(1));
        let begins = format!("reattempt lab: cannot write the result: {picture}: ");
        is_line(&ran.err, &begins);
    }
}

/// As `| head -1` does.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_reader_that_wants_no_more_is_no_error() {
    let closed = || std::io::pipe().unwrap().1.into();
    for ended in written_to("closed.json", closed).await {
        assert_eq!((ended.status, &*ended.err), (Some(0), ""));
    }
}
