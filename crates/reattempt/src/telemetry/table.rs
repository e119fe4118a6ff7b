//! A bounded table of what was created for each set of labels.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::sync::{PoisonError, RwLock};

/// Grows up to a bound; all further keys share one entry.
pub(super) struct Table<K, V> {
    rows: RwLock<HashMap<K, V>>,
    most: usize,
}

impl<K, V> fmt::Debug for Table<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table")
            .field("most", &self.most)
            .finish_non_exhaustive()
    }
}

impl<K: Eq + Hash + Clone, V: Clone> Table<K, V> {
    pub(super) fn new(most: usize) -> Self {
        Self {
            rows: RwLock::default(),
            most,
        }
    }

    /// The entry of this key, made by `make`: of the key itself, or of `other` if the table is
    /// full. `make` may be user code, so it runs outside the lock: of two threads that need a new
    /// entry at once, both make one, and one is kept.
    pub(super) fn get<Q>(&self, key: &Q, other: impl FnOnce() -> K, make: impl Fn(&K) -> V) -> V
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ToOwned<Owned: Into<K>> + ?Sized,
    {
        {
            let rows = self.rows.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(found) = rows.get(key) {
                return found.clone();
            }
        }
        self.insert(|| key.to_owned().into(), other, make)
    }

    #[cold]
    fn insert(
        &self,
        key: impl FnOnce() -> K,
        other: impl FnOnce() -> K,
        make: impl Fn(&K) -> V,
    ) -> V {
        let key = {
            let rows = self.rows.read().unwrap_or_else(PoisonError::into_inner);
            if rows.len() < self.most {
                key()
            } else {
                let other = other();
                if let Some(found) = rows.get(&other) {
                    return found.clone();
                }
                other
            }
        };
        let made = make(&key);
        let mut rows = self.rows.write().unwrap_or_else(PoisonError::into_inner);
        rows.entry(key).or_insert(made).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beyond_the_bound_all_keys_share_one_entry() {
        let table = Table::new(2);
        let of = |key: u32| table.get(&key, || 99, |key| *key);
        assert_eq!([1, 2, 1, 3, 4, 2].map(of), [1, 2, 1, 99, 99, 2]);
        let rows = table.rows.read().unwrap();
        assert_eq!(rows.len(), 3, "the bound, and the shared entry");
    }
}
