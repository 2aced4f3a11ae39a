//! Sums of listed rows in device memory: `kernels/sums.cuh`.

use crate::arrays::KernelArray;
use crate::source::SUMS_CUH;

/// Loads of a lane in flight, and the fewest lanes of a group.
const DEPTH: u64 = crate::header::constant(SUMS_CUH, "SUMS_DEPTH");

/// Lanes of a warp.
const LANES: u64 = 32;

/// The type of the values of summed rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SummedType {
    /// float32.
    F32,
    /// float16.
    F16,
    /// bfloat16.
    Bf16,
    /// float8_e4m3fn.
    E4m3,
}

impl SummedType {
    /// Every type.
    pub const ALL: [Self; 4] = [Self::F32, Self::F16, Self::Bf16, Self::E4m3];

    /// Bytes of a value.
    pub const fn bytes(self) -> u64 {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::Bf16 => 2,
            Self::E4m3 => 1,
        }
    }

    /// The entry point that sums rows of such values. It runs with any grid.
    pub const fn entry(self) -> &'static str {
        match self {
            Self::F32 => "sum_rows_f32",
            Self::F16 => "sum_rows_f16",
            Self::Bf16 => "sum_rows_bf16",
            Self::E4m3 => "sum_rows_e4m3",
        }
    }
}

shared_struct! {
    in SUMS_CUH;
    /// The arguments of the sums of a block. Addresses are the device's. The block's numbers may have any value.
    pub struct SumArguments {
        /// Row 0 of `sources` rows, aligned to a value.
        pub rows: u64,
        /// Bytes of a row: at least one value, and whole ones.
        pub row_bytes: u64,
        /// Rows, not below `destinations`.
        pub sources: u64,
        /// int32, `destinations + 1`: offsets.
        pub indptr: u64,
        /// int32, `edges`: sources.
        pub indices: u64,
        /// float32, `edges`: the sampler's weights. 0 if it made none.
        pub sampled: u64,
        /// int32, `sources`: whole-graph degrees, by which rows are weighted, and each destination's own row is added
        /// last. 0 if they are not.
        pub degrees: u64,
        /// Lists: their destinations are the first of the sources.
        pub destinations: u64,
        /// Entries of all lists.
        pub edges: u64,
        /// float32, `destinations` rows of as many values as a row has.
        pub sums: u64,
        /// `destinations` rows: copies of the first ones, aligned to a value. 0 if nobody wants them.
        pub own: u64,
    }
}

impl SumArguments {
    /// The arrays that these arguments name.
    pub fn arrays(&self, values: SummedType) -> [KernelArray; 7] {
        let Self { row_bytes, sources, destinations, edges, .. } = *self;
        let sum_bytes = row_bytes / values.bytes() * 4;
        let rows = |array: KernelArray, alignment| KernelArray { alignment, ..array };
        [
            rows(KernelArray::read("the rows", self.rows, sources, row_bytes), values.bytes()),
            KernelArray::read("the offsets", self.indptr, destinations + 1, 4),
            KernelArray::read("the sources", self.indices, edges, 4),
            KernelArray::read("the sampler's weights", self.sampled, edges, 4).if_any(),
            KernelArray::read("the degrees", self.degrees, sources, 4).if_any(),
            rows(KernelArray::write("the sums", self.sums, destinations, sum_bytes), 4),
            rows(KernelArray::write("the own rows", self.own, destinations, row_bytes), values.bytes())
                .if_any(),
        ]
    }

    /// # Errors
    /// The reason why no memory can match these arguments.
    pub fn check(&self, values: SummedType) -> Result<(), String> {
        let refuse = |what: String| Err(format!("rows cannot be summed: {what}"));
        let Self { row_bytes, sources, destinations, edges, .. } = *self;
        if row_bytes == 0 || !row_bytes.is_multiple_of(values.bytes()) {
            return refuse(format!("{row_bytes} bytes are no values of {} bytes", values.bytes()));
        }
        if [sources, edges].iter().any(|&count| count >= i32::MAX as u64) {
            return refuse(format!("{edges} edges or {sources} sources are more than i32 can count"));
        }
        if destinations > sources {
            return refuse(format!("{destinations} destinations are more than {sources} sources"));
        }
        self.arrays(values).iter().find_map(KernelArray::refusal).map_or(Ok(()), refuse)
    }

