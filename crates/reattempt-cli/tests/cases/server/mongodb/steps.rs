//! The steps of MongoDB servers: which command takes which.

use std::collections::HashSet;

use bson::Bson;
use reattempt_testbed::mongodb::Step;
use reattempt_testbed::mongodb::node::SeenCommand;
use serde_json::{Map, Value};

use super::{document, text};
use crate::members::{Members, Result};
use crate::server::http::millis;

/// The steps of all nodes of a deployment.
pub(super) struct Steps {
    rules: Vec<Rule>,
    /// The sessions that have taken a step for first attempts.
    failed: HashSet<String>,
}

/// A step with the commands that it is for.
struct Rule {
    command: String,
    /// Only for a session, and so for a call, that has taken no such step.
    first_attempt: bool,
    member: Option<usize>,
    /// Only on a connection with a higher number. The first connection to a node is the monitor's.
    above_connection: Option<u64>,
    always: bool,
    taken: bool,
    effect: Option<Effect>,
    step: Step,
}

/// What happens before the answer.
#[derive(Clone)]
pub(super) enum Effect {
    Elects(Value),
    RefusesConnections(u64),
    SetsWireVersion(i32),
}

impl Steps {
    /// `[[command, steps], ..]`; each step answers one command, unless it is for `always`.
    pub(super) fn read(script: &mut Members) -> Result<Self> {
        let mut rules = Vec::new();
        for (member, first_attempt) in [("on", false), ("first_attempts", true)] {
            let listed: Option<Vec<(String, Value)>> = script.take(member)?;
            for (command, steps) in listed.unwrap_or_default() {
                let steps = match steps {
                    Value::Array(steps) => steps,
                    one => vec![one],
                };
                for words in steps {
                    let mut words = Members::step(words, "code")?;
                    rules.push(Rule {
                        command: command.clone(),
                        first_attempt,
                        member: words.take("member")?,
                        above_connection: words.take("above_connection")?,
                        always: words.flag("always")?,
                        taken: false,
                        effect: effect(&mut words)?,
                        step: step(&mut words)?,
                    });
                    words.finish()?;
                }
            }
        }
        Ok(Self {
            rules,
            failed: HashSet::new(),
        })
    }

    pub(super) fn take(
        &mut self,
        member: usize,
        command: &SeenCommand,
    ) -> Option<(Step, Option<Effect>)> {
        let session = command.document.get("lsid").map(Bson::to_string);
        let failed = session.as_ref().is_none_or(|own| self.failed.contains(own));
        let rule = self.rules.iter_mut().find(|rule| {
            rule.command == command.name
                && !rule.taken
                && !(rule.first_attempt && failed)
                && rule.member.is_none_or(|only| only == member)
                && rule
                    .above_connection
                    .is_none_or(|above| command.connection > above)
        })?;
        rule.taken = !rule.always;
        if rule.first_attempt {
            self.failed.extend(session);
        }
        Some((rule.step.clone(), rule.effect.clone()))
    }

    /// The number of steps that no command has taken.
    pub(super) fn left(&self) -> usize {
        self.rules.iter().filter(|rule| !rule.taken).count()
    }
}

fn effect(words: &mut Members) -> Result<Option<Effect>> {
    Ok(if let Some(primary) = words.take("elects")? {
        Some(Effect::Elects(primary))
    } else if let Some(count) = words.take("refuses_connections")? {
        Some(Effect::RefusesConnections(count))
    } else {
        words
            .take("sets_wire_version")?
            .map(Effect::SetsWireVersion)
    })
}

fn step(words: &mut Members) -> Result<Step> {
    let mut step = if let Some(code) = words.take("code")? {
        Step::code(code)
    } else if let Some(reply) = words.take("ok")? {
        Step::ok(document(reply)?)
    } else if let Some(reply) = words.take("reply")? {
        Step::reply(document(reply)?)
    } else if let Some(bytes) = words.take("first_bytes")? {
        Step::first_bytes(bytes)
    } else {
        let word = words.word(&[
            ("pass", Step::pass as fn() -> Step),
            ("hang", Step::hang),
            ("close_before", Step::close_before),
            ("reset", Step::reset),
            ("half_reply", Step::half_reply),
            ("stalled_reply", Step::stalled_reply),
        ]);
        word?.ok_or("a step without what it answers")?()
    };
    for label in words.take::<Vec<String>>("labels")?.unwrap_or_default() {
        step = step.label(&label);
    }
    for (field, value) in words.take::<Map<_, _>>("with")?.unwrap_or_default() {
        step = step.with(&field, Bson::try_from(value).map_err(text)?);
    }
    for field in words.take::<Vec<String>>("without")?.unwrap_or_default() {
        step = step.without(&field);
    }
    if let Some(delay) = millis(words, "after_ms")? {
        step = step.after(delay);
    }
    Ok(step)
}
