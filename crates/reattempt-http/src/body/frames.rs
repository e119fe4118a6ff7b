//! The frames that some copy still needs, within the memory limits.

use std::collections::VecDeque;

use bytes::Bytes;
use http_body::Frame;

use super::BufferBudget;
use super::kept::{Fresh, Kept};

/// How far a copy has read: a frame, counted from the body's first, and an offset in it. Ordered by
/// position.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    frame: u64,
    within: usize,
}

/// The frames after the first one.
#[derive(Debug, Default)]
struct Rest(VecDeque<Kept>);

/// Append-only at one end, freed from the other.
#[derive(Debug)]
pub(super) struct Frames {
    /// The first frame in place: most bodies have one, for which nothing is allocated.
    first: Option<Kept>,
    rest: Option<Box<Rest>>,
    /// The number of the first frame kept.
    base: u64,
    /// How many bytes more may be kept.
    room: usize,
    budget: Option<BufferBudget>,
}

impl Frames {
    pub(super) const fn new(limit: usize, budget: Option<BufferBudget>) -> Self {
        Self {
            first: None,
            rest: None,
            base: 0,
            room: limit,
            budget,
        }
    }

    /// True while the body's first frame is still kept, or has not arrived.
    pub(super) const fn are_whole(&self) -> bool {
        self.base == 0
    }

    #[inline]
    fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.rest.as_ref().map_or(0, |rest| rest.0.len())
    }

    fn back(&self) -> Option<&Kept> {
        let rest = self.rest.as_ref();
        rest.and_then(|rest| rest.0.back()).or(self.first.as_ref())
    }

    fn back_mut(&mut self) -> Option<&mut Kept> {
        let rest = self.rest.as_mut();
        rest.and_then(|rest| rest.0.back_mut())
            .or(self.first.as_mut())
    }

    fn push_back(&mut self, kept: Kept) {
        match &self.first {
            None => self.first = Some(kept),
            Some(_) => self.rest.get_or_insert_default().0.push_back(kept),
        }
    }

    fn pop_front(&mut self) -> Option<Kept> {
        let next = self.rest.as_mut().and_then(|rest| rest.0.pop_front());
        std::mem::replace(&mut self.first, next)
    }

    fn next(&self) -> u64 {
        self.base + self.len() as u64
    }

    /// The position after all frames so far.
    pub(super) fn end(&self) -> Place {
        match self.back() {
            Some(last @ Kept::Gathered(_)) => Place {
                frame: self.next() - 1,
                within: last.end(),
            },
            _ => Place {
                frame: self.next(),
                within: 0,
            },
        }
    }

    fn at(&self, frame: u64) -> Option<&Kept> {
        match frame.checked_sub(self.base)? {
            0 => self.first.as_ref(),
            behind => self.rest.as_ref()?.0.get(usize::try_from(behind - 1).ok()?),
        }
    }

    /// Returns the next frame for a copy and advances its position; `None` if it has not arrived
    /// yet.
    #[inline]
    pub(super) fn read(&self, place: &mut Place) -> Option<Frame<Bytes>> {
        let (at, kept) = self.unread(*place)?;
        *place = Place {
            within: kept.end(),
            ..at
        };
        kept.read(at.within)
    }

    /// What a copy reads next, and where that begins.
    #[inline]
    fn unread(&self, place: Place) -> Option<(Place, &Kept)> {
        // Most copies are at the end whenever they are asked.
        if place.frame >= self.next() {
            return None;
        }
        self.unread_after(place)
    }

    fn unread_after(&self, place: Place) -> Option<(Place, &Kept)> {
        let mut place = self.still(place);
        loop {
            let kept = self.at(place.frame)?;
            if place.within < kept.end() {
                return Some((place, kept));
            }
            // More bytes may be appended to this frame.
            self.at(place.frame + 1)?;
            place.frame += 1;
            place.within = 0;
        }
    }

    /// A frame is freed only when all copies have read it: a position in a freed frame becomes the
    /// start of the next one.
    fn still(&self, place: Place) -> Place {
        place.max(Place {
            frame: self.base,
            within: 0,
        })
    }

    /// True if there is nothing to read for this copy now.
    #[inline]
    pub(super) fn is_read(&self, place: Place) -> bool {
        self.unread(place).is_none()
    }

    /// Bytes of data kept from this position on.
    pub(super) fn data_from(&self, place: Place) -> u64 {
        let place = self.still(place);
        let mut from = place.within;
        (place.frame..self.next())
            .filter_map(|frame| self.at(frame))
            .map(|kept| kept.data_from(std::mem::take(&mut from)))
            .sum()
    }

    /// Keeps a frame; false if it does not fit.
    pub(super) fn keep(&mut self, fresh: &Fresh) -> bool {
        if !self.take(fresh.size()) {
            return false;
        }
        if !self.back_mut().is_some_and(|last| last.gathers(fresh)) {
            self.push_back(Kept::new(fresh, self.len()));
        }
        true
    }

    /// Counts a frame that no other copy needs.
    pub(super) const fn pass(&mut self) {
        self.base += 1;
    }

    /// Frees what all of these copies have read.
    #[inline]
    pub(super) fn free(&mut self, places: impl Iterator<Item = Place>) {
        if self.first.is_some() {
            self.free_some(places);
        }
    }

    fn free_some(&mut self, places: impl Iterator<Item = Place>) {
        let needed = places.map(|place| self.needed(place)).min();
        let mut freed = 0;
        while needed.is_none_or(|needed| needed > self.base) {
            let Some(kept) = self.pop_front() else {
                break;
            };
            freed += kept.size();
            self.base += 1;
        }
        self.give_back(freed);
    }

    /// The first frame that this copy has not read completely.
    fn needed(&self, place: Place) -> u64 {
        match self.at(place.frame) {
            Some(kept) if kept.end() <= place.within => place.frame + 1,
            _ => place.frame,
        }
    }

    fn take(&mut self, bytes: usize) -> bool {
        let budget = self.budget.as_ref();
        let fits = bytes <= self.room && budget.is_none_or(|budget| budget.try_take(bytes));
        if fits {
            self.room -= bytes;
        }
        fits
    }

    fn give_back(&mut self, bytes: usize) {
        if bytes == 0 {
            return;
        }
        self.room += bytes;
        if let Some(budget) = &self.budget {
            budget.give_back(bytes);
        }
    }
}

