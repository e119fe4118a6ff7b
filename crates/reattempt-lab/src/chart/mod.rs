//! Results for people: a table, and pictures without scripts or outside resources.

mod html;
mod svg;
mod table;

pub use html::page;
pub use svg::svg;
pub use table::table;

/// Text of a document inside of markup.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            // XML has no other control characters.
            control if control.is_control() => escaped.push('\u{fffd}'),
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            other => escaped.push(other),
        }
    }
    escaped
}

/// At most this many characters of a name. More of its end is kept than of its start: names that
/// begin alike, as paths do, mostly differ at their end.
fn short(name: &str, most: usize) -> String {
    let length = name.chars().count();
    if length <= most {
        return name.to_owned();
    }
    let kept = most.saturating_sub(1);
    let first = kept / 3;
    let start: String = name.chars().take(first).collect();
    let end: String = name.chars().skip(length - (kept - first)).collect();
    format!("{start}…{end}")
}
