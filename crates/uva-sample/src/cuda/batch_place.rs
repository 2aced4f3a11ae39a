//! Memory for a batch outside its sampler.

use std::ops::Range;

use uva_cuda::memory::SharedBuffer;
use uva_cuda::{CudaError, CudaEvent};

/// Device memory that a sampler writes a batch to. Ranges are in bytes from the beginning of the memory, and their
/// lengths bound the batch.
///
/// The caller guarantees the order: no other work writes to it until the batch has been read, and `after` is recorded
/// after the last read of its previous content.
#[derive(Clone, Debug)]
pub struct BatchPlace<'p> {
    /// The memory.
    pub memory: &'p SharedBuffer,
    /// Range for int64 ids of the nodes.
    pub nodes: Range<usize>,
    /// Range for int32 in-degrees of the nodes; empty unless the sampler's options request them.
    pub degrees: Range<usize>,
    /// Ranges for the blocks, from the seeds outward.
    pub blocks: Vec<BlockPlace>,
    /// An event that the device waits for, as it was last recorded, before it writes.
    pub after: Option<&'p CudaEvent>,
}

/// Device memory for a block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockPlace {
    /// Range for int32 offsets, one per destination and one more.
    pub indptr: Range<usize>,
    /// Range for int32 local ids.
    pub indices: Range<usize>,
    /// Range for int64 positions in the dataset; empty unless the sampler's options request them.
    pub edge_ids: Range<usize>,
}

impl BatchPlace<'_> {
    /// Checks the ranges.
    ///
    /// # Errors
    /// [`CudaError::Refused`] for bytes outside the memory.
    pub(crate) fn check(&self) -> Result<(), CudaError> {
        let of_blocks = self.blocks.iter().flat_map(|block| [&block.indptr, &block.indices, &block.edge_ids]);
        for range in [&self.nodes, &self.degrees].into_iter().chain(of_blocks) {
            if range.start > range.end || range.end > self.memory.bytes() {
                let bytes = self.memory.bytes();
                return Err(CudaError::Refused(format!("bytes {range:?} of a batch in memory of {bytes}")));
            }
        }
        Ok(())
    }

    /// The device address of these bytes; 0 for none.
    pub(crate) fn address(&self, range: &Range<usize>) -> u64 {
        if range.is_empty() { 0 } else { self.memory.address() + range.start as u64 }
    }
}
