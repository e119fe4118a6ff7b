//! Why a text is not read at all.

use std::borrow::Cow;

/// Why a text is not read at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unreadable {
    /// It is longer than its form allows.
    #[error("must be at most {longest} bytes long, got {bytes}")]
    TooLong {
        /// Its length in bytes.
        bytes: usize,
        /// The maximum.
        longest: usize,
    },
    /// It is not JSON, or nested too deep.
    #[error("is not JSON: {what} (byte {byte})")]
    NotJson {
        /// The byte where it goes wrong, from 0.
        byte: usize,
        /// The line, from 1.
        line: usize,
        /// The column, from 1; 0 at the end of a line.
        column: usize,
        /// What is wrong there.
        what: Cow<'static, str>,
        /// The message of serde_json, with line and column.
        problem: String,
    },
}

impl Unreadable {
    pub(super) fn too_deep(text: &[u8], byte: usize) -> Self {
        let line = text[..byte].iter().filter(|byte| **byte == b'\n').count() + 1;
        let column = byte + 1 - line_start(text, line);
        Self::NotJson {
            byte,
            line,
            column,
            what: "nested too deep".into(),
            problem: format!("nested too deep at line {line} column {column}"),
        }
    }

    pub(super) fn not_json(text: &[u8], error: &serde_json::Error) -> Self {
        let (line, column) = (error.line(), error.column());
        let problem = error.to_string();
        // The column is that of the byte that was not expected; inside a string the one before it.
        let before = [
            "control character",
            "invalid escape",
            "lone leading surrogate",
        ];
        let before = before.iter().any(|before| problem.starts_with(before));
        let byte = if error.is_eof() {
            text.len()
        } else {
            (line_start(text, line) + column).saturating_sub(usize::from(!before))
        };
        Self::NotJson {
            byte,
            line,
            column,
            what: wording(&problem, text.get(byte..).unwrap_or_default()),
            problem,
        }
    }

    /// The same for a text that begins at this byte of its document.
    pub(super) fn after(mut self, begins: usize) -> Self {
        if let Self::NotJson { byte, .. } = &mut self {
            *byte += begins;
        }
        self
    }
}

fn line_start(text: &[u8], line: usize) -> usize {
    let breaks = text.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
    let before = line
        .checked_sub(2)
        .and_then(|nth| breaks.map(|(at, _)| at + 1).nth(nth));
    before.unwrap_or(0)
}

/// What is wrong where `rest` begins: what is often taken for JSON, or else the problem that
/// serde_json reports. One that has no words here keeps its own.
fn wording(problem: &str, rest: &[u8]) -> Cow<'static, str> {
    if rest.starts_with(b"//") || rest.starts_with(b"/*") {
        return "a comment is not allowed".into();
    }
    if rest.starts_with("\u{feff}".as_bytes()) {
        return "a byte order mark is not allowed".into();
    }
    let problem = problem.split(" at line ").next().unwrap_or_default();
    Cow::Borrowed(match problem {
        "EOF while parsing a value" => "the text ends where a value should be",
        "EOF while parsing a string" => "the text ends inside a string",
        "EOF while parsing a list" => "the text ends inside an array",
        "EOF while parsing an object" => "the text ends inside an object",
        "expected value" | "expected ident" => "no JSON value starts like this",
        "expected `:`" => "a colon must follow the name",
        "expected `,` or `]`" => "a comma or the array's end must follow",
        "expected `,` or `}`" => "a comma or the object's end must follow",
        "key must be a string" => "a member needs a name in quotes",
        "invalid number" if rest.first().is_some_and(u8::is_ascii_digit) => {
            "a number has no leading zeros"
        }
        "invalid number" => "a digit must follow",
        "lone leading surrogate in hex escape" | "unexpected end of hex escape" => {
            "half a surrogate pair"
        }
        "invalid escape" => "no such escape",
        "trailing characters" => "something follows the value",
        other if other.starts_with("control character") => "a control character must be escaped",
        other => return other.to_owned().into(),
    })
}
