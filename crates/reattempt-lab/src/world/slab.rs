//! Places for what is in flight, used again when it is over.

/// A list with free places. Each new item at a place gets another generation, so that an event
/// about an earlier one is seen to be void.
#[derive(Debug)]
pub(super) struct Slab<T> {
    items: Vec<(u32, Option<T>)>,
    free: Vec<u32>,
}

impl<T> Slab<T> {
    pub(super) const fn new() -> Self {
        Self {
            items: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Returns the place.
    pub(super) fn insert(&mut self, item: T) -> u32 {
        if let Some(id) = self.free.pop() {
            self.items[id as usize].1 = Some(item);
            return id;
        }
        // More than 4 billion in flight do not fit into memory.
        let id = self.items.len() as u32;
        self.items.push((0, Some(item)));
        id
    }

    pub(super) fn remove(&mut self, id: u32) -> Option<T> {
        let (generation, item) = &mut self.items[id as usize];
        let item = item.take()?;
        *generation = generation.wrapping_add(1);
        self.free.push(id);
        Some(item)
    }

    pub(super) fn generation(&self, id: u32) -> u32 {
        self.items[id as usize].0
    }

    pub(super) fn get(&self, id: u32) -> Option<&T> {
        self.items[id as usize].1.as_ref()
    }

    pub(super) fn get_mut(&mut self, id: u32) -> Option<&mut T> {
        self.items[id as usize].1.as_mut()
    }

    /// Whether what an event was planned for is still there.
    pub(super) fn is_current(&self, id: u32, generation: u32) -> bool {
        let (current, item) = &self.items[id as usize];
        *current == generation && item.is_some()
    }

    pub(super) fn len(&self) -> usize {
        self.items.len() - self.free.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.items.iter().filter_map(|(_, item)| item.as_ref())
    }
}
