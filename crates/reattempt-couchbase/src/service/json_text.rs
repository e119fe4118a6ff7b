//! JSON strings.

/// Unescapes the text between two quotes. It may be truncated; invalid escapes are kept as far as
/// possible.
pub(super) fn unescape(mut rest: &[u8]) -> String {
    let mut read = Vec::with_capacity(rest.len());
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'\\' {
            read.push(byte);
            continue;
        }
        let Some((&escape, after)) = rest.split_first() else {
            break;
        };
        rest = after;
        match escape {
            b'n' => read.push(b'\n'),
            b't' => read.push(b'\t'),
            b'r' => read.push(b'\r'),
            b'b' => read.push(8),
            b'f' => read.push(12),
            b'u' => {
                let character = unicode(&mut rest);
                read.extend(character.to_string().bytes());
            }
            other => read.push(other),
        }
    }
    String::from_utf8_lossy(&read).into_owned()
}

/// Decodes the character after `\u`: one code unit, or a surrogate pair.
fn unicode(rest: &mut &[u8]) -> char {
    let unit = |digits: &[u8]| {
        let digits = std::str::from_utf8(digits).ok()?;
        u16::from_str_radix(digits, 16).ok()
    };
    let Some((digits, after)) = rest.split_at_checked(4) else {
        // Truncated.
        *rest = &[];
        return char::REPLACEMENT_CHARACTER;
    };
    let Some(first) = unit(digits) else {
        return char::REPLACEMENT_CHARACTER;
    };
    *rest = after;
    if let Some(character) = char::from_u32(first.into()) {
        return character;
    }
    let second = after.strip_prefix(b"\\u").and_then(|after| {
        let (digits, after) = after.split_at_checked(4)?;
        let pair = char::decode_utf16([first, unit(digits)?]).next()?.ok()?;
        Some((pair, after))
    });
    match second {
        Some((pair, after)) => {
            *rest = after;
            pair
        }
        None => char::REPLACEMENT_CHARACTER,
    }
}
