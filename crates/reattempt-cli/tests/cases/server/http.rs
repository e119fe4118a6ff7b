//! The kinds `http` and, for what both protocols share, `grpc`: scripted servers.

use std::time::Duration;

use ::http::HeaderMap;
use reattempt_testbed::http::script::Script;
use reattempt_testbed::http::server::{Server, Wire};
use reattempt_testbed::http::{self, Options, SeenRequest, Step};
use serde_json::{Map, Value, json};

use super::names;
use crate::expand::Names;
use crate::members::{Members, Result};

pub(crate) struct Http(http::Server);

impl Http {
    pub(super) async fn start(script: Value) -> Result<Self> {
        let (options, script) = self::script::<SeenRequest, _>(script, "status", step)?;
        let server = Server::start_with(options, script).await;
        server.map(Self).map_err(|error| error.to_string())
    }

    pub(super) fn names(&self) -> Names {
        names(self.0.uri(), self.0.addr())
    }

    pub(super) fn seen(&self) -> Value {
        let requests: Vec<_> = self.0.seen().iter().map(seen).collect();
        overview(&self.0, requests)
    }

    pub(super) async fn act(&self, action: &mut Members) -> Result<()> {
        act(&self.0, action).await
    }
}

/// `[step, ..]`, or an object with `steps` and options. The last step answers all further requests,
/// unless it says how many `times` it is taken.
pub(super) fn script<Seen, Step: Clone + Default>(
    script: Value,
    number: &str,
    step: impl Fn(&mut Members) -> Result<Step>,
) -> Result<(Options, Script<Seen, Step>)> {
    let mut options = Options::new();
    let steps: Vec<Value> = match script {
        Value::Array(steps) => steps,
        object => {
            let mut members = Members::of("server", object)?;
            if let Some(streams) = members.take("max_concurrent_streams")? {
                options = options.max_concurrent_streams(streams);
            }
            let steps = members.need("steps")?;
            members.finish()?;
            steps
        }
    };
    let (mut script, last) = (Script::new(), steps.len());
    for (n, words) in steps.into_iter().enumerate() {
        let mut words = Members::step(words, number)?;
        let times: Option<usize> = words.take("times")?;
        let step = step(&mut words)?;
        words.finish()?;
        script = match times {
            None if n + 1 == last => script.otherwise(step),
            times => script.then_times(times.unwrap_or(1), step),
        };
    }
    Ok((options, script))
}

fn step(words: &mut Members) -> Result<Step> {
    let mut step = if let Some(bytes) = words.take("close_during_body")? {
        Step::close_during_body(bytes)
    } else if let Some(bytes) = words.take("reset_during_body")? {
        Step::reset_during_body(bytes)
    } else if let Some(bytes) = words.take("hang_during_body")? {
        Step::hang_during_body(bytes)
    } else if let Some(code) = words.take::<u32>("reset_with")? {
        Step::reset_with(code)
    } else {
        let word = words.word(&[
            ("hang", Step::hang as fn() -> Step),
            ("close_before", Step::close_before),
            ("reset", Step::reset),
            ("refuse_stream", Step::refuse_stream),
            ("go_away", Step::go_away),
            ("half_frame", Step::half_frame),
        ]);
        word?.unwrap_or(Step::default)()
    };
    if let Some(status) = words.take("status")? {
        step = step.with_status(status);
    }
    for (name, value) in headers(words, "headers")? {
        step = step.header(name, value);
    }
    if let Some(body) = words.take::<String>("body")? {
        step = step.body(body);
    }
    if let Some(delay) = millis(words, "after_ms")? {
        step = step.after(delay);
    }
    if let Some(delay) = millis(words, "body_after_ms")? {
        step = step.body_after(delay);
    }
    if let Some((bytes, apart)) = words.take("in_pieces")? {
        step = step.in_pieces(bytes, Duration::from_millis(apart));
    }
    if words.flag("at_once")? {
        step = step.at_once();
    }
    Ok(step)
}

pub(super) fn millis(words: &mut Members, name: &str) -> Result<Option<Duration>> {
    Ok(words.take(name)?.map(Duration::from_millis))
}

/// `{name: value}` or `{name: [value, ..]}`.
pub(super) fn headers(words: &mut Members, name: &str) -> Result<Vec<(String, String)>> {
    let mut headers = Vec::new();
    for (name, value) in words.take::<Map<String, Value>>(name)?.unwrap_or_default() {
        let values = match value {
            Value::Array(values) => values,
            one => vec![one],
        };
        for value in values {
            let value = value
                .as_str()
                .ok_or(format!("{name}: must be a text, got {value}"))?;
            headers.push((name.clone(), value.to_owned()));
        }
    }
    Ok(headers)
}

/// What all scripted servers tell of what they saw.
pub(super) fn overview<P: Wire>(server: &Server<P>, requests: Vec<Value>) -> Value {
    json!({
        "count": server.seen_count(),
        "connections": server.connections_accepted(),
        "cancelled": server.cancelled().len(),
        "requests": requests,
    })
}

/// Each name with the list of its values; what is not text reads with replacements.
pub(super) fn header_lists(headers: &HeaderMap) -> Value {
    let texts = |name| {
        let values = headers.get_all(name).iter();
        let texts = values.map(|value| String::from_utf8_lossy(value.as_bytes()));
        texts.collect::<Value>()
    };
    headers
        .keys()
        .map(|name| (name.to_string(), texts(name)))
        .collect()
}

pub(super) async fn act<P: Wire>(server: &Server<P>, action: &mut Members) -> Result<()> {
    if action.flag("stop")? {
        server.stop().await;
    }
    if action.flag("drop_connections")? {
        server.drop_connections();
    }
    Ok(())
}

fn seen(request: &SeenRequest) -> Value {
    json!({
        "method": request.method.as_str(),
        "path": request.path,
        "headers": header_lists(&request.headers),
        "body": String::from_utf8_lossy(&request.body),
        "connection": request.connection,
        "cancelled": request.cancelled.is_some(),
    })
}
