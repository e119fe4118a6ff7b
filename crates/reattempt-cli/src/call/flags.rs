//! `reattempt call` for people: flags that create the same document as a program would write.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueEnum;
use serde_json::{Map, Value, json};

use super::document::{Fault, Fields, to_base64};

/// Makes calls and shows every attempt.
///
/// Example: reattempt call --target 127.0.0.1:50051 --method /echo.Echo/Say --payload hello
/// --config config.json --timeout 2s
///
/// Limits of one gRPC answer: 100,000 messages, each of 4 MiB or the service config's limit, and 64
/// MiB or one such message in total; of one HTTP body: 64 MiB; of one MongoDB cursor: 64 MiB,
/// 100,000 documents and 10,000 batches. A call with a longer answer fails and names the limit.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Reads one JSON document from standard input and writes one JSON line per call to standard
    /// output
    #[arg(long, exclusive = true)]
    pub(crate) json: bool,
    /// The protocol
    #[arg(long, value_enum, default_value_t)]
    protocol: ProtocolFlag,
    /// The server: host:port, a URL for http, a connection string for mongodb. A user and password
    /// before the host, user:password@ and percent-encoded, are the login: Basic for http, SCRAM
    /// for kv and mongodb; grpc refuses them
    #[arg(long, required_unless_present = "json")]
    target: Option<String>,
    /// grpc: /package.Service/Method; http: the method, GET by default
    #[arg(long)]
    method: Option<String>,
    /// The payload, or for kv the value: text, or @FILE; for grpc once per message
    #[arg(long, value_name = "TEXT|@FILE")]
    payload: Vec<String>,
    /// A metadata entry (grpc) or a header (http)
    #[arg(long, value_name = "NAME: VALUE")]
    header: Vec<String>,
    /// The service config (grpc) or the policy (http) as a JSON file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The time limit of each call, such as 2s or 300ms
    #[arg(long, value_parser = duration)]
    timeout: Option<Duration>,
    /// The number of calls
    #[arg(long, default_value_t = 1, value_name = "N")]
    repeat: u32,
    /// Makes all calls at once instead of one after another
    #[arg(long)]
    parallel: bool,
    /// The seed of the jitter, to make it repeatable
    #[arg(long)]
    seed: Option<u64>,
    /// Returns the failure at once when the next attempt does not fit within the time limit;
    /// otherwise the policy decides, and without its word the call waits
    #[arg(long)]
    give_up: bool,
    /// grpc: the kind of method
    #[arg(long, value_enum, default_value_t)]
    kind: KindFlag,
    /// grpc: waits for a connection instead of failing without one
    #[arg(long)]
    wait_for_ready: bool,
    /// http: the path, with its query; default /, or the statement path of query and analytics
    #[arg(long)]
    path: Option<String>,
    /// http: the version, 1 or 2 (with prior knowledge)
    #[arg(long, default_value_t = 1)]
    http_version: u8,
    /// kv, mongodb: the operation, such as get or find
    #[arg(long)]
    op: Option<String>,
    /// kv: the document's key
    #[arg(long)]
    key: Option<String>,
    /// kv: the bucket
    #[arg(long)]
    bucket: Option<String>,
    /// kv: the user
    #[arg(long)]
    username: Option<String>,
    /// kv: the password
    #[arg(long)]
    password: Option<String>,
    /// http: the Couchbase service; its answers are classified by RFC 0049
    #[arg(long, value_enum)]
    service: Option<ServiceFlag>,
    /// http with a service: the statement (query, analytics) only reads
    #[arg(long, requires = "service")]
    readonly: bool,
    /// kv, http with a service: best_effort, fail_fast or error_map
    #[arg(long)]
    strategy: Option<String>,
    /// kv, http with a service: also uses server codes that are newer than RFC 0049
    #[arg(long)]
    current_server_codes: bool,
    /// kv: speaks to plain memcached servers
    #[arg(long)]
    memcached: bool,
    /// mongodb: the database, default db
    #[arg(long)]
    database: Option<String>,
    /// mongodb: the collection, default c
    #[arg(long)]
    collection: Option<String>,
    /// mongodb: more fields of the command, as JSON
    #[arg(long, value_name = "JSON")]
    options: Option<String>,
    /// mongodb: the version of Retryable Reads, seed_2022 (default) or current
    #[arg(long, value_name = "VERSION")]
    retryable_reads: Option<String>,
    /// http, kv: the request is idempotent
    #[arg(long)]
    idempotent: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum ProtocolFlag {
    #[default]
    Grpc,
    Http,
    Kv,
    Mongodb,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ServiceFlag {
    Query,
    Analytics,
    Search,
    Views,
    Management,
}

impl ServiceFlag {
    const fn name(self) -> &'static str {
        match self {
            Self::Query => "query",
            Self::Analytics => "analytics",
            Self::Search => "search",
            Self::Views => "views",
            Self::Management => "management",
        }
    }

    /// The default HTTP method.
    const fn method(self) -> &'static str {
        match self {
            Self::Query | Self::Analytics | Self::Search => "POST",
            Self::Views | Self::Management => "GET",
        }
    }

    const fn path(self) -> &'static str {
        match self {
            Self::Query => "/query/service",
            Self::Analytics => "/analytics/service",
            Self::Search | Self::Views | Self::Management => "/",
        }
    }
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

