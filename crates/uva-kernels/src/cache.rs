//! Insertion of missed rows into a FIFO cache: `kernels/cache.cuh`.

use crate::arrays::KernelArray;
use crate::source::CACHE_CUH;

/// The entry point: inserts rows into a FIFO cache.
pub const CACHE_INSERT: &str = "cache_insert";

shared_struct! {
    in CACHE_CUH;
    /// One row inserted into a cache.
    pub struct CacheInsertion {
        /// The row of the table that is evicted; -1 if the slot was free.
        pub evicted: i64,
        /// The row of the table that gets the slot.
        pub inserted: i64,
        /// Its position among the gathered rows.
        pub position: u64,
        /// The slot.
        pub slot: i64,
    }
}

impl CacheInsertion {
    /// Its layout in memory.
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        bytemuck::cast(*self)
    }
}

shared_struct! {
    in CACHE_CUH;
    /// The arguments of an insertion. Addresses are the device's.
    pub struct InsertArguments {
        /// [`CacheInsertion`]s, aligned to a line of 128 bytes: one read fetches four of them.
        pub insertions: u64,
        /// Number of insertions.
        pub count: u64,
        /// Row 0 of the gathered rows; any alignment.
        pub gathered: u64,
        /// Bytes of a row, at least 1.
        pub row_bytes: u64,
        /// int32 for each row of the table: its slot in `cache`, negative for none.
        pub slot_map: u64,
        /// Slot 0, `row_bytes` each; any alignment.
        pub cache: u64,
    }
}

/// Insertions that a warp reads at once: a line of 128 bytes.
pub const INSERTIONS_AT_ONCE: u64 = 128 / CacheInsertion::BYTES as u64;

impl InsertArguments {
    /// The arrays of these arguments.
    pub fn arrays(&self) -> [KernelArray; 4] {
        let insertion = CacheInsertion::BYTES as u64;
        [
            KernelArray {
                alignment: 128,
                ..KernelArray::read("the insertions", self.insertions, self.count, insertion)
            },
            KernelArray::read("the gathered rows", self.gathered, 1, 1).unbounded(),
            KernelArray::write("the slot map", self.slot_map, 1, 4).unbounded(),
            KernelArray::write("the cache", self.cache, 1, 1).unbounded(),
        ]
    }

    /// Checks the arguments.
    ///
    /// # Errors
    /// The reason why no memory can match these arguments.
    pub fn check(&self) -> Result<(), String> {
        let refuse = |what: String| Err(format!("rows cannot be cached: {what}"));
        if self.row_bytes == 0 {
            return refuse("they have no bytes".to_owned());
        }
        self.arrays().iter().find_map(KernelArray::refusal).map_or(Ok(()), refuse)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_insertion_is_in_memory_in_the_order_of_its_fields() {
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
        let good = InsertArguments {
            insertions: 0x1080,
            count: 3,
            gathered: 0x2001,
            row_bytes: 7,
            slot_map: 0x3004,
            cache: 0x4001,
        };
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
            assert!(error.contains(told), "{error} should contain {told}");
        }
    }
}
