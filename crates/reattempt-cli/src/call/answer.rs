//! The answer of one call: a JSON line for programs.

use std::borrow::Cow;
use std::io::{self, Write};

use base64::engine::general_purpose::STANDARD;
use base64::write::EncoderWriter;
use bytes::Bytes;
use reattempt::{Elapsed, StopReason};
use serde::Serialize;
use serde_json::{Map, Value};

use super::attempts::Attempt;
use super::document::to_base64;
use super::in_millis::InMillis;

/// Whether the request may have taken effect when a deadline passed (RFC 0049).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Timeout {
    Ambiguous,
    Unambiguous,
}

impl From<&Elapsed> for Timeout {
    fn from(elapsed: &Elapsed) -> Self {
        if elapsed.ambiguous {
            Self::Ambiguous
        } else {
            Self::Unambiguous
        }
    }
}

/// One answer.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Answer {
    pub(crate) call: String,
    pub(crate) elapsed_ms: InMillis,
    pub(crate) attempts: Vec<Attempt>,
    pub(crate) reasons: Vec<&'static str>,
    pub(crate) stopped: Option<&'static str>,
    pub(crate) error: Option<String>,
    pub(crate) timeout: Option<Timeout>,
    /// Fields of this protocol only.
    #[serde(flatten)]
    pub(crate) own: Map<String, Value>,
    /// Bytes sent by the server, as fields of `own`. They are encoded while the line is written, so
    /// that encoding does not delay other calls whose deadline is near.
    #[serde(skip)]
    bytes: Vec<(&'static str, Sent)>,
    /// The content of the answer for people, line by line.
    #[serde(skip)]
    pub(crate) for_people: Vec<Shown>,
}

/// Data sent by the server.
#[derive(Clone, Debug)]
enum Sent {
    Body(Bytes),
    Messages(Vec<Bytes>),
}

/// A line for people.
#[derive(Clone, Debug)]
pub(crate) enum Shown {
    Text(String),
    Bytes(Bytes),
}

/// The most bytes of an answer that people see: a terminal is of no use for more.
const MOST_SHOWN: usize = 4 << 10;

/// The lines as text, with the server's data up to a bound.
pub(crate) fn shown(lines: &[Shown]) -> Vec<Cow<'_, str>> {
    let (mut shown, mut left, mut unshown) = (Vec::new(), MOST_SHOWN, 0);
    for line in lines {
        match line {
            Shown::Text(text) => shown.push(text.into()),
            Shown::Bytes(_) if left == 0 => unshown += 1,
            Shown::Bytes(bytes) => {
                shown.push(readable(bytes, left));
                // Lines without bytes have their bound, too.
                left = left.saturating_sub(bytes.len().max(1));
            }
        }
    }
    if unshown > 0 {
        shown.push(format!("… {unshown} messages more").into());
    }
    shown
}

impl Answer {
    /// An answer of a call that sent nothing.
    pub(crate) fn unsent(call: String) -> Self {
        Self {
            call,
            elapsed_ms: InMillis::default(),
            attempts: Vec::new(),
            reasons: Vec::new(),
            stopped: None,
            error: None,
            timeout: None,
            own: Map::new(),
            bytes: Vec::new(),
            for_people: Vec::new(),
        }
    }

    /// Whether the caller has what it asked for.
    pub(crate) fn ended_well(&self) -> bool {
        self.error.is_none() && self.stopped == Some(StopReason::Success.name())
    }