/// A document under construction: its own fields as JSON, with unparsed files, and those of each
/// call.
#[derive(Debug, Default)]
struct Draft {
    document: BTreeMap<String, String>,
    call: Map<String, Value>,
}

impl Draft {
    fn set(&mut self, name: &str, value: impl Into<Value>) {
        self.document
            .insert(name.to_owned(), value.into().to_string());
    }

    fn call(&mut self, name: &str, value: impl Into<Value>) {
        self.call.insert(name.to_owned(), value.into());
    }

    fn file(&mut self, name: &str, text: Option<String>) {
        self.document
            .extend(text.map(|text| (name.to_owned(), text)));
    }
}

impl Arguments {
    /// The fields of the document, with the unparsed files that it refers to.
    pub(crate) fn into_fields(self) -> Result<Fields, Fault> {
        let mut draft = Draft::default();
        let choice = |on, yes, no| json!(if on { yes } else { no });
        draft.set("target", self.target.clone());
        draft.set("seed", self.seed);
        draft.set(
            "concurrency",
            choice(self.parallel, "parallel", "sequential"),
        );
        draft.set("on_deadline", self.give_up.then_some("give_up"));
        draft.set("linger_ms", 0);
        let timeout = self.timeout.map(|timeout| timeout.as_secs_f64() * 1000.0);
        draft.call("timeout_ms", timeout);
        match self.protocol {
            ProtocolFlag::Grpc => self.grpc(&mut draft)?,
            ProtocolFlag::Http => self.http(&mut draft)?,
            ProtocolFlag::Kv => self.kv(&mut draft)?,
            ProtocolFlag::Mongodb => self.mongodb(&mut draft)?,
        }
        let calls = (1..=self.repeat).map(|number| {
            draft.call("call", number.to_string());
            Value::from(draft.call.clone())
        });
        let calls: Vec<Value> = calls.collect();
        draft.set("calls", calls);
        Ok(Fields::of_texts(draft.document))
    }

    fn payloads(&self) -> Result<Vec<Vec<u8>>, Fault> {
        self.payload.iter().map(|payload| bytes(payload)).collect()
    }

    fn config(&self) -> Result<Option<String>, Fault> {
        self.config.as_deref().map(text_file).transpose()
    }

    fn grpc(&self, draft: &mut Draft) -> Result<(), Fault> {
        let Some(method) = &self.method else {
            return Err(Fault::new("--method", "is required for grpc"));
        };
        let payloads = self.payloads()?;
        draft.set("protocol", "grpc");
        draft.file("service_config", self.config()?);
        draft.call("method", method.as_str());
        draft.call("kind", self.kind.name());
        let payloads: Value = payloads.iter().map(|bytes| to_base64(bytes)).collect();
        draft.call("payloads", payloads);
        draft.call("metadata", headers(&self.header)?);
        draft.call("wait_for_ready", self.wait_for_ready.then_some(true));
        Ok(())
    }

