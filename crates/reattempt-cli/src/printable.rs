//! Untrusted text in the program's output: it cannot move the cursor or begin a line.

use std::fmt::{self, Display, Write};
use std::io;

/// Like `println!`, which panics where the line cannot be written.
macro_rules! say {
    ($($part:tt)*) => {
        $crate::printable::print_line(format_args!($($part)*))
    };
}
pub(crate) use say;

/// Like `eprintln!`, which panics where the line cannot be written.
macro_rules! complain {
    ($($part:tt)*) => {
        $crate::printable::complain_line(format_args!($($part)*))
    };
}
pub(crate) use complain;

pub(crate) fn complain_line(text: fmt::Arguments<'_>) {
    let _unread = io::Write::write_fmt(&mut io::stderr().lock(), format_args!("{text}\n"));
}

/// A reader that wants no more, as `head`, is no error.
pub(crate) fn print_line(text: fmt::Arguments<'_>) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let printed = io::Write::write_fmt(&mut out, format_args!("{text}\n"));
    match printed.and_then(|()| io::Write::flush(&mut out)) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}

/// On one line: invisible characters are escaped, as `\n` or `\u{1b}`.
pub(crate) struct OneLine<T>(pub(crate) T);

/// Like [`OneLine`], but keeps line breaks and tabs.
pub(crate) struct Lines<T>(pub(crate) T);

impl<T: Display> Display for OneLine<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(Escaping { out: f, keep: &[] }, "{}", self.0)
    }
}

impl<T: Display> Display for Lines<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keep = &['\n', '\t'];
        write!(Escaping { out: f, keep }, "{}", self.0)
    }
}

struct Escaping<'a, 'f> {
    out: &'a mut fmt::Formatter<'f>,
    keep: &'static [char],
}

/// Control characters, line separators and bidirectional controls.
fn is_invisible(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

impl Write for Escaping<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for c in text.chars() {
            if is_invisible(c) && !self.keep.contains(&c) {
                write!(self.out, "{}", c.escape_default())?;
            } else {
                self.out.write_char(c)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_wrote_moves_no_cursor_and_begins_no_line() {
        let text = "é \\ \"a\"\u{1b}[2J\r\n\tb\u{9b}\u{202e}";
        let line = OneLine(text).to_string();
        assert_eq!(line, r#"é \ "a"\u{1b}[2J\r\n\tb\u{9b}\u{202e}"#);
        let lines = Lines(text).to_string();
        assert_eq!(lines, "é \\ \"a\"\\u{1b}[2J\\r\n\tb\\u{9b}\\u{202e}");
    }
}
