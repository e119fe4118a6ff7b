//! Runs one case: starts its servers, runs the program and compares.

use std::process::{Output, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::time::{Instant, sleep, timeout};

use super::case::{Case, Expected};
use super::expand::{Names, expand, layers, merge};
use super::matching::{Matching, check_operators, short};
use super::members::{Members, Result};
use super::server::Server;

/// Long enough for a slow machine; no passing case waits this long.
const SOON: Duration = Duration::from_secs(60);

/// How long the servers may take to see what is expected, after the program has ended.
const SEEN_WITHIN: Duration = Duration::from_secs(5);

/// Runs all variants of a case.
pub(crate) fn run(case: &Case) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.map_err(|error| error.to_string())?.block_on(async {
        for variant in &case.variants {
            let named = |fault: String| match variant.is_empty() {
                true => fault,
                false => format!("with {}:\n{fault}", json!(variant)),
            };
            run_variant(case, variant).await.map_err(named)?;
        }
        Ok(())
    })
}

async fn run_variant(case: &Case, variant: &Names) -> Result<()> {
    let mut names = case.names.clone();
    names.extend(variant.clone());
    let mut server = None;
    if let Some((kind, script)) = &case.server {
        let started = Server::start(kind, expand(script, &names)?).await?;
        names.extend(started.names());
        server = Some(started);
    }
    let mut matching = Matching::default();
    let (mut lines, mut seen) = (Vec::new(), None);
    for run in &case.runs {
        let mut names = names.clone();
        names.extend(run.clone());
        let expected = case.expected.expand(&names)?;
        let (output, done) = tokio::join!(
            program(input(case, &names)?),
            meanwhile(expand(&case.meanwhile, &names)?, server.as_ref()),
        );
        done?;
        let before = lines.len();
        compare_output(&mut matching, &expected, &output?, &mut lines)?;
        let checked = server.as_ref().map(|server| server.check(&lines[before..]));
        matching.differences.extend(checked.and_then(Result::err));
        seen = expected.seen_or_none();
    }
    if let Some((seen, server)) = seen.zip(server.as_ref()) {
        seen_within(&mut matching, SEEN_WITHIN, &seen, server).await;
    }
    if matching.differences.is_empty() {
        return Ok(());
    }
    let answers = lines.iter().map(|line| format!("\n  {}", short(line)));
    let differences = matching.differences.join("\n");
    Err(format!(
        "{differences}\nthe answers:{}",
        answers.collect::<String>()
    ))
}

/// Standard input of the program.
fn input(case: &Case, names: &Names) -> Result<String> {
    if let Some(input) = &case.input {
        return Ok(expand(input, names)?
            .as_str()
            .unwrap_or_default()
            .to_owned());
    }
    let mut document = json!({"linger_ms": 0});
    if let Some((kind, _)) = &case.server {
        // The kinds without a protocol of their own serve plain sockets to HTTP calls.
        let other = ["raw", "listener"].contains(kind);
        document["protocol"] = json!(if other { "http" } else { *kind });
        document["target"] = expand(&json!("${server}"), names)?;
    }
    merge(&mut document, layers(&case.document, names)?);
    let mut calls = expand(&case.calls, names)?;
    for call in calls.as_array_mut().into_iter().flatten() {
        let mut whole = layers(&case.call, names)?;
        merge(&mut whole, call.take());
        *call = whole;
    }
    document["calls"] = calls;
    Ok(document.to_string())
}

async fn program(input: String) -> Result<Output> {
    let mut child = Command::new(env!("CARGO_BIN_EXE_reattempt"))
        .args(["call", "--json"])
        .env_remove("RUST_LOG")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| error.to_string())?;
    let mut stdin = child.stdin.take().ok_or("no standard input")?;
    let ended = async move {
        // A program that rejects its document closes its input unread.
        let _ = stdin.write_all(input.as_bytes()).await;
        drop(stdin);
        child
            .wait_with_output()
            .await
            .map_err(|error| error.to_string())
    };
    timeout(SOON, ended)
        .await
        .map_err(|_| "the program hangs".to_owned())?
}

/// Performs the actions of `meanwhile` one after the other: `wait_ms`, `until` the servers have
/// seen this, or one of the kind of server.
async fn meanwhile(actions: Value, server: Option<&Server>) -> Result<()> {
    for action in actions.as_array().into_iter().flatten() {
        let mut action = Members::step(action.clone(), "wait_ms")?;
        if let Some(ms) = action.take("wait_ms")? {
            sleep(Duration::from_millis(ms)).await;
        }
        let server = server.ok_or("meanwhile: no server")?;
        if let Some(wanted) = action.take::<Value>("until")? {
            let mut matching = Matching::default();
            seen_within(&mut matching, SOON, &wanted, server).await;
            if let Some(difference) = matching.differences.first() {
                return Err(format!("meanwhile.until: {difference}"));
            }
        }
        server.act(&mut action).await?;
        action.finish()?;
    }
    Ok(())
}

