//! Gathers rows of a table in host memory, selected by id, into device memory: `kernels/gather.cu`.

use serde::{Deserialize, Serialize};
use uva_options::Named;

use crate::arrays::KernelArray;
use crate::header::constant;
use crate::source::{GATHER_CUH, TUNING_CUH};

/// The entry point that resets the report of a gather.
pub const GATHER_BEGIN: &str = "gather_begin";
/// The entry point that blocks the stream until a word of host memory changes.
pub const SPIN_UNTIL: &str = "spin_until";

/// Threads of a block.
pub const BLOCK_THREADS: u32 = constant(TUNING_CUH, "UVA_GATHER_BLOCK_THREADS") as u32;
/// Minimum of resident blocks per multiprocessor.
pub const BLOCKS_PER_MULTIPROCESSOR: u32 =
    constant(TUNING_CUH, "UVA_GATHER_BLOCKS_PER_MULTIPROCESSOR") as u32;
/// Bytes of a line: no read over the link crosses a line boundary.
pub const LINE_BYTES: u64 = constant(GATHER_CUH, "LINE_BYTES");

/// The bits of a bad position in the report below the number of its table.
const POSITION_BITS: u32 = constant(GATHER_CUH, "POSITION_BITS") as u32;

const NARROW_DEPTH: u32 = constant(TUNING_CUH, "UVA_GATHER_NARROW_DEPTH") as u32;
const WIDE_DEPTH: u32 = constant(TUNING_CUH, "UVA_GATHER_WIDE_DEPTH") as u32;

/// Declares [`Kernel`] from one row for each gather kernel.
macro_rules! gather_kernels {
    ($($kernel:ident {
        name: $name:literal,
        entry: $entry:literal,
        layout: $layout:ident,
        help: $help:literal,
        reads_per_warp: $reads:expr,
    },)*) => {
        /// A gather kernel: a method of reading rows. docs/internals/kernels.md explains them.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum Kernel {
            $(#[doc = $help] #[serde(rename = $name)] $kernel,)*
        }

        impl Kernel {
            /// Every kernel, in the order of the table.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$kernel),*];

            /// Its name in options and reports.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$kernel => $name,)* }
            }

            /// One line for `--help`.
            pub const fn help(self) -> &'static str {
                match self { $(Self::$kernel => $help,)* }
            }

            /// The kernel with the same reads. If it is a different one, the two are twins with different cache hints.
            pub const fn layout(self) -> Self {
                match self { $(Self::$kernel => Self::$layout,)* }
            }

            /// Minimum of reads over the link that a warp keeps in flight.
            pub const fn reads_per_warp(self) -> u32 {
                match self { $(Self::$kernel => $reads,)* }
            }

            /// The entry point that gathers from several tables.
            pub const fn tables_entry(self) -> &'static str {
                match self { $(Self::$kernel => concat!("gather_", $entry, "_tables"),)* }
            }

            /// The entry point for ids of this width; `cached` selects the form with a slot map.
            pub const fn entry(self, width: IdWidth, cached: bool) -> &'static str {
                match self {
                    $(Self::$kernel => match (width, cached) {
                        (IdWidth::I32, false) => concat!("gather_", $entry, "_i32"),
                        (IdWidth::I32, true) => concat!("gather_", $entry, "_i32_cached"),
                        (IdWidth::I64, false) => concat!("gather_", $entry, "_i64"),
                        (IdWidth::I64, true) => concat!("gather_", $entry, "_i64_cached"),
                    },)*
                }
            }
        }
    };
}

// One row per kernel. Options, help, reports, simulators and tests iterate over them.
gather_kernels! {
    Naive {
        name: "naive",
        entry: "naive",
        layout: Naive,
        help: "A warp's lanes start at the row's first byte",
        reads_per_warp: NARROW_DEPTH,
    },
    Shift {
        name: "shift",
        entry: "shift",
        layout: Shift,
        help: "Lanes rotated so that a warp's reads start on 128-byte lines",
        reads_per_warp: NARROW_DEPTH,
    },
    Wide {
        name: "wide",
        entry: "wide",
        layout: Wide,
        help: "16-byte reads laid out from 128-byte lines, whatever the row's size",
        // One load of a warp covers four lines.
        reads_per_warp: 4 * WIDE_DEPTH,
    },
    WidePlain {
        name: "wide-plain",
        entry: "wide_plain",
        layout: Wide,
        help: "The same as wide by loads without a hint to the caches, for comparison",
        reads_per_warp: 4 * WIDE_DEPTH,
    },
    WideEvictFirst {
        name: "wide-evict-first",
        entry: "wide_evict_first",
        layout: Wide,
        help: "The same as wide by loads that are the first to leave L2, for comparison",
        reads_per_warp: 4 * WIDE_DEPTH,
    },
}

impl Named for Kernel {
    fn all() -> Vec<Self> {
        Self::ALL.to_vec()
    }

    fn name(self) -> &'static str {
        self.name()
    }

    fn help(self) -> &'static str {
        self.help()
    }
}

impl std::fmt::Display for Kernel {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.name())
    }
}

