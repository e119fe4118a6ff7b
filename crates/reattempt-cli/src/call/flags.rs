//! `reattempt call` for people: flags that make the same document a program would write.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueEnum;
use serde_json::{Map, Value, json};

use super::document::{Fault, to_base64};

/// Makes calls, and shows every attempt of them.
///
/// Example: reattempt call --target 127.0.0.1:50051 --method /echo.Echo/Say --payload hello --config config.json --timeout 2s
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Reads one JSON document from standard input and writes one JSON line per call to standard output
    #[arg(long, exclusive = true)]
    pub(crate) json: bool,
    /// The protocol spoken
    #[arg(long, value_enum, default_value_t)]
    protocol: ProtocolFlag,
    /// The server: host:port, or a URL for http
    #[arg(long, required_unless_present = "json")]
    target: Option<String>,
    /// grpc: /package.Service/Method; http: the method, GET unless said
    #[arg(long)]
    method: Option<String>,
    /// What is sent: text, or @FILE; for grpc once per message
    #[arg(long, value_name = "TEXT|@FILE")]
    payload: Vec<String>,
    /// A metadata entry (grpc) or a header (http)
    #[arg(long, value_name = "NAME: VALUE")]
    header: Vec<String>,
    /// The service config (grpc) or the policy (http) as a JSON file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The time limit of each call, like 2s or 300ms
    #[arg(long, value_parser = duration)]
    timeout: Option<Duration>,
    /// How many calls are made
    #[arg(long, default_value_t = 1, value_name = "N")]
    repeat: u32,
    /// Makes all calls at once instead of one after another
    #[arg(long)]
    parallel: bool,
    /// Makes jitter repeatable
    #[arg(long)]
    seed: Option<u64>,
    /// Returns the failure at once when the next attempt would not fit before the time limit
    #[arg(long)]
    give_up: bool,
    /// grpc: the kind of method
    #[arg(long, value_enum, default_value_t)]
    kind: KindFlag,
    /// grpc: waits for a connection instead of failing without one
    #[arg(long)]
    wait_for_ready: bool,
    /// http: the path, with its query
    #[arg(long, default_value = "/")]
    path: String,
    /// http: the version spoken, 1 or 2 (with prior knowledge)
    #[arg(long, default_value_t = 1)]
    http_version: u8,
    /// http: the request may take effect twice
    #[arg(long)]
    idempotent: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum ProtocolFlag {
    #[default]
    Grpc,
    Http,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum KindFlag {
    #[default]
    Unary,
    ServerStream,
    ClientStream,
    Bidi,
}

impl KindFlag {
    const fn name(self) -> &'static str {
        match self {
            Self::Unary => "unary",
            Self::ServerStream => "server_stream",
            Self::ClientStream => "client_stream",
            Self::Bidi => "bidi",
        }
    }
}

