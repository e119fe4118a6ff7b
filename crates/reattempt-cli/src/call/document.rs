//! The document of `reattempt call --json`: the fields shared by all protocols, and how a field is
//! read.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use reattempt::OnDeadline;
use reattempt::backoff::Randomness;
pub(crate) use reattempt::config::{Fault, Faults};
use reattempt::config::{Form, Json, Members, Place, Unreadable};
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Number, Value};

/// A document may be as long and as deep as its parts; a policy has bounds of its own.
const FORM: Form = Form {
    longest: usize::MAX,
    deepest: usize::MAX,
    refusal: |unreadable| match unreadable {
        Unreadable::NotJson { problem, .. } => problem.clone(),
        other => other.to_string(),
    },
    ..Form::new("the document")
};

const MOST_FAULTS: usize = 100;

/// The faults of one document so far, shared by all its objects.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found(Rc<RefCell<Vec<Fault>>>);

impl Found {
    /// Records a fault, unless it follows from an earlier one: at the same path, or below it. One
    /// line has at most a hundred.
    pub(crate) fn add(&self, fault: Fault) {
        let mut faults = self.0.borrow_mut();
        let follows = |earlier: &Fault| {
            let below = fault.path.strip_prefix(&earlier.path);
            below.is_some_and(|below| below.is_empty() || below.starts_with(['.', '[']))
        };
        if faults.len() < MOST_FAULTS && !faults.iter().any(follows) {
            faults.push(fault);
        }
    }

    /// The last fault, if there is one, to return it.
    pub(crate) fn last(&self) -> Result<(), Fault> {
        self.0.borrow_mut().pop().map_or(Ok(()), Err)
    }

    fn add_all(&self, faults: &Faults, below: &str) {
        let faults = faults.faults().iter().cloned();
        faults.for_each(|fault| self.add(fault.below(below)));
    }

    /// The value, unless there is a fault.
    pub(crate) fn check<T>(&self, made: Result<T, Fault>) -> Result<T, Faults> {
        let made = made.map_err(|fault| self.add(fault)).ok();
        let faults = self.0.take();
        made.filter(|_| faults.is_empty())
            .ok_or_else(|| Faults::new(FORM.subject, faults))
    }
}

/// The fields of one JSON object, taken one by one, so that every fault has its JSON path. `null`
/// counts as absent. A field with a fault counts as absent from then on, so that the faults of the
/// others are found too.
#[derive(Debug)]
pub(crate) struct Fields {
    path: String,
    /// As they were written.
    texts: BTreeMap<String, String>,
    found: Found,
}

impl Fields {
    /// The fields of the whole document, or of an object with faults of its own.
    pub(crate) fn of(text: &[u8], path: impl Into<String>, found: Found) -> Self {
        let path = path.into();
        let mut texts = BTreeMap::new();
        let read = FORM.read(text, |place, json| {
            let wrong = format!("must be an object, got {}", kind_of(json));
            let members = Members::or(place, json, &[], &wrong)?;
            let members = members.iter();
            texts.extend(members.map(|(name, json)| (name.to_owned(), json.text().to_owned())));
            Some(())
        });
        if let Err(faults) = read {
            found.add_all(&faults, &path);
        }
        Self { path, texts, found }
    }

    /// The whole document, with these texts as its members.
    pub(crate) fn of_texts(texts: BTreeMap<String, String>) -> Self {
        Self {
            path: "$".to_owned(),
            texts,
            found: Found::default(),
        }
    }

    pub(crate) fn path_of(&self, name: &str) -> String {
        format!("{}.{name}", self.path)
    }

    pub(crate) fn fault(&self, name: &str, what: impl fmt::Display) -> Fault {
        Fault::new(self.path_of(name), what)
    }

    /// Records the faults of a document that is the value of this field.
    pub(crate) fn add_all(&self, name: &str, faults: &Faults) {
        self.found.add_all(faults, &self.path_of(name));
    }