impl Expected {
    fn expand(&self, names: &Names) -> Result<Self> {
        let checked = |part: &Value| {
            let part = expand(part, names)?;
            check_operators(&part).map(|()| part)
        };
        let part = |part: &Option<Value>| part.as_ref().map(checked).transpose();
        Ok(Self {
            answer: part(&self.answer)?,
            answers: part(&self.answers)?,
            every: part(&self.every)?,
            fault: part(&self.fault)?,
            stderr: part(&self.stderr)?,
            seen: part(&self.seen)?,
        })
    }

    /// A number is the count; of an unusable document nothing is seen.
    fn seen_or_none(self) -> Option<Value> {
        match self.seen {
            Some(Value::Number(count)) => Some(json!({"count": count})),
            None if self.fault.is_some() => Some(json!({"count": 0})),
            seen => seen,
        }
    }
}

fn compare_output(
    matching: &mut Matching,
    expected: &Expected,
    output: &Output,
    lines: &mut Vec<Value>,
) -> Result<()> {
    let stderr = String::from_utf8_lossy(&output.stderr)
        .trim_end()
        .to_owned();
    let stdout = String::from_utf8_lossy(&output.stdout);
    let status = json!(output.status.code());
    if let Some(fault) = &expected.fault {
        matching.compare("exit status", &json!(2), &status);
        matching.compare("standard output", &json!(""), &stdout.into());
        let lines = json!(stderr.lines().count());
        matching.compare("lines of standard error", &json!(1), &lines);
        matching.compare("fault", fault, &stderr.into());
        return Ok(());
    }
    matching.compare("exit status", &json!(0), &status);
    // A layer in the wrong place would log a warning.
    let silent = json!("");
    let said = expected.stderr.as_ref().unwrap_or(&silent);
    matching.compare("stderr", said, &stderr.into());
    let mut answers = Vec::new();
    for line in stdout.lines() {
        let mut answer = serde_json::from_str(line).map_err(|error| format!("{error}: {line}"))?;
        check_times(matching, &mut answer);
        answers.push(answer);
    }
    lines.extend(answers.iter().cloned());
    if let Some(every) = &expected.every {
        for (n, answer) in answers.iter().enumerate() {
            matching.compare(&format!("every answer[{n}]"), every, answer);
        }
    }
    if let Some(wanted) = &expected.answers {
        let of_list = |(name, _): (&String, &_)| name.starts_with('[');
        let (count, found) = match wanted {
            Value::Object(wanted) if !wanted.iter().any(of_list) => {
                let name = |answer: &Value| answer["call"].as_str().unwrap_or_default().to_owned();
                let named = answers.iter().map(|answer| (name(answer), answer.clone()));
                (Some(wanted.len()), named.collect())
            }
            wanted => (wanted.as_array().map(Vec::len), answers.clone().into()),
        };
        if let Some(count) = count {
            matching.compare("number of answers", &json!(count), &answers.len().into());
        }
        matching.compare("answers", wanted, &found);
    }
    if let Some(wanted) = &expected.answer {
        matching.compare("number of answers", &json!(1), &answers.len().into());
        matching.compare("answer", wanted, answers.first().unwrap_or(&Value::Null));
    }
    Ok(())
}

/// The times of the attempts are in order and within the call. Adds to each attempt `took_ms`,
/// `waited_ms`, the time since the end of the one before, and `late_ms`, the same without the delay
/// announced there.
fn check_times(matching: &mut Matching, answer: &mut Value) {
    let elapsed = answer["elapsed_ms"].as_f64().unwrap_or(f64::NAN);
    let (mut started, mut before) = (0.0, None);
    for attempt in answer["attempts"].as_array_mut().into_iter().flatten() {
        let time = |name: &str| attempt[name].as_f64().unwrap_or(f64::NAN);
        let (start, end) = (time("start_ms"), time("end_ms"));
        if !(started <= start && start <= end && end <= elapsed) {
            let difference = format!("times in disorder: {attempt} of {elapsed} ms");
            matching.differences.push(difference);
        }
        let due = (end, attempt["delay_ms"].as_f64().map(|delay| end + delay));
        attempt["took_ms"] = json!(end - start);
        attempt["waited_ms"] = json!(before.map(|(ended, _)| start - ended));
        attempt["late_ms"] =
            json!(before.and_then(|(_, due): (f64, Option<f64>)| Some(start - due?)));
        (started, before) = (start, Some(due));
    }
}

/// Compares what the servers see until it is what is wanted, or the time is over.
async fn seen_within(matching: &mut Matching, limit: Duration, wanted: &Value, server: &Server) {
    let until = Instant::now() + limit;
    loop {
        let mut trial = matching.clone();
        trial.compare("seen", wanted, &server.seen());
        if trial.differences.len() == matching.differences.len() || Instant::now() > until {
            *matching = trial;
            return;
        }
        sleep(Duration::from_millis(5)).await;
    }
}
