//! MongoDB's Retryable Reads as a classifier, a gate and a strategy.
//!
//! The rules are those of the specification *Retryable Reads*, version 1.3.1 (2022-01-25);
//! additions of later versions are options, named by what they do. This crate implements no wire
//! protocol and needs no driver: a client implements two small traits that report what failed
//! ([`MongoFailure`]) and which operation it runs ([`ReadCall`]). With the feature `mongodb`, the
//! official driver's error type implements `MongoFailure`.
//!
//! [`MongoClientLayer`] is all of it around a client in one line:
//!
//! | question | answered by |
//! | --- | --- |
//! | is this failure retryable? | [`MongoClassifier`], by the table in [`codes`] |
//! | may this operation be retried at all? | [`eligible`], attached on the call by [`RetryReads`] |
//! | how often, when, and which error is raised? | [`RetryableReads`] |
//!
//! ```
//! use reattempt::{Call, HasCallContext};
//! use reattempt_mongodb::{FailureKind, MongoClassifier, MongoFailure};
//! use reattempt_mongodb::{ReadOperation, RetryReads, RetryableReads};
//!
//! #[derive(Debug)]
//! enum DriverError {
//!     Command { code: i64 },
//!     Io,
//! }
//!
//! impl MongoFailure for DriverError {
//!     fn kind(&self) -> FailureKind {
//!         match self {
//!             Self::Command { code } => FailureKind::command(Some(*code)),
//!             Self::Io => FailureKind::network_in_flight(),
//!         }
//!     }
//! }
//!
//! // Once per client: the retry layer takes the classifier and the strategy, the client the gate.
//! let (classifier, strategy) = (MongoClassifier::seed_2022(), RetryableReads::seed_2022());
//! let gate = RetryReads::new(true);
//!
//! // Once per operation:
//! let mut call = Call::new("find");
//! gate.attach(call.context_mut(), ReadOperation::Find, false);
//! # let _ = (classifier, strategy, DriverError::Io.kind());
//! # let _ = DriverError::Command { code: 189 }.kind();
//! ```
//!
//! # Rules of later versions
//!
//! [`MongoClientLayer::current`], [`RetryableReads::current`], [`MongoClassifier::current`] and
//! [`Deprioritized::current`] implement the specification of 2026; each of its rules is also a
//! separate option. The defaults are the rules of 2022.
//!
//! # Features
//!
//! | feature | what it adds |
//! | --- | --- |
//! | `tokio` (default) | [`MongoClientLayer`]. Without it the crate has no runtime |
//! | `mongodb` | reads the official driver's errors |
//!
//! # What is retried, and what is not
//!
//! Retried: `find`, `findOne`, `aggregate` without a stage that writes, `distinct`, `count`,
//! `estimatedDocumentCount`, `countDocuments`, `watch`, `listDatabases`, `listCollections`,
//! `listIndexes`, any other helper that only reads, and a generic runner for read commands. Not
//! retried: `mapReduce`, `getMore`, a generic `runCommand`, an `aggregate` with `$out` or `$merge`,
//! writes, and anything in a transaction.
//!
//! **A runner for read commands retries any command it is given, including `mapReduce`.** MongoDB
//! does not stop a `mapReduce` whose client has disconnected, so the first may still run
//! concurrently with the second.
//!
//! **Retries multiply.** An application that attempts a read n times through this stack may send it
//! up to 2n times; see [`NestedRetries`].
//!
//! # Duties of the client below
//!
//! The request that is retried is the logical command. For every attempt the service below selects
//! a server, checks out a connection and encodes the command again: the bytes of the first attempt
//! are never reused, and its connection is returned before the second is checked out. It updates
//! its topology before it returns the failure (not for a cleared pool). It reports the selected
//! server's wire version with [`report_wire_version`]. For every attempt it publishes one started
//! event and one succeeded or failed event, also when the call is dropped midway.

mod classify;
#[cfg(feature = "tokio")]
pub mod client;
pub mod codes;
#[cfg(feature = "tokio")]
mod convention;
mod deprioritized;
mod failure_detail;
mod gate;
pub mod labels;
mod nested;
#[cfg(feature = "mongodb")]
pub mod official_driver;
mod operation;
pub mod reasons;
mod retryable_reads;
mod written_for;

pub use classify::{FailureKind, MongoClassifier, MongoFailure};
#[cfg(feature = "tokio")]
pub use client::{MongoClient, MongoClientLayer};
#[cfg(feature = "tokio")]
pub use convention::MongoConvention;
pub use deprioritized::{Deprioritized, unless_all};
pub use failure_detail::FailureDetail;
pub use gate::{RETRY_READS, ReadCall, ReadGate, RetryReads, report_wire_version};
pub use labels::ErrorLabels;
pub use nested::{NestedRetries, OuterAttempt};
pub use operation::{MIN_WIRE_VERSION, NotEligible, ReadOperation, eligible, supports_retry};
pub use retryable_reads::{MAX_ADAPTIVE_RETRIES, RetryableReads};
pub use written_for::WrittenFor;

// Of the preset, which may be outermost.
#[cfg(feature = "tokio")]
reattempt::explain_services! { [S] MongoClient<S> }
