//! A bounded table of the methods seen so far.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use super::retry_statistics::{RetryCounts, RetryStatistics};
use crate::path_prefix::without_prefix;

/// A66's name for methods that are not recorded by name.
const OTHER: &str = "other";

/// Longer names are recorded as `other`.
const LONGEST_NAME: usize = 256;

/// One method, with its A6 counters.
#[derive(Debug)]
pub(super) struct Method {
    pub(super) name: Arc<str>,
    pub(super) retries: RetryCounts,
}

impl Method {
    fn new(name: &str) -> Arc<Self> {
        Arc::new(Self {
            name: name.into(),
            retries: RetryCounts::default(),
        })
    }
}

pub(super) type MethodFilter = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// Grows up to a bound; all further methods share one entry.
pub(super) struct Methods {
    rows: RwLock<HashMap<Arc<str>, Arc<Method>>>,
    other: Arc<Method>,
    most: usize,
    filter: Option<MethodFilter>,
}

impl fmt::Debug for Methods {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Methods")
            .field("most", &self.most)
            .finish_non_exhaustive()
    }
}

/// `/shop.Cart/Add` is `shop.Cart/Add`, also behind a proxy's prefix; `None` for a path that is not
/// a method's.
fn name_of(path: &str) -> Option<&str> {
    let name = path.strip_prefix('/')?;
    let name = without_prefix(name).unwrap_or(name);
    let (service, method) = name.rsplit_once('/')?;
    (!service.is_empty() && !method.is_empty() && name.len() <= LONGEST_NAME).then_some(name)
}

impl Methods {
    pub(super) fn new(most: usize, filter: Option<MethodFilter>) -> Self {
        Self {
            rows: RwLock::default(),
            other: Method::new(OTHER),
            most,
            filter,
        }
    }

    /// The method of a request's path.
    pub(super) fn of(&self, path: &str) -> Arc<Method> {
        let Some(name) = name_of(path) else {
            return self.other();
        };
        let seen = {
            let rows = self.rows.read().unwrap_or_else(PoisonError::into_inner);
            match rows.get(name) {
                Some(method) => Some(Arc::clone(method)),
                None if rows.len() >= self.most => Some(self.other()),
                None => None,
            }
        };
        seen.unwrap_or_else(|| self.first_seen(name))
    }

    #[cold]
    fn first_seen(&self, name: &str) -> Arc<Method> {
        // Called outside of the lock, because it is user code.
        if self.filter.as_ref().is_some_and(|filter| !filter(name)) {
            return self.other();
        }
        let mut rows = self.rows.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(method) = rows.get(name) {
            return Arc::clone(method);
        }
        if rows.len() >= self.most {
            return self.other();
        }
        let method = Method::new(name);
        rows.insert(Arc::clone(&method.name), Arc::clone(&method));
        method
    }

    /// The entry of all methods that are not recorded by name.
    pub(super) fn other(&self) -> Arc<Method> {
        Arc::clone(&self.other)
    }

    pub(super) fn statistics(&self) -> BTreeMap<Arc<str>, RetryStatistics> {
        let rows = self.rows.read().unwrap_or_else(PoisonError::into_inner);
        let methods = rows.values().chain([&self.other]);
        methods
            .map(|method| (Arc::clone(&method.name), method.retries.read()))
            .filter(|(name, read)| **name != *OTHER || read.attempts() > 0)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(methods: &Methods) -> Vec<String> {
        let statistics = methods.statistics();
        statistics.keys().map(ToString::to_string).collect()
    }

    /// R72
    #[test]
    fn beyond_the_bound_all_methods_are_one() {
        let methods = Methods::new(2, None);
        for path in ["/a.B/C", "/a.B/D", "/a.B/C", "/a.B/E", "/a.B/F"] {
            methods.of(path).retries.sent(1);
        }
        assert_eq!(names(&methods), ["a.B/C", "a.B/D", "other"]);
        assert_eq!(methods.statistics()["other"].attempts(), 2);
        assert!(Arc::ptr_eq(&methods.of("/x.Y/Z"), &methods.other()));
        // Another thread may have filled the table in the meantime.
        assert_eq!(&*methods.first_seen("x.Y/Z").name, "other");
    }

    #[test]
    fn a_full_table_asks_no_filter() {
        let methods = Methods::new(1, Some(Arc::new(|name| name == "a.B/C")));
        assert_eq!(&*methods.of("/a.B/C").name, "a.B/C");
        let full = Methods::new(0, Some(Arc::new(|_| panic!("it was asked"))));
        assert_eq!(&*full.of("/a.B/C").name, "other");
    }

    /// R72
    #[test]
    fn what_is_no_method_or_not_wanted_is_other() {
        let wanted = |name: &str| name.starts_with('a');
        let methods = Methods::new(9, Some(Arc::new(wanted)));
        let long = format!("/a.{}/C", "B".repeat(LONGEST_NAME));
        for path in [
            "", "*", "/", "//", "/a.B", "/a.B/", "a.B/C", "/x.Y/Z", &long,
        ] {
            assert_eq!(&*methods.of(path).name, "other", "{path}");
        }
        assert_eq!(names(&methods), [""; 0]);
    }

    /// A66: `grpc.method` is the service and the method.
    #[test]
    fn the_prefix_of_a_proxy_is_in_no_name() {
        let methods = Methods::new(9, None);
        for path in ["/a.B/C", "/api/a.B/C", "/api/v1/a.B/C", "//a.B/C"] {
            assert_eq!(&*methods.of(path).name, "a.B/C", "{path}");
        }
        for path in ["/api/a.B/", "/api//C"] {
            assert_eq!(&*methods.of(path).name, "other", "{path}");
        }
        assert_eq!(names(&methods), ["a.B/C"]);
    }
}
