//! Percent-encoding (RFC 3986, section 2.1).

/// Decodes percent-encoded text, such as `%41`.
///
/// # Errors
///
/// The offset of the first invalid byte: a `%` without two hexadecimal digits, or bytes that are
/// not UTF-8.
pub fn decode(text: &str) -> Result<String, usize> {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] != b'%' {
            decoded.push(bytes[at]);
            at += 1;
            continue;
        }
        let digit = |at: usize| {
            bytes
                .get(at)
                .and_then(|byte| char::from(*byte).to_digit(16))
        };
        let (Some(high), Some(low)) = (digit(at + 1), digit(at + 2)) else {
            return Err(at);
        };
        decoded.push((high * 16 + low) as u8);
        at += 3;
    }
    String::from_utf8(decoded).map_err(|error| error.utf8_error().valid_up_to())
}