impl Arguments {
    /// The document that a program would have written.
    /// And the files it refers to, as they are written.
    pub(crate) fn into_document(self) -> Result<(Value, BTreeMap<String, String>), Fault> {
        let mut call = Map::new();
        call.insert(
            "timeout_ms".into(),
            self.timeout.map(|t| t.as_secs_f64() * 1000.0).into(),
        );
        let payloads = self.payload.iter().map(|payload| bytes(payload));
        let payloads = payloads.collect::<Result<Vec<_>, _>>()?;
        let headers = headers(&self.header)?;
        let config = self.config.as_deref().map(text_file).transpose()?;
        let mut texts = BTreeMap::new();
        let mut document = Map::new();
        match self.protocol {
            ProtocolFlag::Grpc => {
                let Some(method) = self.method else {
                    return Err(Fault::new("--method", "is required for grpc"));
                };
                document.insert("protocol".into(), "grpc".into());
                if let Some(config) = config {
                    document.insert("service_config".into(), Value::Object(Map::new()));
                    texts.insert("service_config".into(), config);
                }
                call.insert("method".into(), method.into());
                call.insert("kind".into(), self.kind.name().into());
                call.insert(
                    "payloads".into(),
                    payloads.iter().map(|payload| to_base64(payload)).collect(),
                );
                call.insert("metadata".into(), headers);
                call.insert("wait_for_ready".into(), self.wait_for_ready.into());
            }
            ProtocolFlag::Http => {
                document.insert("protocol".into(), "http".into());
                if let Some(config) = config {
                    document.insert("policy".into(), Value::Object(Map::new()));
                    texts.insert("policy".into(), config);
                }
                document.insert("version".into(), self.http_version.into());
                let method = self.method.unwrap_or_else(|| "GET".to_owned());
                call.insert("method".into(), method.into());
                call.insert("path".into(), self.path.into());
                call.insert("headers".into(), headers);
                call.insert("body".into(), to_base64(&payloads.concat()).into());
                if self.idempotent {
                    call.insert("idempotent".into(), true.into());
                }
            }
        }
        let calls: Vec<Value> = (1..=self.repeat)
            .map(|number| {
                let mut call = call.clone();
                call.insert("call".into(), number.to_string().into());
                call.into()
            })
            .collect();
        document.insert("target".into(), self.target.into());
        document.insert("calls".into(), calls.into());
        document.insert("seed".into(), self.seed.into());
        let choice = |on, yes, no| json!(if on { yes } else { no });
        document.insert(
            "concurrency".into(),
            choice(self.parallel, "parallel", "sequential"),
        );
        document.insert("on_deadline".into(), choice(self.give_up, "give_up", "cap"));
        document.insert("linger_ms".into(), 0.into());
        Ok((document.into(), texts))
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Fault> {
    std::fs::read(path).map_err(|error| Fault::new(path.display().to_string(), error))
}

fn text_file(path: &Path) -> Result<String, Fault> {
    String::from_utf8(read(path)?).map_err(|error| Fault::new(path.display().to_string(), error))
}

fn bytes(payload: &str) -> Result<Vec<u8>, Fault> {
    match payload.strip_prefix('@') {
        Some(path) => read(Path::new(path)),
        None => Ok(payload.as_bytes().to_vec()),
    }
}

/// Headers by name, with all their values.
fn headers(lines: &[String]) -> Result<Value, Fault> {
    let mut headers: Map<String, Value> = Map::new();
    for line in lines {
        let Some((name, value)) = line.split_once(':') else {
            return Err(Fault::new("--header", format!("{line:?} has no colon")));
        };
        let values = headers
            .entry(name.trim().to_ascii_lowercase())
            .or_insert_with(|| json!([]));
        if let Some(values) = values.as_array_mut() {
            values.push(value.trim().into());
        }
    }
    Ok(headers.into())
}

fn duration(text: &str) -> Result<Duration, String> {
    let units = [("ms", 1e-3), ("s", 1.0), ("m", 60.0)];
    units
        .iter()
        .find_map(|(unit, seconds)| {
            let number: f64 = text.strip_suffix(unit)?.trim().parse().ok()?;
            Duration::try_from_secs_f64(number * seconds).ok()
        })
        .ok_or_else(|| format!("{text:?} is not a time like 2s, 300ms or 1m"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_with_their_unit() {
        assert_eq!(duration("2s"), Ok(Duration::from_secs(2)));
        assert_eq!(duration("300ms"), Ok(Duration::from_millis(300)));
        assert_eq!(duration("1.5m"), Ok(Duration::from_secs(90)));
        for wrong in ["2", "-1s", "soon", "", "ms"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_header_given_twice_has_two_values() {
        let lines = ["X-A: 1".to_owned(), "x-a:2".to_owned()];
        assert_eq!(headers(&lines).unwrap(), json!({"x-a": ["1", "2"]}));
        assert!(headers(&["none".to_owned()]).is_err());
    }
}