impl std::str::FromStr for Kernel {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|kernel| kernel.name() == text).ok_or_else(|| {
            let names = Self::ALL.map(Self::name);
            let (last, others) = names.split_last().unwrap_or((&"", &[]));
            format!("invalid gather kernel '{text}': expected {} or {last}", others.join(", "))
        })
    }
}

/// The type of the ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IdWidth {
    /// int32.
    I32,
    /// int64.
    I64,
}

impl IdWidth {
    /// Every width.
    pub const ALL: [Self; 2] = [Self::I32, Self::I64];

    /// Bytes of an id.
    pub const fn bytes(self) -> u64 {
        match self {
            Self::I32 => 4,
            Self::I64 => 8,
        }
    }

    /// The name in options.
    pub const fn name(self) -> &'static str {
        match self {
            Self::I32 => "i32",
            Self::I64 => "i64",
        }
    }
}

impl std::str::FromStr for IdWidth {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|width| width.name() == text);
        known.ok_or_else(|| format!("ids are i32 or i64, not `{text}`"))
    }
}

/// The entry point that completes the report of a gather.
pub const fn finish_entry(width: IdWidth) -> &'static str {
    match width {
        IdWidth::I32 => "gather_finish_i32",
        IdWidth::I64 => "gather_finish_i64",
    }
}

shared_struct! {
    in GATHER_CUH;
    /// The arguments of a gather. Addresses are the device's.
    pub struct GatherArguments {
        /// Row 0 of the table; any alignment. The aligned 16-byte pieces around its first and last byte are readable
        /// too, as always in memory mapped in pages.
        pub table: u64,
        /// Rows of the table: ids are `0..rows`.
        pub rows: u64,
        /// Bytes of a row, at least 1.
        pub row_bytes: u64,
        /// The ids, aligned to their own size.
        pub ids: u64,
        /// Number of ids.
        pub count: u64,
        /// Row 0 of the output; any alignment; `count * row_bytes` bytes.
        pub out: u64,
        /// A [`GatherReport`], aligned to 8 bytes.
        pub report: u64,
        /// int32 for each row of the table: its slot in `cache`, negative for none. 0 when there is no cache.
        pub slot_map: u64,
        /// Cached rows in device memory, `row_bytes` each; any alignment, readable like the table. 0 when there is
        /// none.
        pub cache: u64,
        /// uint32 for each id: the order in which positions are visited, each once. 0 for the given order.
        pub order: u64,
    }
}

impl GatherArguments {
    /// The arrays of these arguments.
    pub fn arrays(&self, width: IdWidth) -> [KernelArray; 7] {
        [
            KernelArray::read("the table", self.table, self.rows, self.row_bytes).unaligned(),
            KernelArray::read("the ids", self.ids, self.count, width.bytes()),
            KernelArray::write("the output", self.out, self.count, self.row_bytes).unaligned(),
            KernelArray::write("the report", self.report, 1, GatherReport::BYTES as u64),
            KernelArray::read("the slot map", self.slot_map, self.rows, 4).if_any(),
            KernelArray::read("the cache", self.cache, 1, 1).unbounded().if_any(),
            KernelArray::read("the order", self.order, self.count, 4).if_any(),
        ]
    }

    /// Checks the arguments.
    ///
    /// # Errors
    /// The reason why no memory can match these arguments.
    pub fn check(&self, width: IdWidth) -> Result<(), String> {
        let refuse = |what: String| Err(format!("a gather cannot be launched: {what}"));
        if self.row_bytes == 0 {
            return refuse("its rows have no bytes".to_owned());
        }
        if let Some(refusal) = self.arrays(width).iter().find_map(KernelArray::refusal) {
            return refuse(refusal);
        }
        if (self.slot_map == 0) != (self.cache == 0) {
            return refuse("a slot map and a cache go together".to_owned());
        }
        Ok(())
    }
}

shared_struct! {
    in GATHER_CUH;
    /// The result of a gather. It is in device memory and is read by a copy.
    pub struct GatherReport {
        /// The launcher's report stamp, written after everything else; 0 from the gather's beginning until then.
        pub stamp: u64,
        /// The device's clock at the beginning, nanoseconds; all ones in a report that the host prepared, until then.
        pub began_ns: u64,
        /// The device's clock at the end, nanoseconds.
        pub ended_ns: u64,
        /// The first position with an invalid id; all ones when there is none.
        pub bad_position: u64,
        /// That id.
        pub bad_id: i64,
        /// A counter that only the kernels use.
        pub next: u64,
        /// Rows that were read from the cache.
        pub hits: u64,
        /// A counter that only the kernels use.
        pub next_hit: u64,
    }
}

impl GatherReport {
    /// Reads a report from bytes copied from the device.
    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> Self {
        bytemuck::pod_read_unaligned(bytes)
    }

    /// A report before its gather, for a host that sends it to the device. `gather_begin` writes the same, and the time.
    pub const PREPARED: Self = Self {
        stamp: 0,
        began_ns: u64::MAX,
        ended_ns: 0,
        bad_position: u64::MAX,
        bad_id: 0,
        next: 0,
        hits: 0,
        next_hit: 0,
    };

