//! The steps of a Couchbase node.

use reattempt_couchbase::kv::Status;
use reattempt_testbed::kv::{Node, Step};
use serde_json::Value;

use super::seen::of_name;
use crate::members::{Members, Result};
use crate::server::http::millis;

/// Adds `steps` to the scripts of the nodes; `node` is the first unless the step names another.
pub(super) fn add(members: &mut Members, nodes: &[&Node]) -> Result<()> {
    for words in members.take::<Vec<Value>>("steps")?.unwrap_or_default() {
        let mut words = Members::step(words, "status")?;
        let times = words.take("times")?.unwrap_or(1);
        let at = words.take::<usize>("node")?.unwrap_or(0);
        let node = nodes.get(at).ok_or(format!("step.node: no node {at}"))?;
        let step = step(&mut words)?;
        words.finish()?;
        node.script().repeat(&step, times);
    }
    Ok(())
}

fn step(words: &mut Members) -> Result<Step> {
    let mut step = if let Some(status) = words.take("status")? {
        Step::status(Status(status))
    } else if let Some(text) = words.take::<String>("raw")? {
        Step::raw(text)
    } else if let Some(bytes) = words.take::<Vec<u8>>("raw_bytes")? {
        Step::raw(bytes)
    } else {
        let word = words.word(&[
            ("execute", Step::execute as fn() -> Step),
            ("hang", Step::hang),
            ("close_before", Step::close_before),
            ("close_after", Step::close_after),
            ("lost_answer", Step::lost_answer),
            ("reset", Step::reset),
            ("half_frame", Step::half_frame),
            ("bad_magic", Step::bad_magic),
            ("absurd_length", Step::absurd_length),
            ("out_of_order", Step::out_of_order),
            ("stray_first", Step::stray_first),
            ("wrong_opaque", Step::wrong_opaque),
            ("not_my_vbucket", Step::not_my_vbucket),
        ]);
        word?.ok_or("a step without what it answers")?()
    };
    if let Some(body) = words.take::<String>("body")? {
        step = step.body(body);
    }
    for (name, add) in [
        ("after_ms", Step::after as fn(Step, _) -> Step),
        ("server_duration_ms", Step::server_duration),
        ("throttle_duration_ms", Step::throttle_duration),
    ] {
        if let Some(time) = millis(words, name)? {
            step = add(step, time);
        }
    }
    if let Some(name) = words.take::<String>("only")? {
        step = step.only(of_name(&name).ok_or(format!("step.only: no operation {name}"))?);
    }
    Ok(step)
}
