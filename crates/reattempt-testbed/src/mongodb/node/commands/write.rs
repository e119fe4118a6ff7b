//! Commands that write.

use bson::{Bson, Document, doc};
use reattempt_clients::mongodb::wire::number;

use super::command::Command;
use super::read::length;
use crate::mongodb::node::codes::CommandError;
use crate::mongodb::node::matching::matches;

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

pub(super) fn delete(command: &Command<'_>) -> Result<Document, CommandError> {
    let collection = command.collection()?;
    let mut removed = 0;
    let empty = Document::new();
    for statement in documents(command, "deletes")? {
        let filter = statement.get_document("q").unwrap_or(&empty);
        let limit = number(statement.get("limit")).unwrap_or(0.0) as usize;
        removed +=
            command
                .shared
                .store
                .remove(command.database, collection, limit, |document| {
                    matches(filter, document)
                })?;
    }
    Ok(doc! { "n": length(removed) })
}

pub(super) fn drop_collection(command: &Command<'_>) -> Result<Document, CommandError> {
    let collection = command.collection()?;
    if command
        .shared
        .store
        .drop_collection(command.database, collection)
    {
        Ok(doc! { "ns": command.namespace(collection), "nIndexesWas": 1 })
    } else {
        Err(CommandError::new(26, "ns not found"))
    }
}
