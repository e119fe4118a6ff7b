//! What a target says: its protocol, its address and its path.

use clap::ValueEnum;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Protocol {
    Grpc,
    Http,
    Kv,
    Mongodb,
}

/// The scheme of a target, if it has one, and the rest.
pub(super) fn split(target: &str) -> (Option<&str>, &str) {
    match target.split_once("://") {
        Some((scheme, rest)) => (Some(scheme), rest),
        None => (None, target),
    }
}

/// The scheme, if it can be one: what else stands before `://` may be a password.
pub(super) fn scheme(target: &str) -> Option<&str> {
    let (scheme, _) = split(target);
    scheme.filter(|scheme| {
        let of_scheme = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
        scheme.chars().all(of_scheme)
    })
}

impl Protocol {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Grpc => "grpc",
            Self::Http => "http",
            Self::Kv => "kv",
            Self::Mongodb => "mongodb",
        }
    }

    /// The protocol of a target's scheme; gRPC without a scheme, `None` for an unknown one.
    pub(super) fn of(target: &str) -> Option<Self> {
        match split(target).0 {
            None | Some("grpc" | "grpcs") => Some(Self::Grpc),
            Some("http" | "https") => Some(Self::Http),
            Some("kv" | "couchbase" | "memcached") => Some(Self::Kv),
            Some("mongodb" | "mongodb+srv") => Some(Self::Mongodb),
            Some(_) => None,
        }
    }
}

/// Whether a URL or address names a path other than `/`, or a query.
pub(super) fn has_path(target: &str) -> bool {
    let rest = split(target).1;
    let path = rest.find(['/', '?', '#']).map_or("", |at| &rest[at..]);
    !matches!(path, "" | "/")
}

/// The node with this port, unless it names one.
pub(super) fn with_port(node: &str, port: Option<u16>) -> String {
    let address = node.rsplit_once('@').map_or(node, |(_, address)| address);
    let named = match address.rsplit_once(']') {
        Some((_, after)) => after.starts_with(':'),
        None => address.contains(':'),
    };
    match port {
        Some(port) if !named && !node.is_empty() => format!("{node}:{port}"),
        _ => node.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheme_of_a_target_says_its_protocol() {
        for (target, protocol) in [
            ("h:1", Some(Protocol::Grpc)),
            ("grpcs://h", Some(Protocol::Grpc)),
            ("http://h/a", Some(Protocol::Http)),
            ("https://h", Some(Protocol::Http)),
            ("couchbase://a,b", Some(Protocol::Kv)),
            ("memcached://h", Some(Protocol::Kv)),
            ("mongodb://h/?retryReads=false", Some(Protocol::Mongodb)),
            ("ftp://h", None),
        ] {
            assert_eq!(Protocol::of(target), protocol, "{target}");
        }
    }

    #[test]
    fn only_what_follows_the_address_is_a_path() {
        for target in ["http://h/a", "h:1/a?b", "http://h?b"] {
            assert!(has_path(target), "{target}");
        }
        for target in ["http://h", "http://h:1/", "h:1"] {
            assert!(!has_path(target), "{target}");
        }
    }

    #[test]
    fn a_node_without_a_port_has_that_of_its_scheme() {
        assert_eq!(with_port("h", Some(11_210)), "h:11210");
        assert_eq!(with_port("h:1", Some(11_210)), "h:1");
        assert_eq!(with_port("[::1]", Some(11_210)), "[::1]:11210");
        assert_eq!(with_port("[::1]:1", Some(11_210)), "[::1]:1");
        assert_eq!(with_port("u:p@h", Some(11_210)), "u:p@h:11210");
        assert_eq!(with_port("h", None), "h");
    }
}
