//! The copies of a body and how far each has read.

use std::task::Waker;

use super::frames::Place;

/// One copy and its read position.
#[derive(Debug)]
pub(super) struct Cursor {
    pub(super) key: u32,
    /// The attempt that it was made for; 0 for the original.
    pub(super) attempt: u32,
    pub(super) place: Place,
    pub(super) standing: Standing,
    pub(super) polled: bool,
    /// It may have been sent in part: it was polled, found to be at its end, or copied itself.
    pub(super) touched: bool,
    pub(super) told_of_error: bool,
    pub(super) waker: Option<Waker>,
}

impl Cursor {
    fn new(key: u32, attempt: u32) -> Self {
        Self {
            key,
            attempt,
            place: Place::default(),
            standing: Standing::Live,
            polled: false,
            touched: false,
            told_of_error: false,
            waker: None,
        }
    }

    pub(super) fn is_live(&self) -> bool {
        self.standing == Standing::Live
    }
}

/// Whether a copy may continue to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Live,
    /// Another copy continues alone.
    CutOff,
    /// Its attempt has ended.
    Over,
}

/// All copies. The first two are in place: the template and one attempt.
#[derive(Debug)]
pub(super) struct Cursors {
    one: Option<Cursor>,
    two: Option<Cursor>,
    more: Option<Box<More>>,
}

/// Of concurrent attempts, and of attempts whose transport holds its copy for longer.
#[derive(Debug, Default)]
struct More(Vec<Cursor>);

impl Cursors {
    pub(super) fn iter(&self) -> impl Iterator<Item = &Cursor> {
        let more = self.more.iter().flat_map(|more| &more.0);
        self.one.iter().chain(&self.two).chain(more)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Cursor> {
        let first = self.one.iter_mut().chain(&mut self.two);
        first.chain(self.more.iter_mut().flat_map(|more| &mut more.0))
    }

    #[inline]
    pub(super) fn get(&self, key: u32) -> Option<&Cursor> {
        match (&self.one, &self.two) {
            (Some(one), _) if one.key == key => Some(one),
            (_, Some(two)) if two.key == key => Some(two),
            _ => {
                let mut more = self.more.as_ref()?.0.iter();
                more.find(|cursor| cursor.key == key)
            }
        }
    }

    #[inline]
    pub(super) fn get_mut(&mut self, key: u32) -> Option<&mut Cursor> {
        match (&mut self.one, &mut self.two) {
            (Some(one), _) if one.key == key => Some(one),
            (_, Some(two)) if two.key == key => Some(two),
            _ => {
                let mut more = self.more.as_mut()?.0.iter_mut();
                more.find(|cursor| cursor.key == key)
            }
        }
    }

    /// Of the template alone.
    pub(super) fn new(template: u32) -> Self {
        Self {
            one: Some(Cursor::new(template, 0)),
            two: None,
            more: None,
        }
    }

    /// Another copy, which has read nothing.
    pub(super) fn add(&mut self, key: u32, attempt: u32) {
        let cursor = Cursor::new(key, attempt);
        if self.one.is_none() {
            self.one = Some(cursor);
        } else if self.two.is_none() {
            self.two = Some(cursor);
        } else {
            self.more.get_or_insert_default().0.push(cursor);
        }
    }

    pub(super) fn remove(&mut self, key: u32) -> Option<Cursor> {
        let is_it = |cursor: &mut Cursor| cursor.key == key;
        self.one
            .take_if(is_it)
            .or_else(|| self.two.take_if(is_it))
            .or_else(|| {
                let more = &mut self.more.as_mut()?.0;
                let at = more.iter().position(|cursor| cursor.key == key)?;
                Some(more.swap_remove(at))
            })
    }
}
