//! A small JSON parser that keeps what a configuration needs and serde_json's `Value` loses: the
//! text of numbers (0.5466 is truncated, not rounded) and duplicate keys.

use std::fmt::{self, Write as _};

/// The maximum nesting depth of arrays and objects.
const DEEPEST: u32 = 64;

/// A JSON value. Numbers keep their text.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number, as written.
    Number(String),
    /// A string, unescaped.
    String(String),
    /// An array.
    Array(Vec<Json>),
    /// An object in document order, including duplicate members.
    Object(Vec<(String, Json)>),
}

impl Json {
    /// A description for messages; long texts are truncated.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::Null => "null".to_owned(),
            Self::Bool(value) => value.to_string(),
            Self::Number(text) => text.chars().take(40).collect(),
            Self::String(text) => format!("{:?}", text.chars().take(40).collect::<String>()),
            Self::Array(_) => "an array".to_owned(),
            Self::Object(_) => "an object".to_owned(),
        }
    }
}

/// As JSON on one line: numbers as written, members in document order, including duplicates.
impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Number(text) => f.write_str(text),
            Self::String(text) => write_string(f, text),
            Self::Array(items) => {
                f.write_str("[")?;
                for (at, item) in items.iter().enumerate() {
                    let before = if at == 0 { "" } else { "," };
                    write!(f, "{before}{item}")?;
                }
                f.write_str("]")
            }
            Self::Object(members) => {
                f.write_str("{")?;
                for (at, (name, value)) in members.iter().enumerate() {
                    f.write_str(if at == 0 { "" } else { "," })?;
                    write_string(f, name)?;
                    write!(f, ":{value}")?;
                }
                f.write_str("}")
            }
        }
    }
}

fn write_string(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    f.write_str("\"")?;
    for c in text.chars() {
        match c {
            '"' | '\\' => write!(f, "\\{c}")?,
            '\0'..='\u{1f}' => write!(f, "\\u{:04x}", u32::from(c))?,
            _ => f.write_char(c)?,
        }
    }
    f.write_str("\"")
}

/// Why a text is not JSON: the byte, and the problem there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Syntax {
    pub(super) at: usize,
    pub(super) what: &'static str,
}

