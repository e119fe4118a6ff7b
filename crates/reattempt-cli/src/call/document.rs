//! The document of `reattempt call --json`: the fields shared by all protocols, and how a field is
//! read.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use reattempt::OnDeadline;
use reattempt::backoff::Randomness;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Map, Number, Value};

/// A fault in a document, with its path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {what}")]
pub(crate) struct Fault {
    path: String,
    what: String,
}

impl Fault {
    pub(crate) fn new(path: impl Into<String>, what: impl ToString) -> Self {
        Self {
            path: path.into(),
            what: what.to_string(),
        }
    }

    /// From a text that begins with the path.
    pub(crate) fn of_text(text: &str) -> Self {
        let (path, what) = text.split_once(": ").unwrap_or(("$", text));
        Self::new(path, what)
    }
}

/// The fields of one JSON object, taken one by one, so that every fault has its JSON path. `null`
/// counts as absent.
#[derive(Debug)]
pub(crate) struct Fields {
    path: String,
    map: Map<String, Value>,
    /// The unparsed members of the document, for parsers of their own.
    texts: BTreeMap<String, String>,
}

impl Fields {
    pub(crate) fn of(value: Value, path: impl Into<String>) -> Result<Self, Fault> {
        let path = path.into();
        match value {
            Value::Object(map) => Ok(Self {
                path,
                map,
                texts: BTreeMap::new(),
            }),
            other => Err(Fault::new(
                path,
                format!("must be an object, got {}", kind_of(&other)),
            )),
        }
    }

    pub(crate) fn path_of(&self, name: &str) -> String {
        format!("{}.{name}", self.path)
    }

    pub(crate) fn fault(&self, name: &str, what: impl ToString) -> Fault {
        Fault::new(self.path_of(name), what)
    }

    pub(crate) fn optional<T: DeserializeOwned>(&mut self, name: &str) -> Result<Option<T>, Fault> {
        match self.map.remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => serde_json::from_value(value)
                .map(Some)
                .map_err(|error| self.fault(name, error)),
        }
    }

    pub(crate) fn required<T: DeserializeOwned>(&mut self, name: &str) -> Result<T, Fault> {
        self.optional(name)?
            .ok_or_else(|| self.fault(name, "is required"))
    }

    pub(crate) fn or<T: DeserializeOwned>(&mut self, name: &str, default: T) -> Result<T, Fault> {
        Ok(self.optional(name)?.unwrap_or(default))
    }

    /// An unparsed member: a policy parser also detects what a parsed value loses, such as a
    /// duplicate key.
    pub(crate) fn text(&mut self, name: &str) -> Option<String> {
        let value = self.map.remove(name).filter(|value| !value.is_null())?;
        Some(self.texts.remove(name).unwrap_or_else(|| value.to_string()))
    }

    /// A nested object; empty if it is absent.
    pub(crate) fn nested(&mut self, name: &str) -> Result<Self, Fault> {
        let value = self
            .optional(name)?
            .unwrap_or_else(|| Value::Object(Map::new()));
        Self::of(value, self.path_of(name))
    }

    /// Warns about fields that were not taken, such as misspelled names.
    pub(crate) fn finish(self) {
        for name in self.map.keys() {
            tracing::warn!("{}.{name}: unknown field, ignored", self.path);
        }
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// A time in milliseconds, possibly fractional.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Millis(pub(crate) Duration);

impl<'de> Deserialize<'de> for Millis {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = f64::deserialize(deserializer)?;
        match Duration::try_from_secs_f64(number / 1000.0) {
            Ok(time) => Ok(Self(time)),
            // More than a duration can hold.
            Err(_) if number > 0.0 => Ok(Self(Duration::MAX)),
            Err(_) => Err(D::Error::custom(
                "must be a number of milliseconds that is not negative",
            )),
        }
    }
}

/// Bytes, encoded as base64.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Base64(pub(crate) Bytes);

impl<'de> Deserialize<'de> for Base64 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        match STANDARD.decode(&text) {
            Ok(bytes) => Ok(Self(bytes.into())),
            Err(error) => Err(D::Error::custom(format!("is not base64: {error}"))),
        }
    }
}

