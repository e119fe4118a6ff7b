//! Finds the routes that may match a request, without asking all of them.

use std::collections::HashMap;

use http::Request;
use rustc_hash::FxBuildHasher;

use super::host;
use super::matching::{Matching, Path};

/// Segments beyond these are not indexed: neither a table nor a request decides how deep the
/// recursion is.
const MOST_SEGMENTS: usize = 16;

/// The positions of a table's routes, by host and path.
///
/// It excludes most routes, and decides hosts' names and exact paths. What else a candidate asks is
/// checked by [`Matching::matches_found`]. So a request costs what the routes that share its host
/// and path cost.
#[derive(Clone, Debug, Default)]
pub(super) struct Index {
    /// By host name in lower case.
    hosts: Names<Node>,
    /// Of routes for any host, if there are such.
    any_host: Option<Node>,
}

/// The routes of one path and of what is below it, by the next segment.
#[derive(Clone, Debug, Default)]
struct Node {
    segments: Names<Node>,
    /// Below a segment that is a parameter.
    parameter: Option<Box<Node>>,
    /// Routes for this path, by ascending position.
    here: Vec<usize>,
    /// Routes for this path and all below it, by ascending position.
    below: Vec<usize>,
}

/// Values by name: a few are compared in turn, many are hashed.
#[derive(Clone, Debug)]
struct Names<T> {
    few: Vec<(Box<str>, T)>,
    /// Keys come from the operator's table only, so a request cannot choose keys that collide.
    many: HashMap<Box<str>, T, FxBuildHasher>,
}

/// A comparison costs a third of hashing.
const FEW: usize = 3;

impl<T> Default for Names<T> {
    fn default() -> Self {
        Self {
            few: Vec::new(),
            many: HashMap::default(),
        }
    }
}

impl<T: Default> Names<T> {
    fn is_empty(&self) -> bool {
        self.few.is_empty() && self.many.is_empty()
    }

    fn get(&self, name: &str) -> Option<&T> {
        if self.many.is_empty() {
            let found = self.few.iter().find(|(other, _)| **other == *name);
            return found.map(|(_, value)| value);
        }
        self.many.get(name)
    }

    fn entry(&mut self, name: &str) -> &mut T {
        if self.many.is_empty() && self.few.len() == FEW && self.get(name).is_none() {
            self.many.extend(self.few.drain(..));
        }
        if !self.many.is_empty() {
            return self.many.entry(name.into()).or_default();
        }
        let at = self.few.iter().position(|(other, _)| **other == *name);
        let at = at.unwrap_or_else(|| {
            self.few.push((name.into(), T::default()));
            self.few.len() - 1
        });
        &mut self.few[at].1
    }
}

impl Index {
    pub(super) fn new<'a>(routes: impl IntoIterator<Item = &'a Matching>) -> Self {
        let mut index = Self::default();
        for (at, matching) in routes.into_iter().enumerate() {
            let root = match matching.host() {
                Some(host) => index.hosts.entry(&host.name().to_ascii_lowercase()),
                None => index.any_host.get_or_insert_default(),
            };
            root.insert(matching.path(), at);
        }
        index
    }

    /// The first position that `matches`, of those that may. Its second argument is true if the
    /// whole path was found.
    pub(super) fn first<B>(
        &self,
        request: &Request<B>,
        matches: impl Fn(usize, bool) -> bool,
    ) -> Option<usize> {
        let path = request.uri().path();
        let (rooted, path) = match path.strip_prefix('/') {
            Some(path) => (true, path),
            // `*`, or a host and port alone.
            None => (false, path),
        };
        let mut search = Search {
            first: None,
            rooted,
            matches,
        };
        if !self.hosts.is_empty() {
            host::with_authority(request, |authority, _| {
                // Mostly the name alone, in lower case.
                let root = self.hosts.get(authority);
                let other = || {
                    self.hosts
                        .get(host::name(authority).to_ascii_lowercase().as_str())
                };
                if let Some(root) = root.or_else(other) {
                    search.walk(root, Some(path));
                }
            });
        }
        if let Some(root) = &self.any_host {
            search.walk(root, Some(path));
        }
        search.first
    }
}

impl Node {
    fn insert(&mut self, path: &Path, at: usize) {
        let (text, is_open) = match path {
            Path::Any => ("", true),
            Path::Exact(path) => (path.as_str(), false),
            // With a slash at its end it matches less.
            Path::Prefix(prefix) => (prefix.strip_suffix('/').unwrap_or(prefix), true),
            Path::Pattern(pattern) => (pattern.text(), false),
        };
        let is_pattern = matches!(path, Path::Pattern(_));
        let mut node = self;
        let mut rest = text.strip_prefix('/');
        for _ in 0..MOST_SEGMENTS {
            let Some(path) = rest else {
                let routes = if is_open {
                    &mut node.below
                } else {
                    &mut node.here
                };
                return routes.push(at);
            };
            let (segment, after) = split(path);
            node = if is_pattern && segment.contains("{*") {
                break;
            } else if is_pattern && segment.contains(['{', '}']) {
                node.parameter.get_or_insert_default()
            } else {
                node.segments.entry(segment)
            };
            rest = after;
        }
        node.below.push(at);
    }
}

/// The search for the first route that matches.
struct Search<M> {
    first: Option<usize>,
    /// The request's path begins with a slash, as those of routes do.
    rooted: bool,
    matches: M,
}

impl<M: Fn(usize, bool) -> bool> Search<M> {
    /// `rest` is what follows the node's path and a slash.
    fn walk(&mut self, node: &Node, rest: Option<&str>) {
        if !node.below.is_empty() {
            self.check(&node.below, false);
        }
        let Some(path) = rest else {
            return self.check(&node.here, self.rooted);
        };
        let (segment, after) = split(path);
        if let Some(next) = node.segments.get(segment) {
            self.walk(next, after);
        }
        if let Some(next) = &node.parameter {
            self.walk(next, after);
        }
    }

    fn check(&mut self, positions: &[usize], is_whole: bool) {
        for &at in positions {
            if self.first.is_some_and(|first| first <= at) {
                return;
            }
            if (self.matches)(at, is_whole) {
                self.first = Some(at);
                return;
            }
        }
    }
}

/// The first segment, and what follows its slash.
fn split(path: &str) -> (&str, Option<&str>) {
    // Segments are short: a loop over the bytes is faster than a search for a character.
    match path.bytes().position(|byte| byte == b'/') {
        Some(slash) => (&path[..slash], Some(&path[slash + 1..])),
        None => (path, None),
    }
}
