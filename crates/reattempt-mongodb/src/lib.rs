//! MongoDB's Retryable Reads as a classifier, a gate and a strategy.
//!
//! The rules are those of the specification *Retryable Reads*, version 1.3.1 (2022-01-25); what
//! later versions added is an option, named by what it does. This crate speaks no wire protocol and
//! needs no driver: a client says through two small traits what failed ([`MongoFailure`]) and what
//! it is about to run ([`ReadCall`]). The official driver's errors say so with the feature
//! `mongodb`.
//!
//! | question | word |
//! | --- | --- |
//! | is this failure retryable? | [`MongoClassifier`], by the table in [`codes`] |
//! | may this operation be retried at all? | [`eligible`], stamped on the call by [`RetryReads`] |
//! | how often, when, and which error is raised? | [`RetryableReads`] |
//!
//! ```
//! use reattempt_core::{Call, Annotated};
//! use reattempt_mongodb::{FailureKind, MongoClassifier, MongoFailure, ReadOperation, RetryReads, RetryableReads};
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
//! // Once per client: the classifier and the strategy go into the retry layer, the gate into the client.
//! let (classifier, strategy) = (MongoClassifier::seed_2022(), RetryableReads::seed_2022());
//! let gate = RetryReads::new(true);
//!
//! // Once per operation:
//! let mut call = Call::new("find");
//! gate.stamp(call.context_mut(), ReadOperation::Find, false);
//! # let _ = (classifier, strategy, DriverError::Io.kind(), DriverError::Command { code: 189 }.kind());
//! ```
//!
//! # The rules that came later
//!
//! [`RetryableReads::current`], [`MongoClassifier::current`] and [`Deprioritized::current`] are the
//! specification of 2026; each of its rules is an option of its own by name. The defaults are
//! 2022's.
//!
//! # What is retried, and what is not
//!
//! Retried: `find`, `findOne`, `aggregate` without a stage that writes, `distinct`, `count`,
//! `estimatedDocumentCount`, `countDocuments`, `watch`, `listDatabases`, `listCollections`,
//! `listIndexes`, any other helper that only reads, and a generic runner for read commands. Not
//! retried: `mapReduce`, `getMore`, a generic `runCommand`, an `aggregate` with `$out` or `$merge`,
//! writes, and anything in a transaction.
//!
//! **A runner for read commands is retried whatever it is given, `mapReduce` included.** MongoDB
//! does not stop a `mapReduce` whose client has gone, so the first may still run beside the second.
//!
//! **Retries multiply.** An application that tries a read n times over this may send it up to 2n
//! times; see [`NestedRetries`].
//!
//! # What the client below still has to do
//!
//! The request that is sent again is the logical command. For every attempt the service below
//! selects a server, checks a connection out and encodes anew: the bytes of the first attempt are
//! never sent twice, and its connection is given back before the second one is asked for. It
//! updates its topology before the failure leaves it (not for a cleared pool). It reports the
//! selected server's wire version with [`report_wire_version`]. For every attempt it tells of one
//! start and of one success or failure, also when the call is dropped midway.

mod adaptive_tokens;
mod classify;
pub mod codes;
mod deprioritized;
mod gate;
pub mod labels;
mod nested;
#[cfg(feature = "mongodb")]
pub mod official_driver;
mod operation;
pub mod reasons;
mod retryable_reads;
mod written_for;

pub use adaptive_tokens::AdaptiveTokens;
pub use classify::{FailureKind, MongoClassifier, MongoFailure};
pub use deprioritized::{Deprioritized, unless_all};
pub use gate::{RETRY_READS, ReadCall, ReadGate, RetryReads, report_wire_version};
pub use labels::ErrorLabels;
pub use nested::{NestedRetries, OuterAttempt};
pub use operation::{MIN_WIRE_VERSION, NotEligible, ReadOperation, eligible, supports_retry};
pub use retryable_reads::{MAX_ADAPTIVE_RETRIES, RetryableReads};
pub use written_for::WrittenFor;