pub(crate) fn to_base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// One value or a list of them.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "must be a text or a list of texts")]
pub(crate) enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl OneOrMany {
    pub(crate) fn into_vec(self) -> Vec<String> {
        match self {
            Self::One(value) => vec![value],
            Self::Many(values) => values,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Protocol {
    #[default]
    Grpc,
    Http,
    Kv,
    Mongodb,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Concurrency {
    #[default]
    Sequential,
    Parallel,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum DeadlineChoice {
    #[default]
    Cap,
    GiveUp,
}

/// The settings of the layers, shared by all protocols.
#[derive(Clone)]
pub(crate) struct Setup {
    pub(crate) target: OneOrMany,
    pub(crate) on_deadline: OnDeadline,
    pub(crate) randomness: Randomness,
}

impl fmt::Debug for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the target, which may contain a password.
        f.debug_struct("Setup")
            .field("on_deadline", &self.on_deadline)
            .field("randomness", &self.randomness)
            .finish_non_exhaustive()
    }
}

impl Setup {
    /// The target of a protocol with a single server.
    pub(crate) fn one_target(&self) -> Result<&str, Fault> {
        match &self.target {
            OneOrMany::One(target) => Ok(target),
            OneOrMany::Many(targets) if targets.len() == 1 => Ok(&targets[0]),
            OneOrMany::Many(_) => Err(Fault::new("$.target", "must be one target, not a list")),
        }
    }
}

/// The fields common to calls of all protocols.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    pub(crate) call: String,
    pub(crate) timeout: Option<Duration>,
    pub(crate) start_delay: Duration,
    pub(crate) cancel_after: Option<Duration>,
}

/// A document, with the fields of its protocol still unread.
#[derive(Debug)]
pub(crate) struct Document {
    pub(crate) protocol: Protocol,
    pub(crate) concurrency: Concurrency,
    pub(crate) linger: Duration,
    pub(crate) setup: Setup,
    pub(crate) calls: Vec<(Head, Fields)>,
    /// The fields of the protocol.
    pub(crate) rest: Fields,
}

/// How long connections stay open after the last call, by default.
const LINGER: Millis = Millis(Duration::from_millis(30));

/// Maximum number of header names of a call. The header map of `http` panics when it is full, and
/// the layers add headers.
pub(crate) const MOST_NAMES: usize = 10_000;

/// Members with parsers of their own, which report their own faults.
const POLICIES: [&str; 2] = ["service_config", "policy"];

/// These members as one value, without the policies. A policy may contain numbers and nesting that
/// no [`Value`] can hold; its own parser reports them, and the document stays usable.
fn without_policies(members: &BTreeMap<String, Box<RawValue>>) -> Option<Value> {
    let read = |name: &str, raw: &RawValue| match serde_json::from_str(raw.get()) {
        Err(_) if POLICIES.contains(&name) => Some(Value::Object(Map::new())),
        read => read.ok(),
    };
    members
        .iter()
        .map(|(name, raw)| Some((name.clone(), read(name, raw)?)))
        .collect()
}

impl Document {
    pub(crate) fn parse(text: &[u8]) -> Result<Self, Fault> {
        let parsed = serde_json::from_slice::<Value>(text);
        let members = serde_json::from_slice::<BTreeMap<String, Box<RawValue>>>(text);
        let (value, texts) = match (parsed, members) {
            (Ok(value), Ok(members)) => (value, members),
            (Ok(value), Err(_)) => (value, BTreeMap::new()),
            (Err(error), Ok(members)) => match without_policies(&members) {
                Some(value) => (value, members),
                None => return Err(Fault::new("$", error)),
            },
            (Err(error), Err(_)) => return Err(Fault::new("$", error)),
        };
        let texts = texts
            .into_iter()
            .map(|(name, raw)| (name, raw.get().to_owned()))
            .collect();
        Self::with_texts(value, texts)
    }

    /// A document from this value; `texts` has the unparsed members.
    pub(crate) fn with_texts(value: Value, texts: BTreeMap<String, String>) -> Result<Self, Fault> {
        let mut fields = Fields::of(value, "$")?;
        fields.texts = texts;
        let calls: Vec<Value> = fields.required("calls")?;
        let calls = calls
            .into_iter()
            .enumerate()
            .map(|(place, call)| head(Fields::of(call, format!("$.calls[{place}]"))?, place))
            .collect::<Result<_, _>>()?;
        let on_deadline = match fields.or("on_deadline", DeadlineChoice::Cap)? {
            DeadlineChoice::Cap => OnDeadline::Cap,
            DeadlineChoice::GiveUp => OnDeadline::GiveUp,
        };
        let randomness = match fields.optional::<Number>("seed")? {
            Some(number) => Randomness::seeded(seed(&number)),
            None => Randomness::Thread,
        };
        Ok(Self {
            protocol: fields.or("protocol", Protocol::default())?,
            concurrency: fields.or("concurrency", Concurrency::default())?,
            linger: fields.or("linger_ms", LINGER)?.0,
            setup: Setup {
                target: fields.required("target")?,
                on_deadline,
                randomness,
            },
            calls,
            rest: fields,
        })
    }
}

/// Converts any number to a seed; equal numbers give equal seeds.
fn seed(number: &Number) -> u64 {
    let whole = number
        .as_u64()
        .or_else(|| number.as_i64().map(|n| n as u64));
    whole.unwrap_or_else(|| number.as_f64().unwrap_or_default().to_bits())
}

fn head(mut fields: Fields, place: usize) -> Result<(Head, Fields), Fault> {
    let after = |millis: Option<Millis>| millis.map(|Millis(time)| time);
    let head = Head {
        call: fields.or("call", (place + 1).to_string())?,
        timeout: after(fields.optional("timeout_ms")?),
        start_delay: fields.or("start_delay_ms", Millis::default())?.0,
        cancel_after: after(fields.optional("cancel_after_ms")?),
    };
    Ok((head, fields))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(document: Value) -> Result<Document, Fault> {
        Document::parse(document.to_string().as_bytes())
    }

    #[test]
    fn a_member_is_kept_as_it_was_written() {
        let text = br#"{"target": "h:1", "calls": [], "policy": {"a": 1.0, "a": 2}}"#;
        let mut document = Document::parse(text).unwrap();
        let policy = document.rest.text("policy");
        assert_eq!(policy.as_deref(), Some(r#"{"a": 1.0, "a": 2}"#));
        assert_eq!(document.rest.text("other"), None);
    }

    #[test]
    fn what_no_value_can_hold_is_for_a_policys_own_reader() {
        let deep = "[".repeat(200) + &"]".repeat(200);
        for odd in ["1e999", deep.as_str()] {
            let text = format!(r#"{{"target": "h:1", "calls": [], "policy": {odd}}}"#);
            let mut document = Document::parse(text.as_bytes()).unwrap();
            assert_eq!(document.rest.text("policy").as_deref(), Some(odd));
            let text = text.replace("policy", "seed");
            let fault = Document::parse(text.as_bytes()).unwrap_err().to_string();
            assert!(fault.contains(" at line 1 column "), "{fault}");
        }
    }

    #[test]
    fn a_time_beyond_what_can_be_said_is_the_longest() {
        for long in ["1e300", "18446744073709551616000000"] {
            let millis: Millis = serde_json::from_str(long).unwrap();
            assert!(millis.0 >= Duration::from_secs(u64::MAX / 1000), "{long}");
        }
    }

    fn fault(document: Value) -> String {
        of(document).unwrap_err().to_string()
    }

    #[test]
    fn the_defaults_are_the_contracts() {
        let document =
            of(json!({"target": "h:1", "calls": [{"call": "a", "timeout_ms": null}]})).unwrap();
        assert_eq!(document.protocol, Protocol::Grpc);
        assert_eq!(document.concurrency, Concurrency::Sequential);
        assert_eq!(document.linger, Duration::from_millis(30));
        assert_eq!(document.setup.on_deadline, OnDeadline::Cap);
        let (head, _) = &document.calls[0];
        assert_eq!(head.call, "a");
        assert_eq!(head.timeout, None);
        assert_eq!(head.start_delay, Duration::ZERO);
    }

    #[test]
    fn a_fault_names_its_place() {
        assert!(fault(json!([])).starts_with("$: must be an object, got a list"));
        assert_eq!(fault(json!({"target": "h:1"})), "$.calls: is required");
        assert!(
            fault(json!({"target": "h:1", "calls": [{}, {"timeout_ms": "soon"}]}))
                .starts_with("$.calls[1].timeout_ms: invalid type")
        );
        assert!(
            fault(json!({"target": "h:1", "calls": [{"timeout_ms": -1}]}))
                .starts_with("$.calls[0].timeout_ms: must be a number of milliseconds")
        );
        assert!(
            fault(json!({"target": "h:1", "calls": [], "protocol": "smtp"}))
                .starts_with("$.protocol: unknown variant `smtp`")
        );
    }

    #[test]
    fn half_a_document_is_a_fault_with_its_position() {
        let fault = Document::parse(b"{\"target\": ").unwrap_err().to_string();
        assert!(fault.starts_with("$: EOF while parsing"), "{fault}");
        assert!(fault.contains("line 1 column"), "{fault}");
    }
}
