//! The command that writes.

use bson::{Bson, Document, doc};

use super::command::Command;
use super::read::length;
use crate::mongodb::node::codes::CommandError;

fn documents<'a>(command: &'a Command<'_>, field: &str) -> Result<Vec<&'a Document>, CommandError> {
    command
        .document
        .get_array(field)
        .ok()
        .and_then(|list| list.iter().map(Bson::as_document).collect())
        .ok_or_else(|| CommandError::bad_value(format!("{field}: must be an array of documents")))
}

pub(super) fn insert(command: &Command<'_>) -> Result<Document, CommandError> {
    let collection = command.collection()?;
    let documents = documents(command, "documents")?.into_iter().cloned();
    match command
        .shared
        .store
        .insert(command.database, collection, documents)
    {
        Ok(inserted) => Ok(doc! { "n": length(inserted) }),
        Err(duplicate) => Ok(doc! {
            "n": length(duplicate),
            "writeErrors": [{
                "index": length(duplicate),
                "code": 11000,
                "errmsg": "E11000 duplicate key error on _id",
            }],
        }),
    }
}
