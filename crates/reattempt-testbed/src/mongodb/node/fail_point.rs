//! The `failCommand` fail point, as used in driver tests.

use std::time::Duration;

use bson::{Bson, Document, doc};
use reattempt_clients::mongodb::wire::number;

use super::codes::{CommandError, code_name};
use super::script::{Action, Step};
use super::seen::canonical;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    AlwaysOn,
    Times(u64),
    Skip(u64),
}

/// An active fail point.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct FailPoint {
    mode: Mode,
    commands: Vec<String>,
    app_name: Option<String>,
    step: Step,
}

impl FailPoint {
    /// Parses a `configureFailPoint` command; `None` turns it off.
    pub(super) fn parse(command: &Document) -> Result<Option<Self>, CommandError> {
        let name = command.get_str("configureFailPoint").unwrap_or_default();
        if name != "failCommand" {
            return Err(CommandError::new(
                1,
                format!("no fail point {name:?}, only failCommand"),
            ));
        }
        let mode = match command.get("mode") {
            Some(Bson::String(text)) if text == "off" => return Ok(None),
            Some(Bson::String(text)) if text == "alwaysOn" => Mode::AlwaysOn,
            Some(Bson::Document(mode)) => match (count(mode, "times")?, count(mode, "skip")?) {
                (Some(times), None) => Mode::Times(times),
                (None, Some(skip)) => Mode::Skip(skip),
                _ => return Err(CommandError::bad_value("mode: one of times and skip")),
            },
            other => {
                return Err(CommandError::bad_value(format!(
                    "mode: \"off\", \"alwaysOn\", {{times: n}} or {{skip: n}}, got {other:?}"
                )));
            }
        };
        let empty = Document::new();
        let data = command.get_document("data").unwrap_or(&empty);
        let commands = texts(data, "failCommands")?;
        if commands.is_empty() {
            return Err(CommandError::bad_value(
                "data.failCommands: a list of command names",
            ));
        }
        let block = data.get_bool("blockConnection").unwrap_or(false);
        let delay = match count(data, "blockTimeMS")? {
            Some(ms) if block => Duration::from_millis(ms),
            None if block => {
                return Err(CommandError::bad_value("data.blockTimeMS: needed to block"));
            }
            _ => Duration::ZERO,
        };
        let app_name = data.get_str("appName").ok().map(str::to_owned);
        let step = Step {
            delay,
            action: action(data)?,
        };
        Ok(Some(Self {
            mode,
            commands,
            app_name,
            step,
        }))
    }

    /// The step for this command, if the fail point applies to it; counts it then.
    pub(super) fn take(&mut self, command: &str, app_name: Option<&str>) -> Option<Step> {
        let meant = self
            .commands
            .iter()
            .any(|name| canonical(name) == canonical(command));
        let from = self
            .app_name
            .as_deref()
            .is_none_or(|wanted| app_name == Some(wanted));
        if !meant || !from {
            return None;
        }
        match &mut self.mode {
            Mode::AlwaysOn => {}
            Mode::Times(0) => return None,
            Mode::Times(left) => *left -= 1,
            Mode::Skip(0) => {}
            Mode::Skip(left) => {
                *left -= 1;
                return None;
            }
        }
        Some(self.step.clone())
    }
}

fn action(data: &Document) -> Result<Action, CommandError> {
    if data.get_bool("closeConnection").unwrap_or(false) {
        return Ok(Action::Close);
    }
    let labels = texts(data, "errorLabels")?;
    if let Some(code) = number(data.get("errorCode")) {
        let code = code as i32;
        let mut document = doc! {
            "ok": 0.0,
            "errmsg": "Failing command via 'failCommand' failpoint",
            "code": code,
            "codeName": code_name(code),
        };
        if !labels.is_empty() {
            document.insert("errorLabels", labels);
        }
        return Ok(Action::Reply(document, true));
    }
    let mut added = Document::new();
    if let Ok(error) = data.get_document("writeConcernError") {
        added.insert("writeConcernError", error.clone());
        if !labels.is_empty() {
            added.insert("errorLabels", labels);
        }
    }
    Ok(Action::Pass(added))
}