pub(super) fn parse(text: &str) -> Result<Json, Syntax> {
    let mut reader = Reader { text, at: 0 };
    let value = reader.value(0)?;
    reader.space();
    if reader.at < text.len() {
        return reader.unexpected("something follows the value");
    }
    Ok(value)
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn fail<T>(&self, what: &'static str) -> Result<T, Syntax> {
        Err(Syntax { at: self.at, what })
    }

    /// Like `fail`, if something else was expected; names common non-JSON syntax.
    fn unexpected<T>(&self, what: &'static str) -> Result<T, Syntax> {
        let rest = &self.text.as_bytes()[self.at..];
        if rest.starts_with(b"//") || rest.starts_with(b"/*") {
            return self.fail("a comment is not allowed");
        }
        if rest.starts_with("\u{feff}".as_bytes()) {
            return self.fail("a byte order mark is not allowed");
        }
        self.fail(what)
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn eat(&mut self, byte: u8) -> bool {
        let there = self.peek() == Some(byte);
        self.at += usize::from(there);
        there
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn value(&mut self, depth: u32) -> Result<Json, Syntax> {
        self.space();
        match self.peek() {
            Some(b'{' | b'[') if depth == DEEPEST => self.fail("nested too deep"),
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'"') => Ok(Json::String(self.string()?)),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word("true", Json::Bool(true)),
            Some(b'f') => self.word("false", Json::Bool(false)),
            Some(b'n') => self.word("null", Json::Null),
            Some(_) => self.unexpected("no JSON value starts like this"),
            None => self.fail("the text ends where a value should be"),
        }
    }

    fn word(&mut self, word: &str, value: Json) -> Result<Json, Syntax> {
        if !self.text.as_bytes()[self.at..].starts_with(word.as_bytes()) {
            return self.unexpected("no JSON value starts like this");
        }
        self.at += word.len();
        Ok(value)
    }

    fn object(&mut self, depth: u32) -> Result<Json, Syntax> {
        self.at += 1;
        let mut members = Vec::new();
        self.space();
        if self.eat(b'}') {
            return Ok(Json::Object(members));
        }
        loop {
            self.space();
            if self.peek() != Some(b'"') {
                return self.unexpected("a member needs a name in quotes");
            }
            let name = self.string()?;
            self.space();
            if !self.eat(b':') {
                return self.unexpected("a colon must follow the name");
            }
            members.push((name, self.value(depth + 1)?));
            self.space();
            if self.eat(b'}') {
                return Ok(Json::Object(members));
            }
            if !self.eat(b',') {
                return self.unexpected("a comma or the object's end must follow");
            }
        }
    }

    fn array(&mut self, depth: u32) -> Result<Json, Syntax> {
        self.at += 1;
        let mut items = Vec::new();
        self.space();
        if self.eat(b']') {
            return Ok(Json::Array(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            self.space();
            if self.eat(b']') {
                return Ok(Json::Array(items));
            }
            if !self.eat(b',') {
                return self.unexpected("a comma or the array's end must follow");
            }
        }
    }

    fn digits(&mut self) -> Result<(), Syntax> {
        let from = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        if self.at == from {
            return self.fail("a digit must follow");
        }
        Ok(())
    }

    fn number(&mut self) -> Result<Json, Syntax> {
        let from = self.at;
        self.eat(b'-');
        if !self.eat(b'0') {
            self.digits()?;
        } else if matches!(self.peek(), Some(b'0'..=b'9')) {
            return self.fail("a number has no leading zeros");
        }
        if self.eat(b'.') {
            self.digits()?;
        }
        if self.eat(b'e') || self.eat(b'E') {
            let _sign = self.eat(b'+') || self.eat(b'-');
            self.digits()?;
        }
        Ok(Json::Number(self.text[from..self.at].to_owned()))
    }

    fn string(&mut self) -> Result<String, Syntax> {
        self.at += 1;
        let mut out = String::new();
        loop {
            let from = self.at;
            while !matches!(self.peek(), None | Some(b'"' | b'\\' | 0..=0x1f)) {
                self.at += 1;
            }
            // Split at ASCII bytes only, so never inside a character.
            out.push_str(&self.text[from..self.at]);
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(out);
                }
                Some(b'\\') => {
                    self.at += 1;
                    out.push(self.escape()?);
                }
                Some(_) => return self.fail("a control character must be escaped"),
                None => return self.fail("the text ends inside a string"),
            }
        }
    }

    fn escape(&mut self) -> Result<char, Syntax> {
        let Some(byte) = self.peek() else {
            return self.fail("the text ends inside a string");
        };
        self.at += 1;
        Ok(match byte {
            b'"' | b'\\' | b'/' => char::from(byte),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let first = self.hex()?;
                let code = if (0xd800..0xdc00).contains(&first) {
                    if !(self.eat(b'\\') && self.eat(b'u')) {
                        return self.fail("half a surrogate pair");
                    }
                    let second = self.hex()?;
                    if !(0xdc00..0xe000).contains(&second) {
                        return self.fail("half a surrogate pair");
                    }
                    0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00)
                } else {
                    first
                };
                match char::from_u32(code) {
                    Some(c) => c,
                    None => return self.fail("half a surrogate pair"),
                }
            }
            _ => return self.fail("no such escape"),
        })
    }

    fn hex(&mut self) -> Result<u32, Syntax> {
        let mut code = 0;
        for _ in 0..4 {
            let digit = self.peek().and_then(|byte| char::from(byte).to_digit(16));
            let Some(digit) = digit else {
                return self.fail("four hexadecimal digits must follow");
            };
            code = code * 16 + digit;
            self.at += 1;
        }
        Ok(code)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn values_of_every_kind_are_read() {
        let json = parse(r#" {"a":[1,-0.5e+3,true,null],"b":"\u00e9\ud83d\ude00\n/"} "#).unwrap();
        let number = |text: &str| Json::Number(text.to_owned());
        let a = Json::Array(vec![
            number("1"),
            number("-0.5e+3"),
            Json::Bool(true),
            Json::Null,
        ]);
        let b = Json::String("\u{e9}\u{1f600}\n/".to_owned());
        assert_eq!(
            json,
            Json::Object(vec![("a".to_owned(), a), ("b".to_owned(), b)])
        );
    }

    #[test]
    fn what_is_not_json_is_refused_where_it_goes_wrong() {
        for (text, at) in [
            ("", 0),
            ("{", 1),
            ("[1,]", 3),
            ("01", 1),
            ("1.", 2),
            (".5", 0),
            ("+1", 0),
            ("{\"a\" 1}", 5),
            ("\"\u{1}\"", 1),
            ("\"\\ud800\"", 7),
            ("\"\\x\"", 3),
            ("nul", 0),
            ("1 2", 2),
            ("\"a", 2),
            ("\"\\u12g4\"", 5),
            ("\"\\udc00\"", 7),
            ("\"\\ud800\\u0041\"", 13),
            ("{} trailing", 3),
        ] {
            assert_eq!(parse(text).map_err(|e| e.at), Err(at), "{text:?}");
        }
        for (text, at, what) in [
            ("\u{feff}{}", 0, "a byte order mark is not allowed"),
            ("// a\n{}", 0, "a comment is not allowed"),
            ("{\"a\": /* b */ 1}", 6, "a comment is not allowed"),
            ("{\"a\": 1, // b\n}", 9, "a comment is not allowed"),
            ("[1 // a\n]", 3, "a comment is not allowed"),
            ("{} // a", 3, "a comment is not allowed"),
        ] {
            assert_eq!(parse(text), Err(Syntax { at, what }), "{text:?}");
        }
        let deep = "[".repeat(100_000);
        assert_eq!(parse(&deep).unwrap_err().what, "nested too deep");
    }

    fn json() -> impl Strategy<Value = Json> {
        let leaf = prop_oneof![
            Just(Json::Null),
            any::<bool>().prop_map(Json::Bool),
            "-?(0|[1-9][0-9]{0,20})(\\.[0-9]{1,20})?([eE][+-]?[0-9]{1,9})?".prop_map(Json::Number),
            ".{0,9}".prop_map(Json::String),
            any::<String>().prop_map(Json::String),
        ];
        leaf.prop_recursive(4, 40, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Json::Array),
                prop::collection::vec(("[ab\"\\\\\u{1}é]{0,3}", inner), 0..6)
                    .prop_map(Json::Object),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_was_read_is_written_as_it_was(json in json()) {
            prop_assert_eq!(parse(&json.to_string()).unwrap(), json);
        }

        #[test]
        fn no_text_panics(text in ".{0,60}", wild in "[\\[\\]{}\",:\\\\ud0-9eE.+-]{0,60}") {
            let _ = (parse(&text), parse(&wild));
        }
    }
}
