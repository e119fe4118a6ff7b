//! A position in a document, where faults are recorded.

use std::fmt;

use super::fault::{Found, List};
use super::{Fault, Faults, Form};

/// The maximum length of a member's name in a path, in characters. Many faults may occur below one
/// name, and each has its path.
const LONGEST_NAME: usize = 64;

/// The way from the root to a position; written out only for a fault.
#[derive(Clone, Copy, Debug)]
enum Path<'a> {
    Root,
    Field(&'a Self, &'a str),
    Index(&'a Self, usize),
}

impl Path<'_> {
    fn write(&self, form: &Form) -> String {
        let (parent, name) = match self {
            Self::Root => return "$".to_owned(),
            Self::Index(parent, at) => return format!("{}[{at}]", parent.write(form)),
            Self::Field(parent, name) => (parent.write(form), *name),
        };
        let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        let cut = name.char_indices().nth(LONGEST_NAME);
        let shown = cut.map_or(name.to_owned(), |(at, _)| format!("{}…", &name[..at]));
        if form.of_server {
            // It may stand in a log: no line of its own, and no terminal's commands.
            let mut path = format!("{parent}.");
            for char in shown.chars() {
                if char.is_control() {
                    path.extend(char.escape_default());
                } else {
                    path.push(char);
                }
            }
            path
        } else if !plain || name.is_empty() || cut.is_some() {
            format!("{parent}[{shown:?}]")
        } else {
            format!("{parent}.{shown}")
        }
    }
}

/// A position in the document where faults are recorded.
#[derive(Debug)]
pub struct Place<'a> {
    path: Path<'a>,
    found: &'a mut Found,
    /// The consequence of a fault here, if it does not reject the document.
    skipped: Option<&'static str>,
}

impl<'a> Place<'a> {
    pub(super) const fn root(found: &'a mut Found) -> Self {
        Self {
            path: Path::Root,
            found,
            skipped: None,
        }
    }

    /// The member with this name of the object at this position.
    pub fn field<'b>(&'b mut self, name: &'b str) -> Place<'b> {
        Place {
            path: Path::Field(&self.path, name),
            found: self.found,
            skipped: self.skipped,
        }
    }

    /// The item with this index of the array at this position.
    pub fn index(&mut self, at: usize) -> Place<'_> {
        Place {
            path: Path::Index(&self.path, at),
            found: self.found,
            skipped: self.skipped,
        }
    }

    /// The same position, where a fault does not reject the document: it becomes a warning with
    /// this consequence, such as "; the entry is skipped".
    pub fn skipping(&mut self, consequence: &'static str) -> Place<'_> {
        Place {
            path: self.path,
            found: self.found,
            skipped: Some(consequence),
        }
    }

    pub(super) const fn form(&self) -> Form {
        self.found.form
    }

    /// Its JSON path.
    #[must_use]
    pub fn path(&self) -> String {
        self.path.write(&self.found.form)
    }

    /// Whether a fault was recorded so far, anywhere in the document.
    #[must_use]
    pub fn has_faults(&self) -> bool {
        !self.found.faults.is_empty()
    }

    /// Records a fault; always `None`.
    pub fn refuse<T>(&mut self, what: impl fmt::Display) -> Option<T> {
        self.wrong(what);
        None
    }

    /// Records a fault.
    pub fn wrong(&mut self, what: impl fmt::Display) {
        if let Some(consequence) = self.skipped {
            return self.warn(format_args!("{what}{consequence}"));
        }
        self.add(|found| &mut found.faults, what, false);
    }

    /// Records the faults of a document that stands at this position and was read by itself.
    pub fn include(&mut self, refused: &Faults) {
        let form = self.found.form;
        let (list, consequence) = match self.skipped {
            Some(consequence) => (&mut self.found.warnings, consequence),
            None => (&mut self.found.faults, ""),
        };
        for fault in refused.faults() {
            list.add(|| {
                let mut below = fault.clone().below(&self.path.write(&form));
                below.what.push_str(consequence);
                below
            });
        }
    }

    /// Records a warning that something has no effect; it does not reject the document.
    pub fn warn(&mut self, what: impl fmt::Display) {
        self.add(|found| &mut found.warnings, what, false);
    }

    /// Records a warning about a valid setting that deserves attention.
    pub fn advise(&mut self, what: impl fmt::Display) {
        self.add(|found| &mut found.warnings, what, true);
    }

    fn add(&mut self, list: fn(&mut Found) -> &mut List, what: impl fmt::Display, advice: bool) {
        let form = self.found.form;
        list(self.found).add(|| Fault {
            advice,
            ..Fault::new(self.path.write(&form), what)
        });
    }
}