fn count(document: &Document, field: &str) -> Result<Option<u64>, CommandError> {
    match (document.get(field), number(document.get(field))) {
        (None, _) => Ok(None),
        (Some(_), Some(count)) if count >= 0.0 && count.fract() == 0.0 => Ok(Some(count as u64)),
        (Some(other), _) => Err(CommandError::bad_value(format!(
            "{field}: must be a whole number of at least 0, got {other}"
        ))),
    }
}

fn texts(document: &Document, field: &str) -> Result<Vec<String>, CommandError> {
    let Some(value) = document.get(field) else {
        return Ok(Vec::new());
    };
    value
        .as_array()
        .and_then(|list| {
            list.iter()
                .map(|text| text.as_str().map(str::to_owned))
                .collect()
        })
        .ok_or_else(|| CommandError::bad_value(format!("{field}: must be a list of strings")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(mode: impl Into<Bson>, data: Document) -> Option<FailPoint> {
        let command =
            doc! { "configureFailPoint": "failCommand", "mode": mode.into(), "data": data };
        FailPoint::parse(&command).unwrap()
    }

    #[test]
    fn modes_count_only_what_is_meant() {
        let data = doc! { "failCommands": ["find"], "errorCode": 6, "appName": "a" };
        let mut point = parse(doc! { "times": 2 }, data.clone()).unwrap();
        assert_eq!(point.take("insert", Some("a")), None);
        assert_eq!(point.take("find", Some("b")), None);
        assert_eq!(point.take("find", None), None);
        assert!(point.take("find", Some("a")).is_some());
        assert!(point.take("find", Some("a")).is_some());
        assert_eq!(point.take("find", Some("a")), None);
        let mut point = parse(doc! { "skip": 1_i64 }, data.clone()).unwrap();
        assert_eq!(point.take("find", Some("a")), None);
        assert!(point.take("find", Some("a")).is_some());
        let mut point = parse("alwaysOn", data.clone()).unwrap();
        assert!((0..9).all(|_| point.take("find", Some("a")).is_some()));
        assert_eq!(parse("off", data), None);
    }

    #[test]
    fn both_names_of_the_handshake_are_one() {
        let data = doc! { "failCommands": ["hello"], "closeConnection": true };
        let mut point = parse("alwaysOn", data).unwrap();
        assert_eq!(point.take("isMaster", None), Some(Step::close_before()));
    }

    #[test]
    fn a_block_may_come_before_an_error() {
        let data = doc! {
            "failCommands": ["find"], "blockConnection": true, "blockTimeMS": 20.0,
            "errorCode": 91_i64, "errorLabels": ["RetryableError"],
        };
        let mut point = parse("alwaysOn", data).unwrap();
        let step = point.take("find", None).unwrap();
        assert_eq!(step.delay, Duration::from_millis(20));
        let Action::Reply(document, true) = step.action else {
            panic!()
        };
        assert_eq!(document.get_i32("code"), Ok(91));
        assert_eq!(document.get_str("codeName"), Ok("ShutdownInProgress"));
        assert_eq!(
            document.get_array("errorLabels"),
            Ok(&vec!["RetryableError".into()])
        );
    }

    #[test]
    fn what_cannot_be_used_is_refused() {
        for command in [
            doc! { "configureFailPoint": "other", "mode": "alwaysOn" },
            doc! { "configureFailPoint": "failCommand", "mode": "sometimes" },
            doc! { "configureFailPoint": "failCommand", "mode": { "times": -1 } },
            doc! { "configureFailPoint": "failCommand", "mode": "alwaysOn", "data": {} },
            doc! { "configureFailPoint": "failCommand", "mode": "alwaysOn",
            "data": { "failCommands": [1] } },
            doc! { "configureFailPoint": "failCommand", "mode": "alwaysOn",
            "data": { "failCommands": ["find"], "blockConnection": true } },
        ] {
            assert!(FailPoint::parse(&command).is_err(), "{command}");
        }
    }
}
