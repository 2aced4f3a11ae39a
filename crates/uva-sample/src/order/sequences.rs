//! Sequences of seeds, in memory of this process or in memory that processes share.

use std::fmt;
use std::sync::Arc;

use uva_graph::hash::of_array;
use uva_mem::FrozenBytes;

/// Sequences of the positions of a split, each of which has every position once. Clones share the memory.
#[derive(Clone)]
pub struct SeedSequences {
    memory: Memory,
    /// How many there are.
    count: usize,
    /// Positions in each.
    len: usize,
}

#[derive(Clone)]
enum Memory {
    Own(Arc<[u32]>),
    Shared(Arc<FrozenBytes>),
}

impl SeedSequences {
    /// `count` sequences of `len` positions each, one behind the other.
    ///
    /// # Panics
    /// Where `positions` has another length. A sequence that is no permutation makes orders that are none either, or
    /// that panic.
    #[must_use]
    pub fn new(positions: Vec<u32>, count: usize, len: usize) -> Self {
        assert_eq!(positions.len(), count * len, "{count} sequences of {len} positions");
        Self { memory: Memory::Own(positions.into()), count, len }
    }

    /// The same in memory that the maker of a run filled.
    ///
    /// # Panics
    /// As [`new`](Self::new).
    #[must_use]
    pub fn shared(memory: Arc<FrozenBytes>, count: usize, len: usize) -> Self {
        assert_eq!(
            memory.bytes().len(),
            count * len * size_of::<u32>(),
            "{count} sequences of {len} positions"
        );
        Self { memory: Memory::Shared(memory), count, len }
    }

    /// The shared memory, to hand over to other processes; `None` where it is this process's own.
    #[must_use]
    pub fn memory(&self) -> Option<&Arc<FrozenBytes>> {
        match &self.memory {
            Memory::Own(_) => None,
            Memory::Shared(memory) => Some(memory),
        }
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Positions in each.
    #[must_use]
    pub fn positions(&self) -> usize {
        self.len
    }

    /// All of them, one behind the other.
    #[must_use]
    pub fn all(&self) -> &[u32] {
        match &self.memory {
            Memory::Own(positions) => positions,
            Memory::Shared(memory) => bytemuck::cast_slice(memory.bytes()),
        }
    }

    /// A hash of all of them, which says whether others are equal. Uses the current rayon pool.
    #[must_use]
    pub fn hash(&self) -> u64 {
        of_array(0, bytemuck::cast_slice(self.all()))
    }

    /// One of them.
    ///
    /// # Panics
    /// Where there is no such sequence.
    #[must_use]
    pub fn sequence(&self, number: usize) -> &[u32] {
        &self.all()[number * self.len..][..self.len]
    }
}

impl fmt::Debug for SeedSequences {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} sequences of {} positions", self.count, self.len)
    }
}