    fn http(&self, draft: &mut Draft) -> Result<(), Fault> {
        draft.set("protocol", "http");
        draft.file("policy", self.config()?);
        draft.set("version", self.http_version);
        let method = self.service.map_or("GET", ServiceFlag::method);
        draft.call("method", self.method.as_deref().unwrap_or(method));
        let path = self.service.map_or("/", ServiceFlag::path);
        draft.call("path", self.path.as_deref().unwrap_or(path));
        let mut headers = headers(&self.header)?;
        let body = self.payloads()?.concat();
        draft.call("idempotent", self.idempotent.then_some(true));
        if let Some(service) = self.service {
            draft.set("service", service.name());
            self.couchbase(draft);
            draft.call("readonly", self.readonly.then_some(true));
            // All of these services take JSON.
            if !body.is_empty() && headers.get("content-type").is_none() {
                headers["content-type"] = json!("application/json");
            }
        }
        draft.call("headers", headers);
        draft.call("body", to_base64(&body));
        Ok(())
    }

    /// Sets the fields common to kv and the services over HTTP.
    fn couchbase(&self, draft: &mut Draft) {
        draft.set("strategy", self.strategy.clone());
        let current = self.current_server_codes.then_some(true);
        draft.set("current_server_codes", current);
    }

    fn kv(&self, draft: &mut Draft) -> Result<(), Fault> {
        draft.set("protocol", "kv");
        let targets = self.target.iter().flat_map(|target| target.split(','));
        let targets: Value = targets.collect();
        draft.set("target", targets);
        draft.set("bootstrap", self.memcached.then_some("memcached"));
        for (name, value) in [
            ("bucket", &self.bucket),
            ("username", &self.username),
            ("password", &self.password),
        ] {
            draft.set(name, value.clone());
        }
        self.couchbase(draft);
        draft.call("op", self.op.as_deref().unwrap_or("get"));
        draft.call("key", self.key.clone());
        draft.call("value", to_base64(&self.payloads()?.concat()));
        draft.call("idempotent", self.idempotent.then_some(true));
        Ok(())
    }

    fn mongodb(&self, draft: &mut Draft) -> Result<(), Fault> {
        draft.set("protocol", "mongodb");
        draft.set("retryable_reads", self.retryable_reads.clone());
        draft.call("op", self.op.as_deref().unwrap_or("find"));
        draft.call("database", self.database.clone());
        draft.call("collection", self.collection.clone());
        let options: Option<Value> = self
            .options
            .as_deref()
            .map(serde_json::from_str)
            .transpose()
            .map_err(|error| Fault::new("--options", error))?;
        draft.call("options", options);
        Ok(())
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

/// Headers by name, each with all its values.
fn headers(lines: &[String]) -> Result<Value, Fault> {
    let mut headers: Map<String, Value> = Map::new();
    for (nth, line) in (1..).zip(lines) {
        let Some((name, value)) = line.split_once(':') else {
            // The line is not repeated: it may contain a secret.
            let fault = format!("number {nth} has no colon: write it as name: value");
            return Err(Fault::new("--header", fault));
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

    /// Otherwise no policy could give up.
    #[test]
    fn without_its_flag_the_deadline_is_left_to_the_policy() {
        use clap::Parser;
        use reattempt::OnDeadline;

        use crate::call::document::Document;

        #[derive(Parser)]
        struct Program {
            #[command(flatten)]
            call: Arguments,
        }
        let on_deadline = |flags: &[&str]| {
            let target = ["call", "--protocol", "http", "--target", "http://h:1/"];
            let flags = target.iter().chain(flags);
            let fields = Program::parse_from(flags).call.into_fields().unwrap();
            Document::of(fields).unwrap().setup.on_deadline
        };
        assert_eq!(on_deadline(&[]), None);
        assert_eq!(on_deadline(&["--give-up"]), Some(OnDeadline::GiveUp));
    }

    #[test]
    fn a_header_given_twice_has_two_values() {
        let lines = ["X-A: 1".to_owned(), "x-a:2".to_owned()];
        assert_eq!(headers(&lines).unwrap(), json!({"x-a": ["1", "2"]}));
        assert!(headers(&["none".to_owned()]).is_err());
    }
}