    /// Warps with work: a group of lanes makes a sum, and a warp has as many groups as fit.
    ///
    /// A row's pieces decide how many lanes a group has, to a power of two: pieces of 16 bytes where rows and sums are
    /// aligned to them, else of 4 or of a value. So narrow rows leave no lane idle that could make another sum, and wide
    /// ones take a whole warp. Counted for 138,208 lists of
    /// five rows of 400 bytes (products, fanouts 15,10,5): 276 MB of rows are read from device memory, behind 222 MB
    /// that crossed the link. A warp needs three turns of four loads a list, some 2 µs. On 8 multiprocessors of 32
    /// resident warps each that is 1 ms, beside 4 ms or more on a link of 55 GB/s. No GPU has measured it yet.
    pub fn useful_warps(&self, values: SummedType) -> u64 {
        let mixed = self.rows | self.own | self.row_bytes;
        let piece = match (mixed | self.sums, mixed) {
            (all, _) if all.is_multiple_of(16) => 16,
            (_, rows) if rows.is_multiple_of(4) => 4,
            _ => values.bytes(),
        };
        let lanes = self.row_bytes.div_ceil(piece).next_power_of_two().clamp(DEPTH, LANES);
        self.destinations.div_ceil(LANES / lanes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_that_no_memory_can_satisfy_are_refused() {
        let good = SumArguments {
            rows: 0x1002,
            row_bytes: 6,
            sources: 5,
            indptr: 0x2004,
            indices: 0x3004,
            sampled: 0x4004,
            degrees: 0x5004,
            destinations: 3,
            edges: 7,
            sums: 0x6004,
            own: 0x7002,
        };
        good.check(SummedType::F16).unwrap();
        SumArguments { sampled: 0, degrees: 0, own: 0, ..good }.check(SummedType::Bf16).unwrap();
        SumArguments { rows: 0x1001, own: 0x7001, ..good }.check(SummedType::E4m3).unwrap();
        for (wrong, told) in [
            (SumArguments { row_bytes: 0, ..good }, "no values"),
            (SumArguments { row_bytes: 7, ..good }, "no values"),
            (SumArguments { edges: 1 << 31, ..good }, "more than i32"),
            (SumArguments { sources: 2, ..good }, "3 destinations"),
            (SumArguments { rows: 0x1001, ..good }, "the rows"),
            (SumArguments { rows: 0, ..good }, "the rows"),
            (SumArguments { own: 0x7001, ..good }, "the own rows"),
            (SumArguments { sums: 0x6002, ..good }, "the sums"),
            (SumArguments { indptr: 0, ..good }, "the offsets"),
            (SumArguments { degrees: 0x5002, ..good }, "the degrees"),
        ] {
            let error = wrong.check(SummedType::F16).unwrap_err();
            assert!(error.contains(told), "{error} should tell {told}");
        }
    }

    #[test]
    fn a_warp_sums_as_many_lists_at_once_as_rows_fit_beside_each_other() {
        let warps = |row_bytes| {
            let arguments = SumArguments { row_bytes, destinations: 64, ..SumArguments::default() };
            arguments.useful_warps(SummedType::F16)
        };
        assert_eq!([16, 64, 80, 128, 256, 272, 4096].map(warps), [8, 8, 16, 16, 32, 64, 64]);
        // By pieces of four bytes, and of a value.
        assert_eq!([4, 20, 68, 2, 10, 66].map(warps), [8, 16, 64, 8, 16, 64]);
    }
}
