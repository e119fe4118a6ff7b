//! Where an attempt was sent.

use std::fmt;
use std::sync::Arc;

/// Where an attempt was sent: an address or a name, in the transport's spelling.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Backend(Arc<str>);

impl Backend {
    /// A backend of this name.
    #[must_use]
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self(name.into())
    }

    /// Its name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backend_is_known_by_its_name() {
        let backend = Backend::new("n1:11210");
        assert_eq!(backend.as_str(), "n1:11210");
        assert_eq!(backend.to_string(), "n1:11210");
        assert_eq!(format!("{backend:?}"), "\"n1:11210\"");
    }
}
