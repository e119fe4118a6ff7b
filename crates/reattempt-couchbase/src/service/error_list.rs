//! Finds the first error of a query or analytics response while it arrives.
//!
//! Both services return one JSON object, with the rows in a list `results` and the errors in a list
//! `errors`, whose first entry decides. The object may be truncated, megabytes long, or malformed:
//! so it is not parsed but scanned byte by byte, and only the few relevant members are stored.

use super::ServiceError;
use super::json_text::unescape;

/// The maximum number of stored bytes of one message, before unescaping.
const LONGEST_MESSAGE: usize = 64 * 1024;

/// The maximum number of stored bytes of any other token: no relevant name or number is longer.
const LONGEST_TOKEN: usize = 64;

/// Scans a response up to its first error.
#[derive(Clone, Debug)]
pub(super) struct ErrorListScan {
    at: At,
    /// The nesting depth inside a value that is skipped.
    nested: u32,
    text: Text,
    token: Vec<u8>,
    key: Key,
    rows: bool,
    /// An error was found, complete or not.
    pub(super) present: bool,
    code: Option<i32>,
    message: Option<Vec<u8>>,
    retry: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// Before the object.
    Start,
    Answer(Part),
    Results,
    Errors,
    FirstError(Part),
    /// Nothing more to find.
    Over,
}

/// The part of an object's member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Name,
    Value,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Text {
    Outside,
    Inside,
    /// Directly after a backslash.
    Escape,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    Errors,
    Results,
    Code,
    Message,
    Retry,
    Other,
}

impl ErrorListScan {
    pub(super) const fn new() -> Self {
        Self {
            at: At::Start,
            nested: 0,
            text: Text::Outside,
            token: Vec::new(),
            key: Key::Other,
            rows: false,
            present: false,
            code: None,
            message: None,
            retry: false,
        }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while !self.is_over() {
            // A text in a skipped value may be long; it is ignored up to its end.
            if self.text == Text::Inside && self.nested > 0 {
                let end = rest.iter().position(|byte| matches!(byte, b'"' | b'\\'));
                rest = &rest[end.unwrap_or(rest.len())..];
            }
            let Some((byte, after)) = rest.split_first() else {
                return;
            };
            self.byte(*byte);
            rest = after;
        }
    }

    /// Further bytes cannot change the result: the first error is complete, the object has ended,
    /// or there is no object.
    pub(super) fn is_over(&self) -> bool {
        self.at == At::Over
    }

    /// A row has started.
    pub(super) const fn has_rows(&self) -> bool {
        self.rows
    }

    /// The first error as far as it was read; `None` if there is none.
    pub(super) fn error(&self) -> Option<ServiceError> {
        if !self.present {
            return None;
        }
        let cut_off = || {
            let in_message = self.at == At::FirstError(Part::Value)
                && self.key == Key::Message
                && self.text != Text::Outside
                && self.nested == 0;
            in_message.then_some(&self.token)
        };
        let message = self.message.as_ref().or_else(cut_off);
        Some(ServiceError {
            code: self.code,
            message: message.map(|text| unescape(text)),
            retry: self.retry,
        })
    }

    fn byte(&mut self, byte: u8) {
        match self.text {
            Text::Inside if byte == b'"' => {
                self.text = Text::Outside;
                if self.nested == 0 {
                    self.text_ended();
                }
            }
            Text::Inside | Text::Escape => {
                let escapes = self.text == Text::Inside && byte == b'\\';
                self.text = if escapes { Text::Escape } else { Text::Inside };
                if self.nested == 0 {
                    self.keep(byte);
                }
            }
            Text::Outside if self.nested > 0 => self.inside_nested(byte),
            Text::Outside => self.between(byte),
        }
    }

    fn keep(&mut self, byte: u8) {
        let most = if self.key == Key::Message {
            LONGEST_MESSAGE
        } else {
            LONGEST_TOKEN
        };
        // Stores one byte more than allowed, to detect tokens that are too long.
        if self.token.len() <= most {
            self.token.push(byte);
        }
    }

    fn inside_nested(&mut self, byte: u8) {
        match byte {
            b'"' => self.text = Text::Inside,
            b'{' | b'[' => self.nested = self.nested.saturating_add(1),
            b'}' | b']' => self.nested -= 1,
            _ => {}
        }
    }

    /// A relevant byte: of the response itself, of one of its two lists, or of the first error.
    fn between(&mut self, byte: u8) {
        match byte {
            b' ' | b'\t' | b'\r' | b'\n' => return self.scalar_ended(),
            b',' | b'}' | b']' => self.scalar_ended(),
            _ => {}
        }
        match self.at {
            At::Over => {}
            At::Start => {
                self.at = if byte == b'{' {
                    At::Answer(Part::Name)
                } else {
                    At::Over
                }
            }
            At::Results if byte == b']' => self.at = At::Answer(Part::Value),
            At::Results => {
                self.rows = true;
                self.value_begins(byte);
            }
            At::Errors => match byte {
                b']' => self.at = At::Answer(Part::Value),
                b'{' => {
                    self.present = true;
                    self.at = At::FirstError(Part::Name);
                }
                // There is an error, but it is unreadable.
                _ => {
                    self.present = true;
                    self.at = At::Over;
                }
            },
            At::Answer(part) => match (byte, part, self.key) {
                (b'}', ..) => self.at = At::Over,
                (b'[', Part::Value, Key::Errors) => self.at = At::Errors,
                (b'[', Part::Value, Key::Results) => self.at = At::Results,
                _ => self.member(byte, part, At::Answer),
            },
            At::FirstError(part) => match byte {
                b'}' => self.at = At::Over,
                _ => self.member(byte, part, At::FirstError),
            },
        }
    }

    fn member(&mut self, byte: u8, part: Part, at: fn(Part) -> At) {
        match byte {
            b':' => self.at = at(Part::Value),
            b',' => {
                self.at = at(Part::Name);
                self.key = Key::Other;
            }
            _ if part == Part::Name && byte != b'"' => {}
            _ => self.value_begins(byte),
        }
    }

    fn value_begins(&mut self, byte: u8) {
        match byte {
            b'"' => {
                self.text = Text::Inside;
                self.token.clear();
            }
            b'{' | b'[' => self.nested = 1,
            // Brackets without an opening one.
            b'}' | b']' | b',' => {}
            _ => self.keep(byte),
        }
    }

    fn text_ended(&mut self) {
        let token = std::mem::take(&mut self.token);
        match (self.at, self.key) {
            (At::Answer(Part::Name), _) => {
                self.key = match &*unescape(&token) {
                    "errors" => Key::Errors,
                    "results" => Key::Results,
                    _ => Key::Other,
                }
            }
            (At::FirstError(Part::Name), _) => {
                self.key = match &*unescape(&token) {
                    "code" => Key::Code,
                    "msg" => Key::Message,
                    "retry" => Key::Retry,
                    _ => Key::Other,
                }
            }
            (At::FirstError(Part::Value), Key::Message) => self.message = Some(token),
            _ => {}
        }
    }

    /// Ends a number, `true`, `false` or `null`, if there is one.
    fn scalar_ended(&mut self) {
        if self.token.is_empty() {
            return;
        }
        if self.at == At::FirstError(Part::Value) {
            match self.key {
                // A code must be a JSON integer: no text, no fraction.
                Key::Code => self.code = serde_json::from_slice(&self.token).ok(),
                Key::Retry => self.retry = self.token == b"true",
                _ => {}
            }
        }
        self.token.clear();
    }
}
