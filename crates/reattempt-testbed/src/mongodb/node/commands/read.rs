//! Commands that only read.

use std::time::Duration;

use bson::{Bson, Document, doc};
use reattempt_clients::mongodb::wire::number;

use super::command::Command;
use crate::lock::lock;
use crate::mongodb::node::codes::CommandError;
use crate::mongodb::node::matching::{lookup, matches};

/// The documents of a list that match a filter.
pub(super) fn filtered(
    documents: Vec<Document>,
    filter: Option<&Document>,
) -> Result<Vec<Document>, CommandError> {
    let Some(filter) = filter else {
        return Ok(documents);
    };
    let mut kept = Vec::new();
    for document in documents {
        if matches(filter, &document)? {
            kept.push(document);
        }
    }
    Ok(kept)
}

fn slice(command: &Command<'_>, documents: Vec<Document>) -> Vec<Document> {
    let skip = command.count_of(command.document, "skip").unwrap_or(0);
    let limit = command
        .count_of(command.document, "limit")
        .filter(|n| *n > 0);
    documents
        .into_iter()
        .skip(skip)
        .take(limit.unwrap_or(usize::MAX))
        .collect()
}

pub(super) fn find(command: &Command<'_>) -> Result<Document, CommandError> {
    let filter = command.document.get_document("filter").ok();
    let documents = filtered(command.documents()?, filter)?;
    let namespace = command.namespace(command.collection()?);
    Ok(command.cursor(namespace, slice(command, documents), false))
}

pub(super) fn count(command: &Command<'_>) -> Result<Document, CommandError> {
    let filter = command.document.get_document("query").ok();
    let documents = slice(command, filtered(command.documents()?, filter)?);
    Ok(doc! { "n": length(documents.len()) })
}

pub(super) fn distinct(command: &Command<'_>) -> Result<Document, CommandError> {
    let key = command
        .document
        .get_str("key")
        .map_err(|_| CommandError::bad_value("distinct: key must be a string"))?;
    let filter = command.document.get_document("query").ok();
    let mut values: Vec<Bson> = Vec::new();
    for document in filtered(command.documents()?, filter)? {
        let found = match lookup(&document, key) {
            Some(Bson::Array(list)) => list.clone(),
            Some(value) => vec![value.clone()],
            None => continue,
        };
        for value in found {
            if !values.contains(&value) {
                values.push(value);
            }
        }
    }
    Ok(doc! { "values": values })
}

pub(super) fn list_databases(command: &Command<'_>) -> Document {
    let databases: Vec<Bson> = command
        .shared
        .store
        .databases()
        .into_iter()
        .map(|name| Bson::from(doc! { "name": name, "sizeOnDisk": 0_i64, "empty": false }))
        .collect();
    doc! { "databases": databases, "totalSize": 0_i64, "totalSizeMb": 0_i64 }
}

pub(super) fn list_collections(command: &Command<'_>) -> Document {
    let collections = command
        .shared
        .store
        .collections(command.database)
        .into_iter()
        .map(|name| doc! { "name": name, "type": "collection", "options": {}, "info": {} })
        .collect();
    command.cursor(
        command.namespace("$cmd.listCollections"),
        collections,
        false,
    )
}

pub(super) fn list_indexes(command: &Command<'_>) -> Result<Document, CommandError> {
    let collection = command.collection()?;
    let namespace = command.namespace(collection);
    if !command
        .shared
        .store
        .collections(command.database)
        .iter()
        .any(|name| name == collection)
    {
        return Err(CommandError::new(
            26,
            format!("ns does not exist: {namespace}"),
        ));
    }
    let indexes = vec![doc! { "v": 2, "key": { "_id": 1 }, "name": "_id_" }];
    Ok(command.cursor(namespace, indexes, false))
}

pub(super) fn get_more(
    command: &Command<'_>,
    wait: &mut Duration,
) -> Result<Document, CommandError> {
    let id = number(command.document.get("getMore"))
        .ok_or_else(|| CommandError::bad_value("getMore: must be a cursor id"))?
        as i64;
    let batch_size = command
        .count_of(command.document, "batchSize")
        .filter(|n| *n > 0);
    let (document, waits) = lock(&command.shared.cursors).next(id, batch_size)?;
    if waits {
        let ms = number(command.document.get("maxTimeMS")).unwrap_or(1000.0);
        *wait = Duration::from_millis(ms.clamp(0.0, 60_000.0) as u64);
    }
    Ok(document)
}

pub(super) fn kill_cursors(command: &Command<'_>) -> Result<Document, CommandError> {
    let ids: Vec<i64> = command
        .document
        .get_array("cursors")
        .map_err(|_| CommandError::bad_value("killCursors: cursors must be an array"))?
        .iter()
        .filter_map(|id| number(Some(id)).map(|id| id as i64))
        .collect();
    let (killed, missing) = lock(&command.shared.cursors).kill(&ids);
    let none: Vec<Bson> = Vec::new();
    Ok(doc! {
        "cursorsKilled": killed,
        "cursorsNotFound": missing,
        "cursorsAlive": none.clone(),
        "cursorsUnknown": none,
    })
}

/// JavaScript is not executed: the only result is the number of input documents.
pub(super) fn map_reduce(command: &Command<'_>) -> Result<Document, CommandError> {
    let filter = command.document.get_document("query").ok();
    let documents = filtered(command.documents()?, filter)?;
    let result = doc! { "_id": Bson::Null, "value": length(documents.len()) };
    match map_reduce_target(command.document) {
        Some(target) => {
            command
                .shared
                .store
                .replace(command.database, target, vec![result]);
            Ok(doc! { "result": target })
        }
        None => Ok(doc! { "results": [result] }),
    }
}

pub(super) fn map_reduce_writes(document: &Document) -> bool {
    map_reduce_target(document).is_some()
}

fn map_reduce_target(document: &Document) -> Option<&str> {
    match document.get("out")? {
        Bson::String(name) => Some(name),
        Bson::Document(out) => ["replace", "merge", "reduce"]
            .iter()
            .find_map(|kind| out.get_str(kind).ok()),
        _ => None,
    }
}

pub(super) fn length(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}
