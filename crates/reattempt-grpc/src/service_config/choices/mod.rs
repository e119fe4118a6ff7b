//! Choices of a service config, for a gradual rollout to a part of the clients (A2, Service Config
//! via DNS).
//!
//! The owner of a service publishes a list of choices in the TXT record of
//! `_grpc_config.<server name>`, as `grpc_config=[…]`. [`txt_value`] finds the list in a record,
//! [`choose`] the first choice that applies to this client; its service config is then parsed like
//! any other. This module does no DNS lookups.
//!
//! ```
//! use reattempt_grpc::service_config::choices::{self, Client};
//! use reattempt_grpc::service_config::LiveServiceConfig;
//!
//! // One record; its strings are concatenated.
//! let record = [
//!     r#"grpc_config=[{"clientLanguage": ["go", "Rust"], "percentage": 10, "serviceConfig": "#,
//!     r#"{"methodConfig": [{"name": [{}], "timeout": "2s"}]}}, {"serviceConfig": {}}]"#,
//! ];
//! let list = choices::txt_value(record)?.expect("a record with the attribute");
//!
//! // A client keeps its percentile, so that its config does not change with each DNS response.
//! let client = Client::new(7);
//! let live = LiveServiceConfig::default();
//! match choices::choose(&list, &client)? {
//!     Some(config) => drop(live.update(&config)?),
//!     None => live.use_default(),
//! }
//! let limit = live.load().method("/a.B/C").policy.timeout();
//! assert_eq!(limit.map(|limit| limit.as_secs()), Some(2));
//!
//! assert_eq!(choices::choose(&list, &Client::new(10))?.as_deref(), Some("{}"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Decisions where A2 is silent
//!
//! - All choices are validated, not only the chosen one: an unknown field, a duplicate field, a
//!   value of the wrong type and `null` make the whole list invalid. Of the service configs only
//!   the chosen one is parsed.
//! - A percentage `p` applies to clients whose percentile, from 0 to 99, is below `p`: 0 to none,
//!   100 to all.
//! - An empty list of languages or host names applies to every client. A client without a host name
//!   matches no list of host names.
//! - Escapes may encode characters beyond ASCII; the record itself must be ASCII.

mod client;
mod txt;

use std::borrow::Cow;

use reattempt::config::{Faults, Form, Json, Members, Place};

pub use client::Client;
pub use txt::{ATTRIBUTE, NAME_PREFIX, NotAscii, txt_value};

use super::values;

/// Parses a list of choices and returns the service config of the first that applies to this
/// client, as JSON for [`ServiceConfig::parse`](super::ServiceConfig::parse); `None` if none
/// applies.
pub fn choose(list: &str, client: &Client) -> Result<Option<String>, Faults> {
    let mut choices = Choices::parse(list)?.0.into_iter();
    let chosen = choices.find(|choice| choice.is_for(client));
    Ok(chosen.map(|choice| choice.service_config))
}

/// A list of choices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choices(Vec<Choice>);

impl Choices {
    /// Parses a list. Faults have their path in it, such as `$[0].percentage`.
    pub fn parse(list: &str) -> Result<Self, Faults> {
        let (choices, _) = Form::new("the list of service config choices")
            .read(list, |place, json| {
                values::array(place, json, "choices", Choice::read)
            })?;
        Ok(Self(choices))
    }

    /// The choices in order: the first that applies to a client is used.
    pub fn iter(&self) -> impl Iterator<Item = &Choice> {
        self.0.iter()
    }
}

/// One choice: its conditions and its service config.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    languages: Vec<String>,
    percentage: Option<u32>,
    hostnames: Vec<String>,
    service_config: String,
}

impl Choice {
    fn read(place: &mut Place<'_>, json: Json<'_>) -> Option<Self> {
        let mut choice = Self {
            languages: Vec::new(),
            percentage: None,
            hostnames: Vec::new(),
            service_config: String::new(),
        };
        let members = Members::any(place, json)?;
        // Iterate over all members: `null` is a value of the wrong type here, and an unknown member
        // is a fault.
        for (name, json) in members.iter() {
            let mut place = place.field(name);
            match name {
                "clientLanguage" => choice.languages = strings(&mut place, json),
                "clientHostname" => choice.hostnames = strings(&mut place, json),
                "percentage" => choice.percentage = percentage(&mut place, json),
                "serviceConfig" => choice.service_config = object(&mut place, json),
                _ => place.wrong(UNKNOWN),
            }
        }
        if !members.iter().any(|(name, _)| name == "serviceConfig") {
            let mut place = place.field("serviceConfig");
            place.wrong("is missing: an object is needed");
        }
        Some(choice)
    }

    /// Returns true if all conditions of the choice hold for this client.
    #[must_use]
    pub fn is_for(&self, client: &Client) -> bool {
        let language = |name: &String| name.eq_ignore_ascii_case(&client.language);
        let hostname = |name: &String| client.hostname.as_ref() == Some(name);
        let percentage = self.percentage.unwrap_or(100);
        (self.languages.is_empty() || self.languages.iter().any(language))
            && (self.hostnames.is_empty() || self.hostnames.iter().any(hostname))
            && client.percentile < percentage
    }

    /// Its service config as JSON, not validated yet.
    #[must_use]
    pub fn service_config(&self) -> &str {
        &self.service_config
    }
}

const UNKNOWN: &str = "is not known, which makes the list unusable: a choice has clientLanguage, percentage, \
                       clientHostname and serviceConfig";

// A placeholder for a value that cannot be read. Its fault rejects the whole list, so it is never
// used.

fn strings(place: &mut Place<'_>, json: Json<'_>) -> Vec<String> {
    let strings = values::array(place, json, "strings", |place, json| {
        values::string(place, json).map(Cow::into_owned)
    });
    strings.unwrap_or_default()
}

fn object(place: &mut Place<'_>, json: Json<'_>) -> String {
    if json.is_object() {
        return json.compact();
    }
    values::wrong(place, "an object", json).unwrap_or_default()
}

/// A2 defines a pattern that the text itself must match: 50.0 and 5e1 do not.
fn percentage(place: &mut Place<'_>, json: Json<'_>) -> Option<u32> {
    if let Some(text) = json.as_number() {
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        if let Some(percentage) = text.parse().ok().filter(|p| digits && *p <= 100) {
            return Some(percentage);
        }
    }
    values::wrong(place, "an integer from 0 to 100, written in digits", json)
}
