//! A command as it is written.

use bson::Document;

use super::{MongoError, Origin};
use crate::mongodb::wire::OpMsg;

/// A command in bytes: what cannot be written is refused before anything is said of it.
pub(super) struct Encoded {
    pub(super) request_id: i32,
    pub(super) bytes: Vec<u8>,
}

impl Encoded {
    pub(super) fn new(
        request_id: i32,
        command: &Document,
        origin: &Origin,
    ) -> Result<Self, MongoError> {
        match OpMsg::encode(request_id, 0, command) {
            Ok(bytes) => Ok(Self { request_id, bytes }),
            Err(error) => Err(MongoError::Invalid {
                origin: origin.clone(),
                message: error.to_string(),
            }),
        }
    }
}
