//! Which requests a route matches.

use http::uri::Authority;
use http::{Method, Request, header};
use matchit::Router;

use crate::json::{self, Json, Members, Place};

/// The conditions for a request. An absent condition matches everything.
#[derive(Clone, Debug, Default)]
pub(super) struct Matching {
    methods: Option<Vec<Method>>,
    path: Path,
    /// By name; all of them are required.
    query: Vec<(String, Parameter)>,
    host: Option<String>,
}

/// The condition for a query parameter.
#[derive(Clone, Debug)]
enum Parameter {
    Present,
    Exact(String),
}

#[derive(Clone, Debug, Default)]
enum Path {
    #[default]
    Any,
    Exact(String),
    Prefix(String),
    /// One router per pattern: routes are tried in their own order, not in the router's.
    Pattern(Box<Router<()>>),
}

impl Matching {
    pub(super) fn read(place: &mut Place<'_>, json: &Json) -> Option<Self> {
        let known = ["methods", "path", "prefix", "pattern", "query", "host"];
        let members = Members::of(place, json, &known)?;
        let methods = members.optional(place, "methods", methods);
        let exact = members.optional(place, "path", path).map(Path::Exact);
        let prefix = members.optional(place, "prefix", path).map(Path::Prefix);
        let pattern = members.optional(place, "pattern", pattern);
        let said = ["path", "prefix", "pattern"].map(|name| members.get(name).is_some());
        if said.iter().filter(|said| **said).count() > 1 {
            place.wrong("has more than one of path, prefix and pattern: only one may be set");
        }
        Some(Self {
            methods,
            path: exact.or(prefix).or(pattern).unwrap_or_default(),
            query: members.optional(place, "query", query).unwrap_or_default(),
            host: members.optional(place, "host", host),
        })
    }

    /// Whether every request matches.
    pub(super) fn is_any(&self) -> bool {
        self.methods.is_none()
            && self.query.is_empty()
            && self.host.is_none()
            && matches!(self.path, Path::Any)
    }

    /// Whether a request may match whose method is not idempotent.
    pub(super) fn may_be_unsafe(&self) -> bool {
        self.methods.as_ref().is_none_or(|methods| {
            let idempotent = |method: &Method| method.is_idempotent();
            !methods.iter().all(idempotent)
        })
    }

    pub(super) fn matches<B>(&self, request: &Request<B>) -> bool {
        let right_method = self
            .methods
            .as_ref()
            .is_none_or(|methods| methods.contains(request.method()));
        right_method
            && self.path.matches(request.uri().path())
            && self.has_query(request.uri().query().unwrap_or_default())
            && self.host.as_ref().is_none_or(|host| is_for(request, host))
    }

    fn has_query(&self, query: &str) -> bool {
        self.query.iter().all(|(name, parameter)| {
            form_urlencoded::parse(query.as_bytes()).any(|(asked, value)| {
                asked == name.as_str()
                    && match parameter {
                        Parameter::Present => true,
                        Parameter::Exact(exact) => value == exact.as_str(),
                    }
            })
        })
    }
}

impl Path {
    fn matches(&self, path: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Exact(exact) => exact == path,
            // Whole segments: "/v1" is not a prefix of "/v10".
            Self::Prefix(prefix) => path.strip_prefix(prefix.as_str()).is_some_and(|rest| {
                prefix.ends_with('/') || rest.is_empty() || rest.starts_with('/')
            }),
            Self::Pattern(router) => router.at(path).is_ok(),
        }
    }
}

/// The URI's host, else that of the `Host` header (RFC 9112, section 3.2.2: the URI's takes
/// precedence).
fn is_for<B>(request: &Request<B>, host: &str) -> bool {
    if let Some(asked) = request.uri().host() {
        return asked.eq_ignore_ascii_case(host);
    }
    let header = request.headers().get(header::HOST);
    header
        .and_then(|value| Authority::try_from(value.as_bytes()).ok())
        .is_some_and(|authority| authority.host().eq_ignore_ascii_case(host))
}

fn methods(place: &mut Place<'_>, json: &Json) -> Option<Vec<Method>> {
    let methods = json::array(place, json, "methods", |place, json| {
        let method = match json {
            Json::String(text) => Method::from_bytes(text.as_bytes()).ok(),
            _ => None,
        };
        // Methods are case-sensitive, so "get" would never match.
        let method =
            method.filter(|method| !method.as_str().bytes().any(|b| b.is_ascii_lowercase()));
        method.or_else(|| json::wrong(place, "a method in capitals such as \"GET\"", json))
    })?;
    if methods.is_empty() {
        place.wrong("must name at least one method");
        return None;
    }
    Some(methods)
}

fn path(place: &mut Place<'_>, json: &Json) -> Option<String> {
    match json {
        Json::String(text)
            if text.starts_with('/') && !text.contains(|c: char| "?#".contains(c) || c <= ' ') =>
        {
            Some(text.clone())
        }
        _ => json::wrong(place, "a path without query that starts with \"/\"", json),
    }
}

fn pattern(place: &mut Place<'_>, json: &Json) -> Option<Path> {
    let text = path(place, json)?;
    // Parameter syntax of other routers; here it would only match itself.
    if let Some(other) = text
        .split('/')
        .find(|part| part.len() > 1 && part.starts_with([':', '*', '<']))
    {
        place.warn(&format!(
            "{other:?} is matched literally: a parameter is \"{{name}}\", and the rest of a path \"{{*name}}\""
        ));
    }
    let mut router = Router::new();
    match router.insert(text, ()) {
        Ok(()) => Some(Path::Pattern(Box::new(router))),
        Err(error) => {
            let must = "a pattern such as \"/users/{id}\" or \"/files/{*rest}\"";
            let got = json.describe();
            place.wrong(&format!("must be {must}, got {got}: {error}"));
            None
        }
    }
}

fn query(place: &mut Place<'_>, json: &Json) -> Option<Vec<(String, Parameter)>> {
    let members = Members::any(place, json)?;
    let mut parameters = Vec::new();
    for (name, _) in members.iter() {
        let parameter = members.optional(place, name, |place, json| match json {
            Json::String(value) => Some(Parameter::Exact(value.clone())),
            Json::Bool(true) => Some(Parameter::Present),
            _ => json::wrong(
                place,
                "the parameter's value as a string, or true for any value",
                json,
            ),
        });
        parameters.extend(parameter.map(|parameter| (name.to_owned(), parameter)));
    }
    if members.iter().all(|(_, json)| *json == Json::Null) {
        place.wrong("must name at least one parameter");
    }
    Some(parameters)
}

fn host(place: &mut Place<'_>, json: &Json) -> Option<String> {
    if let Json::String(text) = json {
        let host: Option<Authority> = text.parse().ok();
        // The whole text has to be the host: no user, no port.
        if host.is_some_and(|host| host.host() == text) && !text.contains('*') {
            return Some(text.clone());
        }
    }
    json::wrong(place, "a host without port such as \"example.com\"", json)
}
