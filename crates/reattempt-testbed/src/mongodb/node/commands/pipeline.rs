//! `aggregate`: the stages that the read operations send.

use bson::{Bson, Document, doc};
use reattempt_clients::mongodb::wire::number;

use super::command::Command;
use super::read::filtered;
use crate::mongodb::node::codes::CommandError;
use crate::mongodb::node::matching::lookup;

fn stages(document: &Document) -> Vec<(&str, &Bson)> {
    document
        .get_array("pipeline")
        .map(|stages| {
            stages
                .iter()
                .filter_map(Bson::as_document)
                .filter_map(|stage| stage.iter().next())
                .map(|(name, value)| (name.as_str(), value))
                .collect()
        })
        .unwrap_or_default()
}

/// Whether a pipeline ends in a stage that writes.
pub(super) fn writes(document: &Document) -> bool {
    stages(document)
        .iter()
        .any(|(name, _)| matches!(*name, "$out" | "$merge"))
}

pub(super) fn aggregate(command: &Command<'_>) -> Result<Document, CommandError> {
    let stages = stages(command.document);
    // `aggregate: 1` addresses the database, not a collection.
    let collection = command.collection().unwrap_or("$cmd.aggregate");
    let namespace = command.namespace(collection);
    if let Some(("$changeStream", _)) = stages.first() {
        return Ok(command.cursor(namespace, Vec::new(), true));
    }
    let mut documents = command.shared.store.documents(command.database, collection);
    let last = stages.len().saturating_sub(1);
    for (place, (name, value)) in stages.into_iter().enumerate() {
        documents = match name {
            "$match" => filtered(documents, Some(wants_document(name, value)?))?,
            "$group" => group(&documents, wants_document(name, value)?)?,
            "$out" | "$merge" if place == last => {
                let (store, target) = (&command.shared.store, target(value)?);
                if name == "$out" {
                    store.replace(command.database, target, documents);
                } else {
                    store.merge(command.database, target, documents);
                }
                Vec::new()
            }
            "$out" | "$merge" => {
                return Err(CommandError::new(
                    40601,
                    format!("{name} can only be the final stage"),
                ));
            }
            other => {
                return Err(CommandError::new(
                    40324,
                    format!("Unrecognized pipeline stage name: '{other}'"),
                ));
            }
        };
    }
    Ok(command.cursor(namespace, documents, false))
}

fn wants_document<'a>(stage: &str, value: &'a Bson) -> Result<&'a Document, CommandError> {
    value
        .as_document()
        .ok_or_else(|| CommandError::bad_value(format!("{stage}: must be a document")))
}

/// The collection that `$out` or `$merge` writes to.
fn target(value: &Bson) -> Result<&str, CommandError> {
    let name = match value {
        Bson::Document(at) => at.get_str("into").ok(),
        value => value.as_str(),
    };
    name.ok_or_else(|| CommandError::bad_value("a write stage wants a collection"))
}

/// `$group` by a field or a constant, with sums.
fn group(documents: &[Document], stage: &Document) -> Result<Vec<Document>, CommandError> {
    let by = stage.get("_id").unwrap_or(&Bson::Null);
    let mut groups: Vec<Document> = Vec::new();
    for document in documents {
        let id = evaluate(by, document);
        let place = groups
            .iter()
            .position(|group| group.get("_id") == Some(&id));
        let place = place.unwrap_or_else(|| {
            groups.push(doc! { "_id": id });
            groups.len() - 1
        });
        for (field, accumulator) in stage.iter().filter(|(field, _)| *field != "_id") {
            let added = accumulator
                .as_document()
                .and_then(|accumulator| match accumulator.iter().next() {
                    Some((name, operand)) if name == "$sum" => Some(evaluate(operand, document)),
                    _ => None,
                })
                .ok_or_else(|| CommandError::bad_value(format!("$group: {field}: only $sum")))?;
            let before = number(groups[place].get(field)).unwrap_or(0.0);
            let sum = before + number(Some(&added)).unwrap_or(0.0);
            let whole = sum.fract() == 0.0 && sum.abs() < f64::from(i32::MAX);
            let sum = if whole {
                Bson::Int32(sum as i32)
            } else {
                Bson::Double(sum)
            };
            groups[place].insert(field, sum);
        }
    }
    Ok(groups)
}

fn evaluate(expression: &Bson, document: &Document) -> Bson {
    match expression.as_str().and_then(|text| text.strip_prefix('$')) {
        Some(path) => lookup(document, path).cloned().unwrap_or(Bson::Null),
        None => expression.clone(),
    }
}
