//! Terminal output of the demo.

use std::time::Duration;

/// Text styles.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style {
    /// Whether the output is a terminal with colours.
    pub(crate) colour: bool,
}

impl Style {
    fn paint(self, code: &str, text: &str) -> String {
        if self.colour {
            format!("\u{1b}[{code}m{text}\u{1b}[0m")
        } else {
            text.to_owned()
        }
    }

    pub(crate) fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    pub(crate) fn dim(self, text: &str) -> String {
        self.paint("2", text)
    }

    pub(crate) fn good(self, text: &str) -> String {
        self.paint("1;32", text)
    }
}

pub(crate) fn millis(time: Option<Duration>) -> String {
    time.map_or_else(
        || "–".to_owned(),
        |time| format!("{:.1} ms", time.as_secs_f64() * 1e3),
    )
}
