//! Strict reading of JSON documents, with serde_json: HTTP policies, gRPC's service config,
//! Couchbase's error map and cluster configuration.
//!
//! All faults are reported at once, each with its JSON path, what is allowed there and what was
//! found; for a text that is not JSON, the byte. Duplicate members are faults, unknown ones
//! warnings. Numbers keep their text, so that thousandths and nanoseconds are exact. A [`Form`]
//! bounds length, depth and the number of faults. With feature `tokio`, `follow` reads a file again
//! when it changes.
//!
//! ```
//! use reattempt::config::{self, Form, Members};
//!
//! let read = |text: &str| {
//!     Form::new("the limits").read(text, |place, json| {
//!         let members = Members::of(place, json, &["calls", "wait"])?;
//!         let calls = members.required(place, "calls", "a number", |place, json| {
//!             config::integer(place, json, "a whole number from 1 to 9", 1, 9)
//!         });
//!         let wait = members.optional(place, "wait", |place, json| {
//!             config::duration(place, json, false)
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
//! # Ok::<(), config::Faults>(())
//! ```

mod decimal;
mod deserialize;
mod fault;
#[cfg(feature = "tokio")]
pub mod follow;
mod form;
mod json;
mod members;
mod place;
mod read;
#[cfg(test)]
mod tests;
mod unreadable;
mod values;

pub use decimal::Decimal;
pub use deserialize::deserialize;
pub use fault::{Fault, Faults, log_warnings};
pub use form::Form;
pub use json::Json;
pub use members::Members;
pub use place::Place;
pub use unreadable::Unreadable;
pub use values::{
    array, boolean, duration, factor, integer, one_of, string, tenths, thousandths, wrong,
};