    /// Always `Ok`: a fault is recorded, and the field counts as absent.
    pub(crate) fn optional<T: DeserializeOwned>(&mut self, name: &str) -> Result<Option<T>, Fault> {
        let Some(text) = self.text(name) else {
            return Ok(None);
        };
        match serde_json::from_str::<Value>(&text).and_then(serde_json::from_value) {
            Ok(value) => {
                let once = FORM.read(&text, |place, json| {
                    members_once(place, json);
                    Some(())
                });
                if let Err(faults) = once {
                    self.add_all(name, &faults);
                }
                Ok(Some(value))
            }
            Err(error) => {
                self.found.add(self.fault(name, error));
                Ok(None)
            }
        }
    }

    pub(crate) fn required<T: DeserializeOwned>(&mut self, name: &str) -> Result<T, Fault> {
        self.optional(name)?
            .ok_or_else(|| self.fault(name, "is required"))
    }

    pub(crate) fn or<T: DeserializeOwned>(&mut self, name: &str, default: T) -> Result<T, Fault> {
        Ok(self.optional(name)?.unwrap_or(default))
    }

    /// An unparsed field, for a parser of its own.
    pub(crate) fn text(&mut self, name: &str) -> Option<String> {
        self.texts.remove(name).filter(|text| text != "null")
    }

    /// How a field begins, which tells its kind.
    pub(crate) fn first_byte(&self, name: &str) -> Option<u8> {
        let text = self.texts.get(name).filter(|text| *text != "null")?;
        text.bytes().next()
    }

    /// A nested object; empty if it is absent.
    pub(crate) fn nested(&mut self, name: &str) -> Self {
        let text = self.text(name).unwrap_or_else(|| "{}".to_owned());
        Self::of(text.as_bytes(), self.path_of(name), self.found.clone())
    }

    /// The objects of a required list.
    fn list(&mut self, name: &str) -> Vec<Self> {
        let Some(text) = self.text(name) else {
            self.found.add(self.fault(name, "is required"));
            return Vec::new();
        };
        let items = serde_json::from_str::<Vec<&RawValue>>(&text).unwrap_or_else(|error| {
            let error = error.to_string();
            let what = error.split(" at line ").next().unwrap_or_default();
            self.found.add(self.fault(name, what));
            Vec::new()
        });
        let items = items.into_iter().enumerate().map(|(at, item)| {
            let path = format!("{}[{at}]", self.path_of(name));
            Self::of(item.get().as_bytes(), path, self.found.clone())
        });
        items.collect()
    }

    /// Warns about fields that were not taken, such as misspelled names.
    pub(crate) fn finish(self) {
        // A document with faults has one line for them, and no other.
        if self.found.0.borrow().is_empty() {
            for name in self.texts.keys() {
                tracing::warn!("{}.{name}: unknown field, ignored", self.path);
            }
        }
    }
}

/// Records the duplicate members of all objects in a value that serde_json can hold, which bounds
/// its depth.
fn members_once(place: &mut Place<'_>, json: Json<'_>) {
    for (at, item) in json.items().into_iter().flatten().enumerate() {
        members_once(&mut place.index(at), item);
    }
    if json.is_object() {
        let members = Members::any(place, json);
        for (name, json) in members.iter().flat_map(Members::iter) {
            members_once(&mut place.field(name), json);
        }
    }
}

