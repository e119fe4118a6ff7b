//! Strict parsing of JSON configuration: HTTP [policies](crate::policy), and gRPC's service config.
//!
//! All faults are reported at once, each with its JSON path, what is allowed there and what was
//! found; for a text that is not JSON, the byte. Unknown members are warnings. Numbers keep their
//! text, so that thousandths and nanoseconds are exact. Documents may be 4 MiB long and nested 64
//! deep.
//!
//! ```
//! use reattempt_http::json::{self, Members};
//!
//! let read = |text| {
//!     json::read("the limits", text, |place, json| {
//!         let members = Members::of(place, json, &["calls", "wait"])?;
//!         let calls = members.required(place, "calls", "a number", |place, json| {
//!             json::integer(place, json, "a whole number from 1 to 9", 1, 9)
//!         });
//!         let wait = members.optional(place, "wait", |place, json| {
//!             json::duration(place, json, false)
//!         });
//!         Some((calls?, wait))
//!     })
//! };
//! let faults = read(r#"{"calls": 10, "wait": "1 s"}"#).unwrap_err();
//! assert_eq!(
//!     faults.faults()[0].to_string(),
//!     "$.calls: must be a whole number from 1 to 9, got 10"
//! );
//! assert_eq!(faults.faults()[1].path, "$.wait");
//!
//! let ((calls, _), warnings) = read(r#"{"calls": 9, "color": "red"}"#)?;
//! assert_eq!((calls, warnings[0].path.as_str()), (9, "$.color"));
//! # Ok::<(), json::Faults>(())
//! ```

mod decimal;
mod fault;
mod members;
mod read;
#[cfg(test)]
mod tests;
mod value;

pub use decimal::Decimal;
pub use fault::{Fault, Faults, Place};
pub use members::Members;
pub use read::{
    array, boolean, duration, factor, integer, one_of, string, tenths, thousandths, wrong,
};
pub use value::Json;

use fault::Found;

/// The maximum length of a document in bytes, far above any realistic one.
pub const LONGEST_DOCUMENT: usize = 4 * 1024 * 1024;

/// Parses a document with `of_root`, which gets the root of the document and records faults and
/// warnings. Returns the value and the warnings, or all faults; `subject` ("the service config")
/// starts their message.
pub fn read<T>(
    subject: &'static str,
    text: &str,
    of_root: impl FnOnce(&mut Place<'_>, &Json) -> Option<T>,
) -> Result<(T, Vec<Fault>), Faults> {
    let mut found = Found::default();
    let mut place = Place::root(&mut found);
    if text.len() > LONGEST_DOCUMENT {
        place.wrong(&format!(
            "must be at most {LONGEST_DOCUMENT} bytes long, got {}",
            text.len()
        ));
        return Err(found.rejecting(subject));
    }
    let made = match value::parse(text) {
        Ok(json) => of_root(&mut place, &json),
        Err(syntax) => {
            place.wrong(&format!(
                "is not JSON: {} (byte {})",
                syntax.what, syntax.at
            ));
            None
        }
    };
    match made {
        Some(made) if found.faults.is_empty() => Ok((made, found.warnings)),
        None if found.faults.is_empty() => {
            Place::root(&mut found).wrong("cannot be used");
            Err(found.rejecting(subject))
        }
        _ => Err(found.rejecting(subject)),
    }
}
