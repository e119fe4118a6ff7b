//! `reattempt call` for people: flags that create the same document as a program would write.

mod files;
mod foreign;
mod grpc;
mod http;
mod kv;
mod mongodb;
mod target;
mod values;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use super::document::{Fault, Fields};
use super::load::Load;
use target::Protocol;

/// Makes calls and shows every attempt: by flags for people, or by a JSON document for programs.
///
/// The protocol follows from the target: http:// and https://, grpc:// and grpcs:// (or host:port
/// alone), couchbase:// and memcached://, mongodb://. More than ten calls, or calls for a time, are
/// summed up: of them only the first three that failed are shown. The times of the summary, p50 and
/// p99, are those of the calls that ended well; its reasons count the calls in which an attempt
/// failed for each, also of those that ended well.
///
/// Limits of one gRPC answer: 100,000 messages, each of 4 MiB or the service config's limit, and 64
/// MiB or one such message in total; of one HTTP body: 64 MiB; of one MongoDB cursor: 64 MiB,
/// 100,000 documents and 10,000 batches. A call with a longer answer fails and names the limit.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER)]
pub(crate) struct Arguments {
    /// The server: a URL, host:port, or a connection string for mongodb. A user and password before
    /// the host, user:password@ and percent-encoded, are the login: Basic for http, SCRAM for kv
    /// and mongodb; grpc refuses them
    #[arg(value_name = "TARGET", required_unless_present_any = ["json", "target"])]
    server: Option<String>,
    /// The server, as a flag
    #[arg(long, conflicts_with = "server")]
    target: Option<String>,
    /// Reads one JSON document from standard input and writes one JSON line per call to standard
    /// output
    #[arg(long, exclusive = true)]
    pub(crate) json: bool,
    /// The protocol, where the target does not say it
    #[arg(long, value_enum)]
    protocol: Option<Protocol>,
    /// The timeout of each call, such as 2s or 300ms. By default none: a call waits as long as
    /// its policy and its server say
    #[arg(long, value_parser = values::duration)]
    timeout: Option<Duration>,
    /// The number of calls; default 1, or as many as the duration allows
    #[arg(long, help_heading = MANY, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    repeat: Option<u64>,
    /// Makes all calls at once instead of one after another
    #[arg(long, help_heading = MANY, conflicts_with_all = ["rate", "duration"])]
    parallel: bool,
    /// Begins this many calls per second, whether or not earlier ones have ended; at most 10,000
    /// are in flight. The number of those that begin 10 ms late or more is reported
    #[arg(long, help_heading = MANY, value_parser = values::rate, value_name = "PER_SECOND")]
    rate: Option<f64>,
    /// Begins calls for this long, such as 10s
    #[arg(long, help_heading = MANY, value_parser = values::some_time)]
    duration: Option<Duration>,
    /// The seed of the jitter, to make it repeatable
    #[arg(long)]
    seed: Option<u64>,
    /// Returns the failure at once when the next attempt does not fit before the deadline;
    /// otherwise the policy's onDeadline applies; without one the call waits until its deadline
    #[arg(long)]
    give_up: bool,
    /// grpc: /package.Service/Method; http: the method, GET by default
    #[arg(long)]
    method: Option<String>,
    /// The payload, or for kv the value: text, or @FILE (@- is standard input); for grpc once per
    /// message
    #[arg(long, value_name = "TEXT|@FILE")]
    payload: Vec<String>,
    /// A metadata entry (grpc) or a header (http)
    #[arg(long, value_name = "NAME: VALUE")]
    header: Vec<String>,
    /// The service config (grpc) or the policy (http) as a JSON file; - is standard input
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// http, kv: the request is idempotent
    #[arg(long)]
    idempotent: bool,
    /// kv: get (default), set, add, replace, delete, append, increment, touch, get_and_touch,
    /// get_and_lock, unlock, noop, lookup_in, observe, get_collection_id; mongodb: find (default),
    /// findOne, findBatch, aggregate, aggregateOut, aggregateMerge, count, countDocuments,
    /// distinct, listDatabases, listCollections, listIndexes, watch, mapReduce, runCommandFind,
    /// insertOne, txnFind
    #[arg(long)]
    op: Option<String>,
    /// kv, http with a service: best_effort, fail_fast or error_map
    #[arg(long)]
    strategy: Option<String>,
    /// kv, http with a service: also uses server codes that are newer than RFC 0049
    #[arg(long)]
    current_server_codes: bool,
    /// https, grpcs: trusts the authorities of this PEM file instead of the system's
    #[arg(long, help_heading = TLS, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// https, grpcs: accepts any certificate
    #[arg(long, help_heading = TLS, conflicts_with = "ca")]
    insecure: bool,
    #[command(flatten)]
    grpc: grpc::GrpcFlags,
    #[command(flatten)]
    http: http::HttpFlags,
    #[command(flatten)]
    kv: kv::KvFlags,
    #[command(flatten)]
    mongodb: mongodb::MongodbFlags,
}

