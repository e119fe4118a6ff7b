//! Query filters: fields that are equal to a value, or within `$gte` and `$lte`.

use std::cmp::Ordering;

use bson::{Bson, Document};
use reattempt_clients::mongodb::wire::number;

use super::codes::CommandError;

/// Whether `document` matches `filter`.
pub(super) fn matches(filter: &Document, document: &Document) -> Result<bool, CommandError> {
    for (key, condition) in filter {
        if key.starts_with('$') {
            return Err(unknown(key));
        }
        if !field(condition, lookup(document, key))? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The value at a dotted path.
pub(super) fn lookup<'a>(document: &'a Document, path: &str) -> Option<&'a Bson> {
    match path.split_once('.') {
        None => document.get(path),
        Some((first, rest)) => lookup(document.get(first)?.as_document()?, rest),
    }
}

/// Compares two values of comparable types.
pub(super) fn compare(a: &Bson, b: &Bson) -> Option<Ordering> {
    match (a, b) {
        (Bson::String(a), Bson::String(b)) => Some(a.cmp(b)),
        (Bson::Boolean(a), Bson::Boolean(b)) => Some(a.cmp(b)),
        (Bson::ObjectId(a), Bson::ObjectId(b)) => Some(a.cmp(b)),
        (Bson::DateTime(a), Bson::DateTime(b)) => Some(a.cmp(b)),
        (Bson::Timestamp(a), Bson::Timestamp(b)) => Some(a.cmp(b)),
        (Bson::Boolean(_), _) | (_, Bson::Boolean(_)) => None,
        _ => number(Some(a))?.partial_cmp(&number(Some(b))?),
    }
}

fn unknown(operator: &str) -> CommandError {
    CommandError::bad_value(format!("unknown operator: {operator}"))
}

fn equal(wanted: &Bson, value: Option<&Bson>) -> bool {
    match value {
        None => matches!(wanted, Bson::Null),
        Some(value) => {
            value == wanted
                || compare(value, wanted) == Some(Ordering::Equal)
                || value
                    .as_array()
                    .is_some_and(|list| list.iter().any(|v| v == wanted))
        }
    }
}

fn field(condition: &Bson, value: Option<&Bson>) -> Result<bool, CommandError> {
    let operators = condition.as_document().filter(|document| {
        document
            .keys()
            .next()
            .is_some_and(|key| key.starts_with('$'))
    });
    let Some(operators) = operators else {
        return Ok(equal(condition, value));
    };
    for (operator, operand) in operators {
        let order = value.and_then(|value| compare(value, operand));
        let holds = match operator.as_str() {
            "$gte" => order.is_some_and(Ordering::is_ge),
            "$lte" => order.is_some_and(Ordering::is_le),
            other => return Err(unknown(other)),
        };
        if !holds {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    #[test]
    fn filters_compare_across_number_types_and_paths() {
        let document = doc! { "a": 1, "b": { "c": "x" }, "list": [1, 2] };
        for filter in [
            doc! {},
            doc! { "a": 1.0 },
            doc! { "a": { "$gte": 0_i64, "$lte": 1 } },
            doc! { "b.c": "x" },
            doc! { "b": { "c": "x" } },
            doc! { "list": 2, "missing": bson::Bson::Null },
        ] {
            assert_eq!(matches(&filter, &document), Ok(true), "{filter}");
        }
        for filter in [
            doc! { "a": 2 },
            doc! { "a": "1" },
            doc! { "a": { "$gte": 2 } },
            doc! { "a": { "$lte": "x" } },
            doc! { "a": true },
        ] {
            assert_eq!(matches(&filter, &document), Ok(false), "{filter}");
        }
        assert!(matches(&doc! { "$where": 1 }, &document).is_err());
        assert!(matches(&doc! { "a": { "$in": [1] } }, &document).is_err());
    }
}
