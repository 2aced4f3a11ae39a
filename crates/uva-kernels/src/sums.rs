//! Sums of listed rows in device memory: `kernels/sums.cuh`.

use crate::arrays::KernelArray;
use crate::gather::GatherReport;
use crate::source::SUMS_CUH;

/// The loads of a lane in flight, and the minimum number of lanes of a group.
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

    /// The entry point that continues sums of such values with cached rows. It runs with any grid.
    pub const fn continuing_entry(self) -> &'static str {
        match self {
            Self::F32 => "continue_sums_f32",
            Self::F16 => "continue_sums_f16",
            Self::Bf16 => "continue_sums_bf16",
            Self::E4m3 => "continue_sums_e4m3",
        }
    }
}

shared_struct! {
    in SUMS_CUH;
    /// The arguments of the sums of a block. Addresses are the device's. The block's numbers may have any value.
    pub struct SumArguments {
        /// Row 0 of `sources` rows, aligned to a value.
        pub rows: u64,
        /// Bytes of a row: a multiple of a value, at least one.
        pub row_bytes: u64,
        /// The number of rows, at least `destinations`.
        pub sources: u64,
        /// int32, `destinations + 1`: offsets.
        pub indptr: u64,
        /// int32, `edges`: sources.
        pub indices: u64,
        /// float32, `edges`: the sampler's weights. 0 if there are none.
        pub sampled: u64,
        /// int32, `sources`: whole-graph degrees, by which rows are weighted, and each destination's own row is added
        /// last. 0 if rows are not weighted by degrees.
        pub degrees: u64,
        /// The number of lists, whose destinations are the first of the sources.
        pub destinations: u64,
        /// Entries of all lists.
        pub edges: u64,
        /// float32, `destinations` rows with the same number of values.
        pub sums: u64,
        /// `destinations` rows: copies of the first ones, aligned to a value. 0 if not requested.
        pub own: u64,
    }
}

impl SumArguments {
    /// The arrays of these arguments.
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

    /// Checks the arguments.
    ///
    /// # Errors
    /// The reason why no memory can match these arguments.
    pub fn check(&self, values: SummedType) -> Result<(), String> {
        self.check_counts(values)?;
        check_arrays(&self.arrays(values))
    }

    fn check_counts(&self, values: SummedType) -> Result<(), String> {
        let refuse = |what: String| Err(refusal(&what));
        let Self { row_bytes, sources, destinations, edges, .. } = *self;
        if row_bytes == 0 || !row_bytes.is_multiple_of(values.bytes()) {
            return refuse(format!("{row_bytes} bytes are not whole values of {} bytes", values.bytes()));
        }
        if [sources, edges].iter().any(|&count| count >= i32::MAX as u64) {
            return refuse(format!("{edges} edges or {sources} sources are more than i32 can count"));
        }
        if destinations > sources {
            return refuse(format!("{destinations} destinations are more than {sources} sources"));
        }
        Ok(())
    }

    /// The number of warps with work: a group of lanes computes a sum, and a warp has as many groups as fit.
    ///
    /// The number of lanes of a group is that of a row's pieces, rounded to a power of two: pieces of 16 bytes if rows
    /// and sums are aligned to them, else of 4 bytes or of a value. So narrow rows leave no lanes idle, and wide rows
    /// take a whole warp. Counted for 138,208 lists of five rows of 400 bytes (products, fanouts 15,10,5): 276 MB of
    /// rows are read from device memory, after 222 MB that crossed the link. A warp needs three rounds of four loads
    /// per list, some 2 µs. On 8 multiprocessors of 32 resident warps each that is 1 ms, compared with 4 ms or more on
    /// a link of 55 GB/s. Not measured on a GPU yet.
    pub fn useful_warps(&self, values: SummedType) -> u64 {
        self.warps_of_pieces(values, 0, 0)
    }

    /// The number of warps if further rows and sums begin at these addresses.
    fn warps_of_pieces(&self, values: SummedType, more_rows: u64, more_sums: u64) -> u64 {
        let mixed = self.rows | self.own | self.row_bytes | more_rows;
        let piece = match (mixed | self.sums | more_sums, mixed) {
            (all, _) if all.is_multiple_of(16) => 16,
            (_, rows) if rows.is_multiple_of(4) => 4,
            _ => values.bytes(),
        };
        let lanes = self.row_bytes.div_ceil(piece).next_power_of_two().clamp(DEPTH, LANES);
        self.destinations.div_ceil(LANES / lanes)
    }
}

fn refusal(what: &str) -> String {
    format!("rows cannot be summed: {what}")
}

fn check_arrays(arrays: &[KernelArray]) -> Result<(), String> {
    arrays.iter().find_map(KernelArray::refusal).map_or(Ok(()), |what| Err(refusal(&what)))
}

shared_struct! {
    in SUMS_CUH;
    /// The arguments of sums that the host began with the uncached rows. Addresses are the device's. The numbers of the
    /// block and the ids may have any value; those of `begun_of`, `missed_of` and the slot map may not.
    pub struct ContinuedArguments {
        /// The lists. `rows` are the cache's, slot by slot.
        pub lists: SumArguments,
        /// Rows of the cache.
        pub cached: u64,
        /// int64, `sources`: the row of the table that each source is.
        pub ids: u64,
        /// int32 for each row of the table: its slot in the cache, negative for none.
        pub slot_map: u64,
        /// Rows of the table.
        pub table_rows: u64,
        /// float32, `begun_rows` rows with the same number of values: the host's sums.
        pub begun: u64,
        /// int32, `destinations`: the index of the host's sum for each list, negative for zeros.
        pub begun_of: u64,
        /// The number of the host's sums.
        pub begun_rows: u64,
        /// `missed_rows` rows, aligned to a value: uncached own rows.
        pub missed: u64,
        /// int32, `destinations`: the index of the own row in `missed`, negative for none. 0 if own rows are not
        /// requested.
        pub missed_of: u64,
        /// The number of uncached own rows.
        pub missed_rows: u64,
        /// A [`GatherReport`], which gets the time of the beginning.
        pub report: u64,
    }
}