    /// The bytes to copy to the device.
    pub fn bytes(&self) -> &[u8] {
        bytemuck::bytes_of(self)
    }

    /// The first id that is not a row of its table.
    pub fn bad(&self) -> Option<BadId> {
        let (table, position) =
            (self.bad_position >> POSITION_BITS, self.bad_position & ((1 << POSITION_BITS) - 1));
        let bad = BadId { table: table as usize, position, id: self.bad_id };
        (self.bad_position != u64::MAX).then_some(bad)
    }
}

/// An id that is not a row of its table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadId {
    /// The table's number; 0 in a gather from one table.
    pub table: usize,
    /// Its position among the table's ids.
    pub position: u64,
    /// The id.
    pub id: i64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_are_those_of_the_headers() {
        for (name, value) in [
            ("BLOCK_THREADS", BLOCK_THREADS),
            ("BLOCKS_PER_MULTIPROCESSOR", BLOCKS_PER_MULTIPROCESSOR),
            ("WIDE_DEPTH", WIDE_DEPTH),
        ] {
            let line = format!("#define UVA_GATHER_{name} {value}");
            assert!(TUNING_CUH.lines().any(|found| found == line), "{name} is not {value}");
        }
        assert!(GATHER_CUH.contains(&format!("constexpr u32 LINE_BYTES = {LINE_BYTES};")));
    }

    #[test]
    fn a_kernel_has_one_name_in_options_reports_and_entry_points() {
        for kernel in Kernel::ALL {
            assert_eq!(kernel.name().parse(), Ok(kernel));
            for width in IdWidth::ALL {
                let name = format!("gather_{}_{}", kernel.name().replace('-', "_"), width.name());
                assert_eq!(kernel.entry(width, false), name);
                assert_eq!(kernel.entry(width, true), name + "_cached");
            }
        }
        let error = "fast".parse::<Kernel>().unwrap_err();
        assert!(error.contains("'fast': expected naive, shift, wide, "), "{error}");
        assert_eq!(Kernel::ALL.map(Kernel::layout)[2..], [Kernel::Wide; 3]);
    }

    #[test]
    fn a_report_is_read_from_its_bytes() {
        let mut bytes = [0; GatherReport::BYTES];
        for word in 0..8u64 {
            bytes[word as usize * 8..][..8].copy_from_slice(&(word + 1).to_ne_bytes());
        }
        bytes[32..40].copy_from_slice(&(-7i64).to_ne_bytes());
        let report = GatherReport::from_bytes(&bytes);
        let expected = GatherReport {
            stamp: 1,
            began_ns: 2,
            ended_ns: 3,
            bad_position: 4,
            bad_id: -7,
            next: 6,
            hits: 7,
            next_hit: 8,
        };
        assert_eq!(report, expected);
        assert_eq!(report.bad(), Some(BadId { table: 0, position: 4, id: -7 }));
        let of_table = GatherReport { bad_position: 3 << 48 | 4, ..report };
        assert_eq!(of_table.bad(), Some(BadId { table: 3, position: 4, id: -7 }));
        assert_eq!(GatherReport { bad_position: u64::MAX, ..report }.bad(), None);
    }

    fn arguments() -> GatherArguments {
        GatherArguments {
            table: 0x1003,
            rows: 10,
            row_bytes: 7,
            ids: 0x2008,
            count: 3,
            out: 0x3001,
            report: 0x4000,
            slot_map: 0,
            cache: 0,
            order: 0,
        }
    }

    #[test]
    fn arguments_that_no_memory_can_satisfy_are_refused() {
        let good = arguments();
        good.check(IdWidth::I64).unwrap();
        GatherArguments { ids: 0x2004, ..good }.check(IdWidth::I32).unwrap();
        GatherArguments { slot_map: 0x5004, cache: 0x6001, ..good }.check(IdWidth::I64).unwrap();
        GatherArguments { count: 0, ids: 0, out: 0, ..good }.check(IdWidth::I64).unwrap();
        for (wrong, told) in [
            (GatherArguments { row_bytes: 0, ..good }, "no bytes"),
            (GatherArguments { rows: u64::MAX / 2, ..good }, "the table"),
            (GatherArguments { count: u64::MAX / 4, ..good }, "the ids"),
            (GatherArguments { table: 0, ..good }, "the table"),
            (GatherArguments { out: u64::MAX - 10, ..good }, "the output"),
            (GatherArguments { ids: 0x2004, ..good }, "aligned to 8"),
            (GatherArguments { report: 0x4004, ..good }, "the report"),
            (GatherArguments { report: 0, ..good }, "the report"),
            (GatherArguments { slot_map: 0x5004, ..good }, "go together"),
            (GatherArguments { cache: 0x6001, ..good }, "go together"),
            (GatherArguments { slot_map: 0x5002, cache: 0x6001, ..good }, "the slot map"),
            (GatherArguments { order: 0x7002, ..good }, "the order"),
        ] {
            let error = wrong.check(IdWidth::I64).unwrap_err();
            assert!(error.contains(told), "{error} should contain {told}");
        }
    }
}