impl Drop for Frames {
    fn drop(&mut self) {
        let mut kept = 0;
        while let Some(frame) = self.pop_front() {
            kept += frame.size();
        }
        self.give_back(kept);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Memory is counted by bytes, not by frames.
    #[test]
    fn a_million_frames_of_one_byte_are_kept_in_few_places() {
        let mut frames = Frames::new(usize::MAX, None);
        for _ in 0..1_000_000 {
            assert!(frames.keep(&Fresh::Data(Bytes::from_static(b"x"))));
        }
        assert_eq!(usize::MAX - frames.room, 1_000_000);
        assert!(frames.len() < 300, "{}", frames.len());
        let mut place = Place::default();
        let mut read = 0;
        while let Some(frame) = frames.read(&mut place) {
            read += frame.into_data().map_or(0, |data| data.len());
        }
        assert_eq!((read, frames.data_from(place)), (1_000_000, 0));
        assert_eq!(frames.data_from(Place::default()), 1_000_000);
    }

    #[test]
    fn merged_frames_are_read_later_and_freed_after_the_last_reader() {
        let word = |text: &'static str| Fresh::Data(Bytes::from_static(text.as_bytes()));
        let mut frames = Frames::new(100, None);
        let mut fast = Place::default();
        for _ in 0..8 {
            frames.keep(&word("whole"));
            frames.read(&mut fast);
        }
        let slow = Place::default();
        frames.keep(&word("a"));
        assert!(frames.read(&mut fast).is_some() && frames.is_read(fast));
        frames.keep(&word("bc"));
        let rest = frames
            .read(&mut fast)
            .and_then(|frame| frame.into_data().ok());
        assert_eq!(rest.as_deref(), Some(&b"bc"[..]));
        frames.free([slow, fast].into_iter());
        assert_eq!(100 - frames.room, 43);
        frames.free([fast].into_iter());
        assert_eq!((100 - frames.room, frames.len()), (0, 0));
        frames.keep(&word("d"));
        let next = frames
            .read(&mut fast)
            .and_then(|frame| frame.into_data().ok());
        assert_eq!(next.as_deref(), Some(&b"d"[..]));
    }
}
