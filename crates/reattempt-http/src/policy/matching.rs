//! Which requests a route matches.

use std::fmt;

use http::{Method, Request};
use matchit::Router;
use reattempt::config::{self, Json, Members, Place};

use super::host::Host;
use super::members;

/// A router takes no more.
const MOST_PARAMETERS: usize = 25;

/// The conditions for a request. An absent condition matches everything.
#[derive(Clone, Debug, Default)]
pub(super) struct Matching {
    methods: Option<Vec<Method>>,
    path: Path,
    /// By name; all of them are required.
    query: Vec<(String, Parameter)>,
    host: Option<Host>,
}

/// The condition for a query parameter.
#[derive(Clone, Debug)]
enum Parameter {
    Present,
    Exact(String),
}

#[derive(Clone, Debug, Default)]
pub(super) enum Path {
    #[default]
    Any,
    Exact(String),
    Prefix(String),
    Pattern(Box<Pattern>),
}

#[derive(Clone)]
pub(super) struct Pattern {
    text: String,
    /// One router per pattern: routes are tried in their own order, not in the router's.
    router: Router<()>,
}

impl Pattern {
    pub(super) fn text(&self) -> &str {
        &self.text
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(f)
    }
}

impl Matching {
    /// No request matches.
    pub(super) fn none() -> Self {
        Self {
            methods: Some(Vec::new()),
            ..Self::default()
        }
    }

    pub(super) fn read(place: &mut Place<'_>, json: Json<'_>) -> Option<Self> {
        let members = Members::of(place, json, members::MATCH)?;
        let mut methods = members.optional(place, "methods", methods);
        let exact = members.optional(place, "path", literal).map(Path::Exact);
        let prefix = members.optional(place, "prefix", literal).map(Path::Prefix);
        let pattern = members.optional(place, "pattern", pattern);
        let said = ["path", "prefix", "pattern"].map(|name| members.get(name).is_some());
        if said.iter().filter(|said| **said).count() > 1 {
            place.wrong("has more than one of path, prefix and pattern: only one may be set");
        }
        // Without a condition that was misspelt the route would match more than was meant.
        let is_unknown = |name: &str| !members::MATCH.contains(&name);
        let mut said = members.iter().filter(|(_, json)| !json.is_null());
        if said.any(|(name, _)| is_unknown(name)) {
            place.warn("has a condition that is not known: no request matches");
            methods = Some(Vec::new());
        }
        Some(Self {
            methods,
            path: exact.or(prefix).or(pattern).unwrap_or_default(),
            query: members.optional(place, "query", query).unwrap_or_default(),
            host: members.optional(place, "host", Host::read),
        })
    }

    /// The conditions as a text, in whatever order they were written.
    pub(super) fn conditions(&self) -> String {
        let mut sorted = self.clone();
        sorted.query.sort_by(|(one, _), (other, _)| one.cmp(other));
        if let Some(methods) = &mut sorted.methods {
            methods.sort_by(|one, other| one.as_str().cmp(other.as_str()));
        }
        format!("{sorted:?}")
    }

    /// Whether every request matches.
    pub(super) fn is_any(&self) -> bool {
        self.methods.is_none()
            && self.query.is_empty()
            && self.host.is_none()
            && matches!(self.path, Path::Any)
    }

    /// Whether a request with this method may match.
    pub(super) fn may_have(&self, method: &Method) -> bool {
        let methods = self.methods.as_ref();
        methods.is_none_or(|methods| methods.contains(method))
    }

    /// Whether a request may match whose method is not idempotent.
    pub(super) fn may_be_unsafe(&self) -> bool {
        self.methods.as_ref().is_none_or(|methods| {
            let idempotent = |method: &Method| method.is_idempotent();
            !methods.iter().all(idempotent)
        })
    }

    pub(super) const fn path(&self) -> &Path {
        &self.path
    }

    pub(super) const fn host(&self) -> Option<&Host> {
        self.host.as_ref()
    }

    /// Whether the request matches all conditions.
    #[cfg(test)]
    pub(super) fn matches<B>(&self, request: &Request<B>) -> bool {
        self.path.matches(request.uri().path())
            && self.host.as_ref().is_none_or(|host| host.is_of(request))
            && self.matches_found(request, true)
    }

