//! The flags of MongoDB calls.

use serde_json::value::RawValue;

use super::{Arguments, Draft};
use crate::call::document::Fault;

/// Flags of MongoDB alone.
#[derive(Debug, clap::Args)]
#[command(
    next_help_heading = "MongoDB (reattempt call mongodb://127.0.0.1/ --op find --collection orders)"
)]
pub(super) struct MongodbFlags {
    /// The database, default db
    #[arg(long)]
    pub(super) database: Option<String>,
    /// The collection, default c
    #[arg(long)]
    pub(super) collection: Option<String>,
    /// More fields of the command, as JSON
    #[arg(long, value_name = "JSON")]
    pub(super) options: Option<String>,
    /// The version of Retryable Reads, seed_2022 (default) or current
    #[arg(long, value_name = "VERSION")]
    pub(super) retryable_reads: Option<String>,
}

impl Arguments {
    pub(super) fn mongodb(&self, draft: &mut Draft) -> Result<(), Fault> {
        let flags = &self.mongodb;
        draft.set("protocol", "mongodb");
        draft.set("retryable_reads", flags.retryable_reads.clone());
        draft.call("op", self.op.as_deref().unwrap_or("find"));
        draft.call("database", flags.database.clone());
        draft.call("collection", flags.collection.clone());
        if let Some(text) = &flags.options {
            // As it was written: a value would drop a duplicate member, which is a fault.
            let options: &RawValue =
                serde_json::from_str(text).map_err(|error| Fault::new("--options", error))?;
            draft.call.insert("options", options.get().to_owned());
        }
        Ok(())
    }
}
