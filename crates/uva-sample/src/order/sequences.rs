//! Sequences of seeds, in memory of this process or in memory that processes share.

use std::fmt;
use std::sync::Arc;

use uva_graph::hash::of_array;
use uva_mem::FrozenBytes;

/// Sequences of the positions of a split, each of which has every position once. Clones share the memory.
#[derive(Clone)]
pub struct SeedSequences {
    memory: Memory,
    /// Number of sequences.
    count: usize,
    /// Positions in each sequence.
    len: usize,
}

#[derive(Clone)]
enum Memory {
    Own(Arc<[u32]>),
    Shared(Arc<FrozenBytes>),
}

impl SeedSequences {
    /// `count` sequences of `len` positions each, one after the other.
    ///
    /// # Panics
    /// If `positions` has another length. A sequence that is not a permutation leads to orders that are not
    /// permutations, or that panic.
    #[must_use]
    pub fn new(positions: Vec<u32>, count: usize, len: usize) -> Self {
        assert_eq!(positions.len(), count * len, "{count} sequences of {len} positions");
        Self { memory: Memory::Own(positions.into()), count, len }
    }

    /// Sequences in shared memory that the launcher of a run filled.
    ///
    /// # Panics
    /// See [`new`](Self::new).
    #[must_use]
    pub fn shared(memory: Arc<FrozenBytes>, count: usize, len: usize) -> Self {
        assert_eq!(
            memory.bytes().len(),
            count * len * size_of::<u32>(),
            "{count} sequences of {len} positions"
        );
        Self { memory: Memory::Shared(memory), count, len }
    }

    /// The shared memory, for other processes; `None` if the memory belongs to this process.
    #[must_use]
    pub fn memory(&self) -> Option<&Arc<FrozenBytes>> {
        match &self.memory {
            Memory::Own(_) => None,
            Memory::Shared(memory) => Some(memory),
        }
    }

    /// Number of sequences.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Positions in each sequence.
    #[must_use]
    pub fn positions(&self) -> usize {
        self.len
    }

    /// All sequences, one after the other.
    #[must_use]
    pub fn all(&self) -> &[u32] {
        match &self.memory {
            Memory::Own(positions) => positions,
            Memory::Shared(memory) => bytemuck::cast_slice(memory.bytes()),
        }
    }

    /// A hash of all sequences, to compare them with others. Uses the current rayon pool.
    #[must_use]
    pub fn hash(&self) -> u64 {
        of_array(0, bytemuck::cast_slice(self.all()))
    }

    /// One of the sequences.
    ///
    /// # Panics
    /// If the sequence does not exist.
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
