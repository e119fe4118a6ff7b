//! The list in a TXT record (A2, Encoding in DNS TXT Records; RFC 1464 for attributes).

/// The prefix of the server name in the name of the TXT record.
pub const NAME_PREFIX: &str = "_grpc_config.";
/// The attribute whose value is the list.
pub const ATTRIBUTE: &str = "grpc_config";

/// A record whose value is not ASCII.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the TXT record of the service config must be ASCII, got byte {byte:#04x} (byte {at} of its value)"
)]
#[non_exhaustive]
pub struct NotAscii {
    /// The offset, counted from the `=`.
    pub at: usize,
    /// The byte at that offset.
    pub byte: u8,
}

/// The value of the attribute in one TXT record, given as the strings of the record, which are
/// concatenated. `None` if the record has another attribute: try the next record of the name.
///
/// The attribute's name is matched in any case and may be surrounded by spaces (RFC 1464).
pub fn txt_value<S: AsRef<[u8]>>(
    strings: impl IntoIterator<Item = S>,
) -> Result<Option<String>, NotAscii> {
    let mut record = Vec::new();
    for string in strings {
        record.extend_from_slice(string.as_ref());
    }
    let Some(equals) = record.iter().position(|byte| *byte == b'=') else {
        return Ok(None);
    };
    let value = record.split_off(equals + 1);
    let name = record[..equals].trim_ascii();
    if !name.eq_ignore_ascii_case(ATTRIBUTE.as_bytes()) {
        return Ok(None);
    }
    match value.iter().position(|byte| !byte.is_ascii()) {
        Some(at) => Err(NotAscii {
            at,
            byte: value[at],
        }),
        // ASCII is valid UTF-8, so this cannot fail.
        None => Ok(String::from_utf8(value).ok()),
    }
}
