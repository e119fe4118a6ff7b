//! A JSON value, parsed one level at a time by serde_json.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::{Form, Unreadable};

/// A JSON value as it was written, so that no digit of a number and no duplicate member is lost.
/// The items of an array and the members of an object are parsed when they are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Json<'t> {
    text: &'t str,
    /// The byte of the document where the text starts.
    at: usize,
}

impl<'t> Json<'t> {
    /// Checks that the whole text is one value, within the bounds of the form.
    pub(super) fn parse(text: &'t [u8], form: &Form) -> Result<Self, Unreadable> {
        if text.len() > form.longest {
            return Err(Unreadable::TooLong {
                bytes: text.len(),
                longest: form.longest,
            });
        }
        let mut depth = 0_usize;
        let too_deep = outside_strings(text).find(|(_, byte)| {
            match byte {
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth = depth.saturating_sub(1),
                _ => {}
            }
            depth > form.deepest
        });
        if let Some((at, _)) = too_deep {
            return Err(Unreadable::too_deep(text, at));
        }
        match serde_json::from_slice::<&RawValue>(text) {
            Ok(raw) => Ok(Self::inside(raw, text.as_ptr().addr(), 0)),
            Err(error) => Err(Unreadable::not_json(text, &error)),
        }
    }

    /// A part of the text that begins at this address, and at byte `at` of the document.
    fn inside(raw: &'t RawValue, begins: usize, at: usize) -> Self {
        let text = raw.get();
        Self {
            text,
            at: at + (text.as_ptr().addr() - begins),
        }
    }

    fn part(self, raw: &'t RawValue) -> Self {
        Self::inside(raw, self.text.as_ptr().addr(), self.at)
    }

    /// The text as it was written.
    #[must_use]
    pub const fn text(self) -> &'t str {
        self.text
    }

    /// The text without the white space between values.
    #[must_use]
    pub fn compact(self) -> String {
        let space = outside_strings(self.text.as_bytes())
            .filter_map(|(at, byte)| byte.is_ascii_whitespace().then_some(at));
        let mut space = space.peekable();
        let characters = self.text.char_indices();
        characters
            .filter(|(at, _)| space.next_if_eq(at).is_none())
            .map(|(_, character)| character)
            .collect()
    }

    fn starts_with(self, byte: u8) -> bool {
        self.text.as_bytes().first() == Some(&byte)
    }

    /// Whether it is `null`.
    #[must_use]
    pub fn is_null(self) -> bool {
        self.text == "null"
    }

    /// Whether it is an object.
    #[must_use]
    pub fn is_object(self) -> bool {
        self.starts_with(b'{')
    }

    /// `true` or `false`; `None` if it is neither.
    #[must_use]
    pub fn as_bool(self) -> Option<bool> {
        self.text.parse().ok()
    }

    /// A number as it was written; `None` if it is none.
    #[must_use]
    pub fn as_number(self) -> Option<&'t str> {
        let number = |c: char| c == '-' || c.is_ascii_digit();
        Some(self.text).filter(|text| text.starts_with(number))
    }

    /// A string, unescaped; `None` if it is none, or if an escape is half a surrogate pair.
    #[must_use]
    pub fn as_str(self) -> Option<Cow<'t, str>> {
        let quoted = self.text.strip_prefix('"')?.strip_suffix('"')?;
        if quoted.contains('\\') {
            return serde_json::from_str(self.text).map(Cow::Owned).ok();
        }
        Some(Cow::Borrowed(quoted))
    }

    /// The items of an array; `None` if it is none.
    #[must_use]
    pub fn items(self) -> Option<Vec<Self>> {
        let items: Vec<&RawValue> = serde_json::from_str(self.text).ok()?;
        Some(items.into_iter().map(|item| self.part(item)).collect())
    }

    /// This member of an object, without a check of the others; the last one of several. `None`
    /// also if it is no object.
    #[must_use]
    pub fn get(self, name: &str) -> Option<Self> {
        let members = self.members()?.ok()?.into_iter().rev();
        let mut named = members.filter(|(known, _)| known == name);
        named.next().map(|(_, json)| json)
    }

    /// The members of an object in the order of the text, with duplicates; `None` if it is none.
    pub(super) fn members(self) -> Option<Result<Vec<(String, Self)>, Unreadable>> {
        if !self.is_object() {
            return None;
        }
        Some(match serde_json::from_str(self.text) {
            Ok(Members(members)) => {
                let members = members.into_iter();
                Ok(members.map(|(name, raw)| (name, self.part(raw))).collect())
            }
            Err(error) => Err(Unreadable::not_json(self.text.as_bytes(), &error).after(self.at)),
        })
    }

    /// A description for messages; long texts are truncated.
    #[must_use]
    pub fn describe(self) -> String {
        let shown = |text: &str| text.chars().take(40).collect::<String>();
        match self.text.as_bytes().first() {
            Some(b'{') => "an object".to_owned(),
            Some(b'[') => "an array".to_owned(),
            Some(b'"') => format!("{:?}", shown(&self.as_str().unwrap_or(self.text.into()))),
            _ => shown(self.text),
        }
    }
}

/// The bytes outside of strings, with their positions.
fn outside_strings(text: &[u8]) -> impl Iterator<Item = (usize, u8)> {
    let (mut inside, mut escaped) = (false, false);
    text.iter().copied().enumerate().filter(move |(_, byte)| {
        let outside = !inside;
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = inside,
            b'"' => inside = !inside,
            _ => {}
        }
        outside
    })
}

/// The members of one object.
struct Members<'t>(Vec<(String, &'t RawValue)>);

impl<'t> Deserialize<'t> for Members<'t> {
    fn deserialize<D: Deserializer<'t>>(deserializer: D) -> Result<Self, D::Error> {
        struct Each;

        impl<'t> Visitor<'t> for Each {
            type Value = Members<'t>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'t>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(Each)
    }
}