const AFTER: &str = "\
Environment:
    RUST_LOG=reattempt=debug logs the calls and attempts that fail to standard error; by default
    only warnings are logged, and no calls

Exit status:
    0  every call ended well; with --json: every call was carried out, whatever its result
    1  a call failed, or the answers could not be written
    2  the flags or the document cannot be used
  130  Ctrl-C ended the calls; the attempts of those in flight are shown";

const MANY: &str = "Many calls (reattempt call http://127.0.0.1:8080/ --rate 100 --duration 10s)";
const TLS: &str = "TLS (reattempt call https://localhost:8443/ --ca authority.pem)";

/// A document under construction: its own fields and those of each call as JSON, with unparsed
/// files and flags.
#[derive(Debug, Default)]
struct Draft {
    document: BTreeMap<String, String>,
    call: BTreeMap<&'static str, String>,
}

impl Draft {
    fn set(&mut self, name: &str, value: impl Into<Value>) {
        self.document
            .insert(name.to_owned(), value.into().to_string());
    }

    fn call(&mut self, name: &'static str, value: impl Into<Value>) {
        self.call.insert(name, value.into().to_string());
    }

    fn file(&mut self, name: &str, text: Option<String>) {
        self.document
            .extend(text.map(|text| (name.to_owned(), text)));
    }
}

impl Arguments {
    /// How often the call of [`Arguments::into_fields`] is made, and when.
    pub(crate) fn load(&self) -> Load {
        Load {
            calls: match (self.repeat, self.duration) {
                (None, None) => Some(1),
                (repeat, _) => repeat,
            },
            duration: self.duration,
            rate: self.rate,
            at_once: self.parallel,
        }
    }

    /// The fields of the document of one call, with the unparsed files that it refers to.
    pub(crate) fn into_fields(self) -> Result<Fields, Fault> {
        let mut draft = Draft::default();
        draft.set("target", self.target());
        draft.set("seed", self.seed);
        draft.set("on_deadline", self.give_up.then_some("give_up"));
        draft.set("linger_ms", 0);
        let protocol = self.protocol()?;
        self.check_flags(protocol)?;
        if self.rate.is_some() && self.repeat.is_none() && self.duration.is_none() {
            return Err(Fault::new("--rate", "needs --repeat or --duration"));
        }
        if let Some(tls) = self.tls(protocol)? {
            draft.set("tls", tls);
        }
        let timeout = self.timeout.map(|timeout| timeout.as_secs_f64() * 1000.0);
        draft.call("timeout_ms", timeout);
        match protocol {
            Protocol::Grpc => self.grpc(&mut draft)?,
            Protocol::Http => self.http(&mut draft)?,
            Protocol::Kv => self.kv(&mut draft)?,
            Protocol::Mongodb => self.mongodb(&mut draft)?,
        }
        let call = draft.call.iter();
        let call = call.map(|(name, text)| format!("\"{name}\": {text}"));
        let call = call.collect::<Vec<_>>().join(", ");
        let calls = format!("[{{{call}}}]");
        draft.document.insert("calls".to_owned(), calls);
        Ok(Fields::of_texts(draft.document))
    }

