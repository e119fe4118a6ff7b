//! What the entries of a document share during parsing: options and names.

use std::collections::{HashMap, HashSet};

use reattempt::config::{self, Json, Members, Place};

use super::Options;

/// State shared by all entries during parsing.
pub(super) struct Shared<'a> {
    pub(super) options: &'a Options,
    pub(super) throttles: Names<'a>,
    pub(super) budgets: Names<'a>,
    /// Names of routes so far.
    pub(super) names: HashSet<String>,
}

/// The names that the document defines for sharing, including invalid definitions.
#[derive(Default)]
pub(super) struct Names<'a> {
    /// In the order of the text.
    listed: Vec<&'a str>,
    known: HashSet<&'a str>,
    /// The names that are used by some entry, and whether one of these sends again.
    used: HashMap<&'a str, bool>,
    /// Some entry sends again. None does in a document that switches retries off.
    sends_again: bool,
}

impl<'a> Names<'a> {
    pub(super) fn of(named: Option<&'a Members<'_>>) -> Self {
        let named = named.into_iter().flat_map(Members::iter);
        let listed: Vec<_> = named.map(|(name, _)| name).collect();
        Self {
            known: listed.iter().copied().collect(),
            listed,
            used: HashMap::new(),
            sends_again: false,
        }
    }

    /// What is wrong with the use of a name, if anything is.
    pub(super) fn misused(&self, name: &str) -> Option<&'static str> {
        match self.used.get(name) {
            None if self.sends_again => Some("no route uses it"),
            Some(false) if self.sends_again => Some(
                "no route that uses it has retry or hedge: there is nothing that it can refuse",
            ),
            None | Some(_) => None,
        }
    }

    /// Some entry sends again or not.
    pub(super) const fn entry(&mut self, sends_again: bool) {
        self.sends_again |= sends_again;
    }

    /// Looks up a name and marks it as used, by an entry that sends again or not; `all` is the name
    /// of the collection.
    pub(super) fn named(
        &mut self,
        place: &mut Place<'_>,
        json: Json<'_>,
        all: &str,
        sends_again: bool,
    ) -> Option<String> {
        let name = config::string(place, json)?;
        let Some(known) = self.known.get(&*name) else {
            let must = format!("the name of one of {all} ({})", listed(&self.listed));
            return config::wrong(place, &must, json);
        };
        *self.used.entry(known).or_default() |= sends_again;
        Some(name.into_owned())
    }
}

/// The known names for a message: at most a few, each truncated.
fn listed(names: &[&str]) -> String {
    const MOST: usize = 10;
    const LONGEST: usize = 40;
    if names.is_empty() {
        return "there are none".to_owned();
    }
    let some = names.iter().take(MOST);
    let some = some.map(|name| format!("{:?}", name.chars().take(LONGEST).collect::<String>()));
    let some = some.collect::<Vec<_>>().join(", ");
    match names.len().checked_sub(MOST) {
        None | Some(0) => format!("there are {some}"),
        Some(more) => format!("there are {some} and {more} more"),
    }
}
