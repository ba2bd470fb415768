//! Values by number, in one vector.

use alloc::vec::Vec;

/// A value's number; used again after the value was removed.
pub(crate) type Key = u32;

/// Values by number, found in one step.
#[derive(Clone, Debug)]
pub(crate) struct Slab<T> {
    values: Vec<Option<T>>,
    free: Vec<Key>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self {
            values: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T> Slab<T> {
    /// Adds a value, or hands it back where 2^32 - 1 are held.
    pub(crate) fn insert(&mut self, value: T) -> Result<Key, T> {
        if let Some(key) = self.free.pop()
            && let Some(place) = self.values.get_mut(key as usize)
        {
            *place = Some(value);
            return Ok(key);
        }
        match Key::try_from(self.values.len()) {
            Ok(key) if key < Key::MAX => {
                self.values.push(Some(value));
                Ok(key)
            }
            _ => Err(value),
        }
    }

    #[inline]
    pub(crate) fn get(&self, key: Key) -> Option<&T> {
        self.values.get(key as usize)?.as_ref()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        self.values.get_mut(key as usize)?.as_mut()
    }

    pub(crate) fn remove(&mut self, key: Key) -> Option<T> {
        let value = self.values.get_mut(key as usize)?.take()?;
        self.free.push(key);
        Some(value)
    }

    /// Numbers handed out so far, also those free again.
    pub(crate) fn bound(&self) -> Key {
        Key::try_from(self.values.len()).unwrap_or(Key::MAX)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Key, &T)> {
        let keyed = (0..).zip(&self.values);
        keyed.filter_map(|(key, value)| Some((key, value.as_ref()?)))
    }
}