    pub(crate) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.own.insert(name.to_owned(), value.into());
        self
    }

    /// Adds bytes, encoded as base64.
    pub(crate) fn with_bytes(mut self, name: &'static str, bytes: Bytes) -> Self {
        self.bytes.push((name, Sent::Body(bytes)));
        self
    }

    /// Adds a list of messages, each encoded as base64.
    pub(crate) fn with_messages(mut self, name: &'static str, messages: Vec<Bytes>) -> Self {
        self.bytes.push((name, Sent::Messages(messages)));
        self
    }

    /// Writes the JSON line without copying the server's data.
    pub(crate) fn write_line(&self, out: &mut impl Write) -> io::Result<()> {
        let mut line = serde_json::to_vec(self)?;
        // The remaining fields follow inside the object's brace.
        line.pop();
        out.write_all(&line)?;
        for (name, sent) in &self.bytes {
            write!(out, ",\"{name}\":")?;
            match sent {
                Sent::Body(bytes) => write_base64(out, bytes)?,
                Sent::Messages(messages) => {
                    out.write_all(b"[")?;
                    for (at, message) in messages.iter().enumerate() {
                        if at > 0 {
                            out.write_all(b",")?;
                        }
                        write_base64(out, message)?;
                    }
                    out.write_all(b"]")?;
                }
            }
        }
        out.write_all(b"}\n")
    }
}

/// Writes a JSON string; base64 needs no escaping.
fn write_base64(out: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    out.write_all(b"\"")?;
    let mut encoder = EncoderWriter::new(&mut *out, &STANDARD);
    encoder.write_all(bytes)?;
    encoder.finish()?;
    drop(encoder);
    out.write_all(b"\"")
}

/// At most `most` of the bytes for people: text if they are valid text, otherwise base64.
fn readable(bytes: &[u8], most: usize) -> Cow<'_, str> {
    let mut first = &bytes[..bytes.len().min(most)];
    if let Err(error) = std::str::from_utf8(first) {
        // The bound may be within a character.
        if first.len() < bytes.len() && error.error_len().is_none() {
            first = &first[..error.valid_up_to()];
        }
    }
    let text = match std::str::from_utf8(first) {
        Ok(text) if !text.contains(|c: char| c.is_control() && !c.is_whitespace()) => text.into(),
        _ => Cow::from(format!("base64 {}", to_base64(first))),
    };
    match bytes.len() - first.len() {
        0 => text,
        more => format!("{text}\n  … {more} bytes more").into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_see_the_beginning_of_a_long_answer() {
        let shown = |bodies: &[&[u8]]| {
            let lines = bodies.iter().map(|body| Bytes::copy_from_slice(body));
            let lines: Vec<_> = lines.map(Shown::Bytes).collect();
            shown(&lines).join("\n")
        };
        let whole = "a".repeat(MOST_SHOWN);
        assert_eq!(shown(&[whole.as_bytes()]), whole);
        let long = format!("a{}", "é".repeat(MOST_SHOWN));
        let begins = &long[..MOST_SHOWN - 1];
        let more = long.len() - begins.len();
        let cut = format!("{begins}\n  … {more} bytes more");
        assert_eq!(shown(&[long.as_bytes()]), cut);
        let binary = shown(&[&[0; MOST_SHOWN + 7], b"b", b""]);
        let end = "A==\n  … 7 bytes more\n… 2 messages more";
        assert!(
            binary.starts_with("base64 AAAA") && binary.ends_with(end),
            "{binary}"
        );
        assert_eq!(
            shown(&[b"".as_slice(); 2 * MOST_SHOWN]).lines().count(),
            MOST_SHOWN + 1
        );
    }

    #[test]
    fn bytes_stand_in_the_line_as_base64() {
        let one = |answer: Answer| {
            let mut line = Vec::new();
            answer.write_line(&mut line).unwrap();
            assert_eq!(line.pop(), Some(b'\n'));
            serde_json::from_slice::<Value>(&line).unwrap()
        };
        let messages = vec![Bytes::new(), Bytes::from(vec![7; 100_000])];
        let line = one(Answer::unsent("a".to_owned())
            .with("code", 0)
            .with_bytes("body", "hello".into())
            .with_messages("none", Vec::new())
            .with_messages("responses", messages.clone()));
        assert_eq!(line["call"], "a");
        assert_eq!(line["code"], 0);
        assert_eq!(line["body"], "aGVsbG8=");
        assert_eq!(line["none"], serde_json::json!([]));
        let expected: Vec<_> = messages.iter().map(|message| to_base64(message)).collect();
        assert_eq!(line["responses"], serde_json::json!(expected));
    }
}