    fn target(&self) -> Option<&str> {
        self.server.as_deref().or(self.target.as_deref())
    }

    fn protocol(&self) -> Result<Protocol, Fault> {
        if self.target() == Some("") {
            let what = "is empty: write a URL, host:port or a connection string";
            return Err(Fault::new("the target", what));
        }
        let said = self.target().and_then(Protocol::of);
        self.protocol.or(said).ok_or_else(|| {
            let scheme = self.target().and_then(target::scheme).unwrap_or_default();
            let what = format!(
                "unknown scheme `{scheme}`: use http, https, grpc, grpcs, couchbase, memcached or \
                 mongodb, or set --protocol"
            );
            Fault::new("the target", what)
        })
    }

    fn tls(&self, protocol: Protocol) -> Result<Option<Value>, Fault> {
        if self.ca.is_none() && !self.insecure {
            return Ok(None);
        }
        if !matches!(protocol, Protocol::Grpc | Protocol::Http) {
            let what = "are for https:// and grpcs:// targets";
            return Err(Fault::new("--ca, --insecure", what));
        }
        let ca = self.ca.as_deref().map(values::text_file).transpose()?;
        Ok(Some(json!({"ca": ca, "insecure": self.insecure})))
    }

    fn payloads(&self) -> Result<Vec<Vec<u8>>, Fault> {
        let payloads = self.payload.iter();
        payloads.map(|payload| values::bytes(payload)).collect()
    }

    fn config(&self) -> Result<Option<String>, Fault> {
        self.config.as_deref().map(values::text_file).transpose()
    }

    /// Sets the fields common to kv and the services over HTTP.
    fn couchbase(&self, draft: &mut Draft) {
        draft.set("strategy", self.strategy.clone());
        let current = self.current_server_codes.then_some(true);
        draft.set("current_server_codes", current);
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use reattempt::OnDeadline;

    use super::*;
    use crate::call::document::Document;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        call: Arguments,
    }

    /// Otherwise no policy could give up.
    #[test]
    fn without_its_flag_the_deadline_is_left_to_the_policy() {
        let on_deadline = |flags: &[&str]| {
            let target = ["call", "http://h:1/"];
            let flags = target.iter().chain(flags);
            let fields = Program::parse_from(flags).call.into_fields().unwrap();
            Document::of(fields).setup.on_deadline
        };
        assert_eq!(on_deadline(&[]), None);
        assert_eq!(on_deadline(&["--give-up"]), Some(OnDeadline::GiveUp));
    }

    #[test]
    fn the_help_lists_the_operations() {
        use clap::CommandFactory;

        use crate::call::{kv, mongodb};

        let command = Program::command();
        let op = command.get_arguments().find(|flag| flag.get_id() == "op");
        let help = op.unwrap().get_help().unwrap().to_string();
        let listed = |operations: &str| {
            let names = operations.split(", ").map(|name| name.split(' ').next());
            names.flatten().map(str::to_owned).collect::<Vec<_>>()
        };
        let (of_kv, of_mongodb) = help.split_once("; mongodb: ").unwrap();
        let of_kv = of_kv.strip_prefix("kv: ").unwrap();
        assert_eq!(listed(of_kv), kv::OPERATIONS.map(|(name, _)| name));
        let operations: Vec<_> = mongodb::operations().map(|one| one.name()).collect();
        assert_eq!(listed(of_mongodb), operations);
    }

    #[test]
    fn one_call_is_made_unless_a_number_or_a_time_is_said() {
        let load = |flags: &[&str]| {
            let flags = ["call", "h:1"].iter().chain(flags);
            let load = Program::parse_from(flags).call.load();
            (load.calls, load.is_many())
        };
        assert_eq!(load(&[]), (Some(1), false));
        assert_eq!(load(&["--repeat", "11"]), (Some(11), true));
        assert_eq!(load(&["--duration", "1s"]), (None, true));
        let both = ["--duration", "1s", "--repeat", "5"];
        assert_eq!(load(&both), (Some(5), false));
    }
}