impl ContinuedArguments {
    /// The arrays of these arguments.
    pub fn arrays(&self, values: SummedType) -> Vec<KernelArray> {
        let SumArguments { row_bytes, sources, destinations, .. } = self.lists;
        let sum_bytes = row_bytes / values.bytes() * 4;
        let rows = |array: KernelArray, alignment| KernelArray { alignment, ..array };
        let mut arrays = self.lists.arrays(values).to_vec();
        arrays[0].count = self.cached;
        arrays.extend([
            KernelArray::read("the ids", self.ids, sources, 8),
            KernelArray::read("the slot map", self.slot_map, self.table_rows, 4),
            rows(KernelArray::read("the begun sums", self.begun, self.begun_rows, sum_bytes), 4),
            KernelArray::read("the numbers of begun sums", self.begun_of, destinations, 4),
            rows(
                KernelArray::read("the missed own rows", self.missed, self.missed_rows, row_bytes),
                values.bytes(),
            ),
            KernelArray::read("the numbers of missed own rows", self.missed_of, destinations, 4).if_any(),
            KernelArray::write("the report", self.report, 1, GatherReport::BYTES as u64),
        ]);
        arrays
    }

    /// Checks the arguments.
    ///
    /// # Errors
    /// The reason why no memory can match these arguments.
    pub fn check(&self, values: SummedType) -> Result<(), String> {
        self.lists.check_counts(values)?;
        let Self { cached, begun_rows, missed_rows, .. } = *self;
        if [cached, begun_rows, missed_rows].iter().any(|&count| count > i32::MAX as u64) {
            let what = format!("{cached} cached rows, {begun_rows} begun sums or {missed_rows} missed rows");
            return Err(refusal(&format!("{what} are more than i32 can count")));
        }
        if (self.missed_of == 0) != (self.lists.own == 0) {
            return Err(refusal("own rows and the numbers of those that are missed go together"));
        }
        check_arrays(&self.arrays(values))
    }

    /// As [`SumArguments::useful_warps`].
    pub fn useful_warps(&self, values: SummedType) -> u64 {
        self.lists.warps_of_pieces(values, self.missed, self.begun)
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
            (SumArguments { row_bytes: 0, ..good }, "not whole values"),
            (SumArguments { row_bytes: 7, ..good }, "not whole values"),
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
            assert!(error.contains(told), "{error} should contain {told}");
        }
    }

    #[test]
    fn arguments_of_continued_sums_that_no_memory_can_satisfy_are_refused() {
        let good = ContinuedArguments {
            lists: SumArguments {
                rows: 0x1002,
                row_bytes: 6,
                sources: 5,
                indptr: 0x2004,
                indices: 0x3004,
                destinations: 3,
                edges: 7,
                sums: 0x6004,
                own: 0x7002,
                ..SumArguments::default()
            },
            // No row is cached: the cache may have no memory.
            cached: 0,
            ids: 0x8008,
            slot_map: 0x9004,
            table_rows: 20,
            begun: 0xa004,
            begun_of: 0xb004,
            begun_rows: 2,
            missed: 0xc002,
            missed_of: 0xd004,
            missed_rows: 1,
            report: 0xe008,
        };
        good.check(SummedType::F16).unwrap();
        ContinuedArguments { begun: 0, begun_rows: 0, missed: 0, missed_rows: 0, ..good }
            .check(SummedType::F16)
            .unwrap();
        for (wrong, told) in [
            (
                ContinuedArguments { lists: SumArguments { row_bytes: 7, ..good.lists }, ..good },
                "not whole values",
            ),
            (ContinuedArguments { lists: SumArguments { own: 0, ..good.lists }, ..good }, "go together"),
            (ContinuedArguments { missed_of: 0, ..good }, "go together"),
            (ContinuedArguments { cached: 1 << 31, ..good }, "more than i32"),
            (ContinuedArguments { ids: 0x8004, ..good }, "the ids"),
            (ContinuedArguments { slot_map: 0, ..good }, "the slot map"),
            (ContinuedArguments { begun: 0xa002, ..good }, "the begun sums"),
            (ContinuedArguments { begun_of: 0, ..good }, "the numbers of begun sums"),
            (ContinuedArguments { missed: 0xc001, ..good }, "the missed own rows"),
            (ContinuedArguments { report: 0, ..good }, "the report"),
        ] {
            let error = wrong.check(SummedType::F16).unwrap_err();
            assert!(error.contains(told), "{error} should contain {told}");
        }
    }

    #[test]
    fn a_warp_sums_as_many_lists_at_once_as_rows_fit_in_its_width() {
        let warps = |row_bytes| {
            let arguments = SumArguments { row_bytes, destinations: 64, ..SumArguments::default() };
            arguments.useful_warps(SummedType::F16)
        };
        assert_eq!([16, 64, 80, 128, 256, 272, 4096].map(warps), [8, 8, 16, 16, 32, 64, 64]);
        // By pieces of four bytes, and of a value.
        assert_eq!([4, 20, 68, 2, 10, 66].map(warps), [8, 16, 64, 8, 16, 64]);
    }
}
