//! Reads paths of a JSON document for `lookup_in`.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use reattempt_couchbase::kv::{Opcode, Status};
use serde_json::Value;

use super::reply::Reply;

/// Maximum number of paths in one request.
const MAX_PATHS: usize = 16;

/// Answers a `lookup_in` with body `specs` on a document.
pub(super) fn lookup_in(document: &Bytes, specs: &Bytes) -> Reply {
    let specs = match parse(specs.clone()) {
        Ok(specs) => specs,
        Err(status) => return Reply::status(status),
    };
    let json: Option<Value> = serde_json::from_slice(document).ok();
    let mut body = BytesMut::new();
    let mut worst = Status::SUCCESS;
    for (op, path) in specs {
        let result = match (op, &json) {
            (Opcode::GET, _) if path.is_empty() => Ok(document.clone()),
            (_, None) => Err(Status::SUBDOC_DOC_NOTJSON),
            (op, Some(json)) => one(op, json, &path),
        };
        let (status, value) = match result {
            Ok(value) => (Status::SUCCESS, value),
            Err(status) => (status, Bytes::new()),
        };
        if status != Status::SUCCESS {
            worst = Status::SUBDOC_MULTI_PATH_FAILURE;
        }
        body.put_u16(status.0);
        body.put_u32(value.len() as u32);
        body.put_slice(&value);
    }
    Reply {
        status: worst,
        ..Reply::value(body)
    }
}

fn parse(mut specs: Bytes) -> Result<Vec<(Opcode, String)>, Status> {
    let mut found = Vec::new();
    while specs.has_remaining() {
        if specs.len() < 4 {
            return Err(Status::EINVAL);
        }
        let op = Opcode(specs.get_u8());
        let _flags = specs.get_u8();
        let length = usize::from(specs.get_u16());
        if specs.len() < length {
            return Err(Status::EINVAL);
        }
        let path = specs.split_to(length);
        let path = std::str::from_utf8(&path).map_err(|_| Status::EINVAL)?;
        found.push((op, path.to_owned()));
        if found.len() > MAX_PATHS {
            return Err(Status::SUBDOC_INVALID_COMBO);
        }
    }
    if found.is_empty() {
        return Err(Status::SUBDOC_INVALID_COMBO);
    }
    Ok(found)
}

fn one(op: Opcode, json: &Value, path: &str) -> Result<Bytes, Status> {
    let found = walk(json, path)?;
    match op {
        Opcode::SUBDOC_GET => Ok(found.to_string().into()),
        Opcode::SUBDOC_EXISTS => Ok(Bytes::new()),
        Opcode::SUBDOC_GET_COUNT => match found {
            Value::Array(members) => Ok(members.len().to_string().into()),
            Value::Object(members) => Ok(members.len().to_string().into()),
            _ => Err(Status::SUBDOC_PATH_MISMATCH),
        },
        _ => Err(Status::SUBDOC_INVALID_COMBO),
    }
}

/// Resolves `a.b[0].c`; `[-1]` is the last element.
fn walk<'a>(json: &'a Value, path: &str) -> Result<&'a Value, Status> {
    if path.is_empty() {
        return Err(Status::SUBDOC_PATH_EINVAL);
    }
    let mut at = json;
    for part in path.split('.') {
        let (name, indexes) = part.split_once('[').map_or((part, ""), |(n, i)| (n, i));
        if !name.is_empty() {
            let members = at.as_object().ok_or(Status::SUBDOC_PATH_MISMATCH)?;
            at = members.get(name).ok_or(Status::SUBDOC_PATH_ENOENT)?;
        } else if indexes.is_empty() {
            return Err(Status::SUBDOC_PATH_EINVAL);
        }
        for index in indexes.split('[').filter(|index| !index.is_empty()) {
            let index = index.strip_suffix(']').ok_or(Status::SUBDOC_PATH_EINVAL)?;
            let members = at.as_array().ok_or(Status::SUBDOC_PATH_MISMATCH)?;
            at = match index {
                "-1" => members.last(),
                _ => members.get(
                    index
                        .parse::<usize>()
                        .map_err(|_| Status::SUBDOC_PATH_EINVAL)?,
                ),
            }
            .ok_or(Status::SUBDOC_PATH_ENOENT)?;
        }
    }
    Ok(at)
}
