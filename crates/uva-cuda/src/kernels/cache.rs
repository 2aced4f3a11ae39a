//! A FIFO cache of rows takes in what a gather missed: `cache_insert` of `kernels/gather.cu`.

use crate::error::CudaError;
use crate::kernels::gather::{GatherKernels, GridBound, pointer};
use crate::stream::Stream;

/// One row that comes into a cache. `CacheInsertion` of `kernels/cache.cuh`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CacheInsertion {
    /// The row of the table that loses the slot; -1 when it was free.
    pub evicted: i64,
    /// The row of the table that gets it.
    pub inserted: i64,
    /// Where among the gathered rows it lies.
    pub position: u64,
    /// The slot.
    pub slot: i64,
}

impl CacheInsertion {
    /// Bytes of an insertion.
    pub const BYTES: usize = 32;

    /// As it lies in memory.
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let words = [
            self.evicted.to_ne_bytes(),
            self.inserted.to_ne_bytes(),
            self.position.to_ne_bytes(),
            self.slot.to_ne_bytes(),
        ];
        std::array::from_fn(|byte| words[byte / 8][byte % 8])
    }
}

const _: () = assert!(size_of::<CacheInsertion>() == CacheInsertion::BYTES);

/// What an insertion reads and writes. Addresses are the device's. `InsertArguments` of `kernels/cache.cuh`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InsertArguments {
    /// [`CacheInsertion`]s, aligned to a line of 128 bytes: four of them are one read.
    pub insertions: u64,
    /// How many.
    pub count: u64,
    /// Row 0 of what was gathered; any alignment.
    pub gathered: u64,
    /// Bytes of a row, at least 1.
    pub row_bytes: u64,
    /// int32 for each row of the table: its slot in `cache`, negative for none.
    pub slot_map: u64,
    /// Slot 0, `row_bytes` each; any alignment.
    pub cache: u64,
}

const _: () = assert!(size_of::<InsertArguments>() == 48 && align_of::<InsertArguments>() == 8);

impl InsertArguments {
    fn check(&self) -> Result<(), CudaError> {
        let refuse = |what: String| Err(CudaError::Refused(format!("rows cannot be cached: {what}")));
        if self.row_bytes == 0 {
            return refuse("they have no bytes".to_owned());
        }
        for (what, address, alignment) in [
            ("the insertions", self.insertions, 128),
            ("the gathered rows", self.gathered, 1),
            ("the slot map", self.slot_map, 4),
            ("the cache", self.cache, 1),
        ] {
            if address == 0 || address % alignment != 0 {
                return refuse(format!("{what} at {address:#x} must be aligned to {alignment} bytes"));
            }
        }
        Ok(())
    }
}

impl GatherKernels {
    /// Enqueues that a cache takes rows in: each insertion's row is copied from among the gathered ones to its slot,
    /// and the slot map follows. No insertions: nothing is enqueued. Returns without waiting.
    ///
    /// # Errors
    /// [`CudaError::Refused`] for arguments that no memory can satisfy; [`CudaError::Call`] if the launch fails.
    ///
    /// # Safety
    /// From this call until the stream has passed it, on the stream's device: `insertions` is `count` readable
    /// [`CacheInsertion`]s that stay as they are, `slot_map` and `cache` are as large as these say, writable, and
    /// nobody else uses them, and each position is a row of `gathered`, which was written before in stream order and
    /// which nobody writes. No slot is named twice, nor any row, be it as evicted or as inserted. These kernels' module
    /// lives until then, and the stream is as [`GatherKernels::enqueue`] has it.
    pub unsafe fn insert(
        &self,
        stream: &Stream,
        arguments: &InsertArguments,
        bound: GridBound,
    ) -> Result<(), CudaError> {
        if arguments.count == 0 {
            return Ok(());
        }
        arguments.check()?;
        let shape = self.shape(&self.insert, bound, arguments.count.div_ceil(4));
        let mut copy = *arguments;
        // SAFETY: one parameter, the arguments by value, whose layout the header shares; the caller promises all that
        // they name.
        unsafe { self.insert.function.launch(stream, shape, &mut [pointer(&mut copy)]) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::gather::tests::{fields, fields_of};

    fn arguments() -> InsertArguments {
        InsertArguments {
            insertions: 0x1080,
            count: 3,
            gathered: 0x2001,
            row_bytes: 7,
            slot_map: 0x3004,
            cache: 0x4001,
        }
    }

    #[test]
    fn arguments_and_insertions_have_the_fields_of_the_header() {
        assert_eq!(fields("cache.cuh", "InsertArguments"), fields_of(arguments()));
        assert_eq!(fields("cache.cuh", "CacheInsertion"), fields_of(CacheInsertion::default()));
    }

    #[test]
    fn an_insertion_lies_in_memory_in_the_order_of_its_fields() {
        let insertion = CacheInsertion { evicted: -1, inserted: 2, position: 3, slot: 4 };
        let words: Vec<i64> = insertion
            .to_bytes()
            .chunks_exact(8)
            .map(|word| i64::from_ne_bytes(word.try_into().unwrap()))
            .collect();
        assert_eq!(words, [-1, 2, 3, 4]);
    }

    #[test]
    fn arguments_that_no_memory_can_satisfy_are_refused() {
        let good = arguments();
        good.check().unwrap();
        for (wrong, told) in [
            (InsertArguments { row_bytes: 0, ..good }, "no bytes"),
            (InsertArguments { insertions: 0x1040, ..good }, "the insertions"),
            (InsertArguments { insertions: 0, ..good }, "the insertions"),
            (InsertArguments { gathered: 0, ..good }, "the gathered rows"),
            (InsertArguments { slot_map: 0x3002, ..good }, "the slot map"),
            (InsertArguments { cache: 0, ..good }, "the cache"),
        ] {
            let error = wrong.check().unwrap_err();
            assert!(error.to_string().contains(told), "{error} should tell {told}");
        }
    }
}
