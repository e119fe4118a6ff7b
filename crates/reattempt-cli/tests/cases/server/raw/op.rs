//! The operations of a raw server's script.

use std::time::Duration;

use serde_json::Value;

use crate::members::{Members, Result};

/// What a connection does next. It is closed after the last one.
pub(super) enum Op {
    /// Reads one HTTP/1.1 request.
    Request,
    /// Writes this at once.
    Say(Vec<u8>),
    /// Writes these without a pause between them.
    Together(Vec<Op>),
    Wait(Duration),
    /// Reads this many bytes, and leaves them unread for the next one.
    Until(usize),
    /// Reads until the client has closed the connection.
    Gone,
    /// Breaks the connection (RST).
    Reset,
    /// Repeats these; without a number until the connection ends.
    Loop(Vec<Op>, Option<usize>),
    /// Writes these 100 times at once without an end, and reads meanwhile.
    Flood(Vec<Op>),
    /// Sends SETTINGS with this payload, and reads the preface of HTTP/2.
    Settings(Vec<u8>),
    /// Reads one HTTP/2 request to its end; its stream is the current one.
    Stream,
    /// Sends a frame: kind, flags, stream (`None`: the current one) and payload.
    Frame(u8, u8, Option<u32>, Vec<u8>),
    /// Sends GOAWAY with this last stream (`None`: the current one) and error code.
    GoAway(Option<u32>, u32),
}

pub(super) fn ops(list: &Value) -> Result<Vec<Op>> {
    let list = list
        .as_array()
        .ok_or(format!("raw: must be a list, got {list}"))?;
    list.iter().map(op).collect()
}

fn op(shown: &Value) -> Result<Op> {
    let mut words = Members::step(shown.clone(), "wait_ms")?;
    let frames = [
        ("head", 1, 4),
        ("answer", 1, 5),
        ("data", 0, 0),
        ("last_data", 0, 1),
    ];
    let mut found = None;
    for (name, kind, flags) in frames {
        if let Some(payload) = words.take::<Value>(name)? {
            let payload = match kind {
                // `:status` as a literal, which needs no dynamic table.
                1 => [&[0x08, 3], payload.to_string().as_bytes()].concat(),
                _ => payload.as_str().unwrap_or_default().into(),
            };
            found = Some(Op::Frame(kind, flags, words.take("stream")?, payload));
        }
    }
    let op = if let Some(op) = found {
        op
    } else if let Some(said) = words.take::<String>("say")? {
        Op::Say(said.into())
    } else if let Some(bytes) = words.take("say_bytes")? {
        Op::Say(bytes)
    } else if let Some(list) = words.take("together")? {
        Op::Together(ops(&list)?)
    } else if let Some(ms) = words.take("wait_ms")? {
        Op::Wait(Duration::from_millis(ms))
    } else if let Some(bytes) = words.take("until_bytes")? {
        Op::Until(bytes)
    } else if let Some(list) = words.take("loop")? {
        Op::Loop(ops(&list)?, words.take("times")?)
    } else if let Some(list) = words.take("flood")? {
        Op::Flood(ops(&list)?)
    } else if let Some(payload) = words.take("settings_with")? {
        Op::Settings(payload)
    } else if let Some(code) = words.take::<u32>("rst_stream")? {
        Op::Frame(3, 0, None, code.to_be_bytes().into())
    } else if let Some(code) = words.take("go_away")? {
        Op::GoAway(words.take("last")?, code)
    } else if let Some(said) = words.take::<String>("ping")? {
        Op::Frame(6, 0, Some(0), said.into())
    } else if words.flag("settings_frame")? {
        Op::Frame(4, 0, Some(0), Vec::new())
    } else if words.flag("settings")? {
        Op::Settings(Vec::new())
    } else if words.flag("request")? {
        Op::Request
    } else if words.flag("stream")? {
        Op::Stream
    } else if words.flag("gone")? {
        Op::Gone
    } else if words.flag("reset")? {
        Op::Reset
    } else {
        return Err(format!("raw: no such operation: {shown}"));
    };
    words.finish()?;
    Ok(op)
}