    /// Whether a request matches for whose host and path the index found this route. `is_whole`:
    /// its path was found segment by segment, which decides an exact one.
    pub(super) fn matches_found<B>(&self, request: &Request<B>, is_whole: bool) -> bool {
        let has_path = || match self.path {
            Path::Exact(_) if is_whole => true,
            _ => self.path.matches(request.uri().path()),
        };
        self.may_have(request.method())
            && has_path()
            && (self.query.is_empty() || self.has_query(request.uri().query().unwrap_or_default()))
            && self
                .host
                .as_ref()
                .is_none_or(|host| host.has_port_of(request))
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
            Self::Pattern(pattern) => pattern.router.at(path).is_ok(),
        }
    }
}

fn methods(place: &mut Place<'_>, json: Json<'_>) -> Option<Vec<Method>> {
    let methods = config::array(place, json, "methods", |place, json| {
        let method = json
            .as_str()
            .and_then(|text| Method::from_bytes(text.as_bytes()).ok());
        // Methods are case-sensitive, so "get" would never match.
        let method =
            method.filter(|method| !method.as_str().bytes().any(|b| b.is_ascii_lowercase()));
        method.or_else(|| config::wrong(place, "a method in capitals such as \"GET\"", json))
    })?;
    if methods.is_empty() {
        return place.refuse("must name at least one method");
    }
    Some(methods)
}

fn path(place: &mut Place<'_>, json: Json<'_>) -> Option<String> {
    let is_path = |text: &str| {
        text.starts_with('/') && !text.contains(|c: char| "?#".contains(c) || c <= ' ')
    };
    let text = match json.as_str() {
        Some(text) if is_path(&text) => text.into_owned(),
        _ => return config::wrong(place, "a path without query that starts with \"/\"", json),
    };
    // The names of a pattern's parameters are compared with nothing.
    let literals = text
        .split('{')
        .map(|part| part.split_once('}').map_or(part, |(_, rest)| rest));
    if !literals.clone().all(str::is_ascii) {
        place.warn("is compared unchanged: most clients send these characters percent-encoded");
    }
    Some(text)
}

/// A path or a prefix, which have no parameters.
fn literal(place: &mut Place<'_>, json: Json<'_>) -> Option<String> {
    let text = path(place, json)?;
    if let Some(part) = text
        .split('/')
        .find(|part| part.contains('{') || is_foreign_parameter(part))
    {
        place.warn(format!(
            "{part:?} is matched literally: only a \"pattern\" has parameters, such as \"{{name}}\""
        ));
    }
    Some(text)
}

/// In the syntax of other routers.
fn is_foreign_parameter(part: &str) -> bool {
    part.starts_with('*') || part.ends_with('*') || part.len() > 1 && part.starts_with([':', '<'])
}

fn pattern(place: &mut Place<'_>, json: Json<'_>) -> Option<Path> {
    let text = path(place, json)?;
    if let Some(other) = text.split('/').find(|part| is_foreign_parameter(part)) {
        place.warn(format!(
            "{other:?} is matched literally: a parameter is \"{{name}}\", and the rest of a path \"{{*name}}\""
        ));
    }
    // A brace that is there twice is one of the path. The rest of a path does not count.
    let single = text.replace("{{", "");
    let named = single.matches('{').count() - single.matches("{*").count();
    if named > MOST_PARAMETERS {
        return place.refuse(format!("must have at most {MOST_PARAMETERS} parameters"));
    }
    let mut router = Router::new();
    match router.insert(text.clone(), ()) {
        Ok(()) => Some(Path::Pattern(Box::new(Pattern { text, router }))),
        Err(error) => {
            let must = "a pattern such as \"/users/{id}\" or \"/files/{*rest}\"";
            let got = json.describe();
            place.refuse(format!("must be {must}, got {got}: {error}"))
        }
    }
}

fn query(place: &mut Place<'_>, json: Json<'_>) -> Option<Vec<(String, Parameter)>> {
    let members = Members::any(place, json)?;
    let mut parameters = Vec::new();
    // There may be very many: none is looked up by its name.
    for (name, json) in members.iter().filter(|(_, json)| !json.is_null()) {
        let parameter = match json.as_str() {
            Some(value) => Some(Parameter::Exact(value.into_owned())),
            None if json.as_bool() == Some(true) => Some(Parameter::Present),
            None => config::wrong(
                &mut place.field(name),
                "the parameter's value as a string, or true for any value",
                json,
            ),
        };
        parameters.extend(parameter.map(|parameter| (name.to_owned(), parameter)));
    }
    if members.iter().all(|(_, json)| json.is_null()) {
        place.wrong("must name at least one parameter");
    }
    Some(parameters)
}
