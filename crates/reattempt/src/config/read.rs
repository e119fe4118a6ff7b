//! Reading of a whole document.

use super::fault::Found;
use super::{Fault, Faults, Form, Json, Place};

impl Form {
    /// Reads a document with `of_root`, which gets the root of the document and records faults and
    /// warnings. Returns the value and the warnings.
    ///
    /// # Errors
    /// All faults; `of_root` returns `None` only with at least one.
    pub fn read<T>(
        self,
        text: &(impl AsRef<[u8]> + ?Sized),
        of_root: impl FnOnce(&mut Place<'_>, Json<'_>) -> Option<T>,
    ) -> Result<(T, Vec<Fault>), Faults> {
        let mut found = Found::new(self);
        let mut root = Place::root(&mut found);
        let made = match Json::parse(text.as_ref(), &self) {
            Ok(json) => of_root(&mut root, json),
            Err(unreadable) => {
                root.wrong((self.refusal)(&unreadable));
                None
            }
        };
        if made.is_none() && !root.has_faults() {
            root.wrong("cannot be used");
        }
        match made {
            Some(made) if !root.has_faults() => Ok((made, found.warnings.into_vec("warnings"))),
            _ => Err(found.rejecting()),
        }
    }
}
