//! Values under handles that are never taken for one another: a place that is used again gets a new generation.

/// Where a value is, and which of the values that were there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

#[derive(Debug)]
struct Place<T> {
    generation: u32,
    value: Option<T>,
}

#[derive(Debug)]
pub(crate) struct Slab<T> {
    places: Vec<Place<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { places: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    pub(crate) fn insert(&mut self, value: T) -> Key {
        if let Some(index) = self.free.pop()
            && let Some(place) = self.places.get_mut(index as usize)
        {
            place.value = Some(value);
            return Key { index, generation: place.generation };
        }
        let index = crate::number::long(self.places.len());
        self.places.push(Place { generation: 0, value: Some(value) });
        // So that no removal allocates.
        self.free.reserve(self.places.len());
        Key { index, generation: 0 }
    }

    pub(crate) fn get(&self, key: Key) -> Option<&T> {
        self.places.get(key.index as usize).filter(|place| place.generation == key.generation)?.value.as_ref()
    }

    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        self.places.get_mut(key.index as usize).filter(|place| place.generation == key.generation)?.value.as_mut()
    }

    pub(crate) fn at(&mut self, index: u32) -> Option<&mut T> {
        self.places.get_mut(index as usize)?.value.as_mut()
    }

    pub(crate) fn key(&self, index: u32) -> Option<Key> {
        let place = self.places.get(index as usize)?;
        place.value.is_some().then_some(Key { index, generation: place.generation })
    }

    pub(crate) fn remove(&mut self, index: u32) -> Option<T> {
        let place = self.places.get_mut(index as usize)?;
        let value = place.value.take()?;
        place.generation = place.generation.wrapping_add(1);
        self.free.push(index);
        Some(value)
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Key, &T)> {
        (0_u32..).zip(&self.places).filter_map(|(index, place)| {
            place.value.as_ref().map(|value| (Key { index, generation: place.generation }, value))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_that_is_used_again_has_another_key() {
        let mut slab = Slab::default();
        let first = slab.insert('a');
        assert_eq!(slab.remove(first.index), Some('a'));
        let second = slab.insert('b');
        assert_eq!((first.index, slab.get(first), slab.get(second)), (second.index, None, Some(&'b')));
        assert_eq!((slab.len(), slab.remove(7)), (1, None));
    }
}