fn kind_of(json: Json<'_>) -> &'static str {
    match json.text().as_bytes().first() {
        Some(b'n') => "null",
        Some(b't' | b'f') => "a boolean",
        Some(b'"') => "a string",
        Some(b'[') => "a list",
        _ => "a number",
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

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum DeadlineChoice {
    Cap,
    GiveUp,
}

impl From<DeadlineChoice> for OnDeadline {
    fn from(choice: DeadlineChoice) -> Self {
        match choice {
            DeadlineChoice::Cap => Self::Cap,
            DeadlineChoice::GiveUp => Self::GiveUp,
        }
    }
}

/// The settings of the layers, shared by all protocols.
#[derive(Clone)]
pub(crate) struct Setup {
    pub(crate) target: OneOrMany,
    /// As the document says it, which beats any policy.
    pub(crate) on_deadline: Option<OnDeadline>,
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
    /// For strategies that say nothing of it themselves.
    pub(crate) fn on_deadline_or_cap(&self) -> OnDeadline {
        self.on_deadline.unwrap_or(OnDeadline::Cap)
    }

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

impl Document {
    pub(crate) fn parse(text: &[u8]) -> Result<Self, Faults> {
        Self::of(Fields::of(text, "$", Found::default()))
    }

    /// A document with these fields.
    pub(crate) fn of(fields: Fields) -> Result<Self, Faults> {
        let found = fields.found.clone();
        found.check(Self::read(fields))
    }

    fn read(mut fields: Fields) -> Result<Self, Fault> {
        let calls = fields.list("calls").into_iter().enumerate();
        let calls = calls.map(|(place, call)| head(call, place));
        let calls = calls.collect::<Result<_, _>>()?;
        let on_deadline = fields.optional::<DeadlineChoice>("on_deadline")?;
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
                on_deadline: on_deadline.map(OnDeadline::from),
                randomness,
            },
            calls,
            rest: fields,
        })
    }

    /// The faults so far.
    pub(crate) fn found(&self) -> Found {
        self.rest.found.clone()
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

    fn of(document: Value) -> Result<Document, Faults> {
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
            let fault = Document::parse(text.as_bytes()).unwrap_err().listed();
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
        of(document).unwrap_err().listed()
    }

    #[test]
    fn the_defaults_are_the_contracts() {
        let document =
            of(json!({"target": "h:1", "calls": [{"call": "a", "timeout_ms": null}]})).unwrap();
        assert_eq!(document.protocol, Protocol::Grpc);
        assert_eq!(document.concurrency, Concurrency::Sequential);
        assert_eq!(document.linger, Duration::from_millis(30));
        assert_eq!(document.setup.on_deadline, None);
        assert_eq!(document.setup.on_deadline_or_cap(), OnDeadline::Cap);
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
    fn all_faults_are_reported_at_once() {
        let text = br#"{"protocol": "smtp", "seed": 1, "seed": 2, "linger_ms": "long", "calls": [
            {"timeout_ms": -1, "start_delay_ms": []}, 7, {"call": 1}]}"#;
        let faults = Document::parse(text).unwrap_err();
        let paths: Vec<_> = faults.faults().iter().map(|fault| &*fault.path).collect();
        assert_eq!(
            paths,
            [
                "$.seed",
                "$.calls[1]",
                "$.calls[0].timeout_ms",
                "$.calls[0].start_delay_ms",
                "$.calls[2].call",
                "$.protocol",
                "$.linger_ms",
                "$.target",
            ]
        );
    }

    #[test]
    fn a_duplicate_member_is_a_fault_at_any_depth() {
        let text = br#"{"target": "h:1", "calls": [{"options": {"a": [{"b": 1, "b": 2}]}}]}"#;
        let document = Document::parse(text).unwrap();
        let found = document.found();
        let (_, mut call) = document.calls.into_iter().next().unwrap();
        let read = call.optional::<Value>("options");
        let faults = found.check(read).unwrap_err();
        assert_eq!(faults.listed(), "$.calls[0].options.a[0].b: is there twice");
    }

    #[test]
    fn half_a_document_is_a_fault_with_its_position() {
        let fault = Document::parse(b"{\"target\": ").unwrap_err().listed();
        assert!(fault.starts_with("$: EOF while parsing"), "{fault}");
        assert!(fault.contains("line 1 column"), "{fault}");
    }
}
