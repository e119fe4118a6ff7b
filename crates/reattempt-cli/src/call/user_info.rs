//! The user and password of a target, separate from the address that is dialled and shown.

use std::fmt;

use reattempt_clients::percent;

/// `user:password@` of a target, percent-decoded.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct UserInfo {
    pub(crate) user: String,
    /// Empty if there is none.
    pub(crate) password: String,
}

impl fmt::Debug for UserInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UserInfo").finish_non_exhaustive()
    }
}

/// Splits user and password from a text that begins with them and a host (RFC 3986, section 3.2).
/// The error does not repeat the text.
pub(crate) fn split(text: &str) -> Result<(Option<UserInfo>, &str), &'static str> {
    let end = text.find(['/', '?', '#']).unwrap_or(text.len());
    let Some(at) = text[..end].rfind('@') else {
        return Ok((None, text));
    };
    let (told, rest) = (&text[..at], &text[at + 1..]);
    if told.contains('@') {
        return Err("an @ in the user or the password must be percent-encoded");
    }
    let (user, password) = told.split_once(':').unwrap_or((told, ""));
    let decoded = |text| {
        percent::decode(text)
            .ok()
            .filter(|text| !text.contains(char::is_control))
            .ok_or(
                "the user or the password is not percent-encoded text without control characters",
            )
    };
    let (user, password) = (decoded(user)?, decoded(password)?);
    if user.is_empty() {
        return Err("the user must not be empty");
    }
    Ok((Some(UserInfo { user, password }), rest))
}

/// A target for display, without the part before an `@`, which may be a password.
pub(crate) fn shown(target: &str) -> String {
    match target.rsplit_once('@') {
        Some((_, rest)) => without_query(&format!("\u{2026}@{rest}")),
        None => without_query(target),
    }
}

/// A URL or a path for display, without its query and fragment, which may be a key.
pub(crate) fn without_query(url: &str) -> String {
    match url.find(['?', '#']) {
        Some(at) => format!("{:?}", format!("{}\u{2026}", &url[..=at])),
        None => format!("{url:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_and_password_are_taken_off_and_decoded() {
        for (text, user, password, rest) in [
            ("u:p@h:1/x", "u", "p", "h:1/x"),
            ("u@h", "u", "", "h"),
            ("u:p:q@h", "u", "p:q", "h"),
            ("%40%3a:%2F%25%C3%BC@[::1]:1", "@:", "/%\u{fc}", "[::1]:1"),
        ] {
            let (user, password) = (user.to_owned(), password.to_owned());
            let expected = (Some(UserInfo { user, password }), rest);
            assert_eq!(split(text), Ok(expected), "{text}");
        }
        for text in ["h:1", "h/users/@me", "h?a=b@c", ""] {
            assert_eq!(split(text), Ok((None, text)));
        }
    }

    #[test]
    fn what_is_not_encoded_is_refused_and_not_repeated() {
        for text in [
            "a@b:c@h",
            "u:hunter%2@h",
            "u:%ff@h",
            "u:a%0d%0ab@h",
            ":p@h",
            "@h",
        ] {
            let error = split(text).unwrap_err();
            assert!(!error.contains("hunter"), "{error}");
        }
        for target in ["http://u:hunter2@h", "u:hunter/2@h"] {
            assert_eq!(shown(target), "\"\u{2026}@h\"");
        }
        assert_eq!(shown("a b"), "\"a b\"");
        assert_eq!(shown("h/a b?key=hunter2"), "\"h/a b?\u{2026}\"");
        assert_eq!(shown("h/a b#hunter2"), "\"h/a b#\u{2026}\"");
        let info = split("user:hunter2@h").unwrap().0;
        assert_eq!(format!("{info:?}"), "Some(UserInfo { .. })");
    }
}
