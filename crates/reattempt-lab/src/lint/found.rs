//! What a rule finds.

/// Where below the route, or from the root (`$`) for what routes share, and what is wrong.
pub(super) type Found = Option<(String, String)>;

pub(super) fn found(place: &str, text: impl Into<String>) -> Found {
    Some((place.to_owned(), text.into()))
}
