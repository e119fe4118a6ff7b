//! The backends that a call has tried.

/// No backend.
const NONE: u32 = u32::MAX;

/// Most calls try one. A call may try thousands: each step takes a time that hardly grows with it.
#[derive(Debug)]
pub(super) struct Tried {
    first: u32,
    /// With the first, least recently used first, as soon as there is a second.
    by_use: Vec<u32>,
    /// The same, by number.
    sorted: Vec<u32>,
}

impl Tried {
    pub(super) const fn none() -> Self {
        Self {
            first: NONE,
            by_use: Vec::new(),
            sorted: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, backend: u32) {
        if self.first == NONE {
            self.first = backend;
            return;
        }
        if self.by_use.is_empty() {
            if self.first == backend {
                return;
            }
            self.by_use.push(self.first);
            self.sorted.push(self.first);
        }
        match self.sorted.binary_search(&backend) {
            Ok(_) => self.by_use.retain(|other| *other != backend),
            Err(place) => self.sorted.insert(place, backend),
        }
        self.by_use.push(backend);
    }

    fn sorted(&self) -> &[u32] {
        if self.sorted.is_empty() && self.first != NONE {
            std::slice::from_ref(&self.first)
        } else {
            &self.sorted
        }
    }

    /// Least recently used first.
    pub(super) fn places(&self) -> Vec<usize> {
        let places: &[u32] = if self.by_use.is_empty() {
            self.sorted()
        } else {
            &self.by_use
        };
        places.iter().map(|backend| *backend as usize).collect()
    }

    pub(super) fn len(&self) -> usize {
        self.sorted().len()
    }

    /// The n-th of those that were not tried, counted from 0.
    pub(super) fn nth_other(&self, n: usize) -> usize {
        let sorted = self.sorted();
        // How many of the tried ones come before it: their number less their place is at most n.
        let (mut from, mut to) = (0, sorted.len());
        while from < to {
            let middle = from.midpoint(to);
            if sorted[middle] as usize - middle <= n {
                from = middle + 1;
            } else {
                to = middle;
            }
        }
        n + from
    }

    /// The first that was not tried, from this one on, of `all` in a circle.
    pub(super) fn next_other(&self, from: usize, all: usize) -> usize {
        let sorted = self.sorted();
        let mut place = sorted.partition_point(|tried| (*tried as usize) < from);
        let mut at = from;
        while sorted.get(place).is_some_and(|tried| *tried as usize == at) {
            (at, place) = (at + 1, place + 1);
            if at == all {
                (at, place) = (0, 0);
            }
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use super::Tried;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_was_tried_is_as_in_a_plain_list(
            adds in proptest::collection::vec(0..12_u32, 0..30),
            from in 0..12_usize,
        ) {
            let mut tried = Tried::none();
            let mut plain: Vec<usize> = Vec::new();
            for add in adds {
                tried.add(add);
                plain.retain(|other| *other != add as usize);
                plain.push(add as usize);
            }
            prop_assert_eq!(tried.places(), plain.clone());
            prop_assert_eq!(tried.len(), plain.len());
            let others: Vec<usize> = (0..12).filter(|at| !plain.contains(at)).collect();
            for (n, other) in others.iter().enumerate() {
                prop_assert_eq!(tried.nth_other(n), *other);
            }
            if !others.is_empty() {
                let next = (from..12).chain(0..from).find(|at| others.contains(at));
                prop_assert_eq!(Some(tried.next_other(from, 12)), next);
            }
        }
    }
}
