//! The description of an eviction policy.

use std::fmt;

use serde::Serialize;

use super::slots::{EvictingSlots, PolicySlots, SlotOrder};
use crate::error::GatherError;

/// One row of [the table](super::POLICIES). Policies are equal if their names are.
pub struct Eviction {
    /// The name in `--cache-policy` and in cache plans.
    pub name: &'static str,
    /// One line for `--help`.
    pub help: &'static str,
    slots: fn(usize, usize) -> Result<Box<dyn EvictingSlots>, GatherError>,
}

impl Eviction {
    pub(super) const fn new<O: SlotOrder>(name: &'static str, help: &'static str) -> Self {
        Self {
            name,
            help,
            slots: |table_rows, capacity| Ok(Box::new(PolicySlots::<O>::new(table_rows, capacity)?)),
        }
    }

    /// Creates `capacity` free slots for a table of `table_rows` rows, but at most as many slots as rows.
    ///
    /// # Errors
    /// [`GatherError::TooManyCached`], [`GatherError::CacheMemory`].
    pub fn slots(&self, table_rows: usize, capacity: usize) -> Result<Box<dyn EvictingSlots>, GatherError> {
        (self.slots)(table_rows, capacity)
    }
}

impl PartialEq for Eviction {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Eviction {}

impl std::hash::Hash for Eviction {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl fmt::Debug for Eviction {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name)
    }
}

/// Serializes a policy as its name.
impl Serialize for Eviction {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name)
    }
}
