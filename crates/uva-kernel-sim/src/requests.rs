//! The request model: the reads on a PCIe link for the loads of a kernel's warps.
//!
//! A warp instruction's loads leave the multiprocessor line by line (128 bytes), in sectors of 32 bytes; neighbouring
//! sectors of one line travel as one read of 32, 64, 96 or 128 bytes. So an instruction costs, for each line, one read
//! per run of touched sectors. There is no caching between instructions: data used by two of them is read twice.

use serde::Serialize;
use uva_kernels::gather::{GatherArguments, GatherReport, IdWidth, Kernel};

use crate::gather::{GatherShape, gather};
use crate::{AccessLog, LaunchError, WarpAccess};

pub use uva_kernels::gather::LINE_BYTES;

/// Bytes of a sector. Reads are whole sectors.
pub const SECTOR_BYTES: u64 = 32;
/// The overhead of a read's completion in addition to its data on PCIe 3 to 5: the start token (4 bytes), a header of
/// three words (12) and the link's checksum (4).
pub const READ_OVERHEAD_BYTES: u64 = 20;
/// The maximum table size for [`of_rows`].
pub const MOST_TABLE_BYTES: u64 = 256 << 20;

/// The number of reads on the link, and their bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Requests {
    /// The number of reads.
    pub reads: u64,
    /// Their bytes: 32, 64, 96 or 128 each.
    pub bytes: u64,
}

impl std::ops::Add for Requests {
    type Output = Requests;

    fn add(self, other: Requests) -> Requests {
        Requests { reads: self.reads + other.reads, bytes: self.bytes + other.bytes }
    }
}

impl std::iter::Sum for Requests {
    fn sum<I: Iterator<Item = Requests>>(all: I) -> Requests {
        all.fold(Requests::default(), std::ops::Add::add)
    }
}

impl Requests {
    /// The requests of one warp instruction.
    pub fn of_instruction(instruction: &WarpAccess) -> Requests {
        let mut sectors: Vec<u64> = Vec::with_capacity(instruction.lanes.len() * 2);
        for lane in &instruction.lanes {
            let last = lane.address + u64::from(lane.bytes).max(1) - 1;
            sectors.extend(lane.address / SECTOR_BYTES..=last / SECTOR_BYTES);
        }
        sectors.sort_unstable();
        sectors.dedup();
        let joined =
            |pair: &[u64]| pair[0] + 1 == pair[1] && !(pair[1] * SECTOR_BYTES).is_multiple_of(LINE_BYTES);
        let inside_runs = sectors.windows(2).filter(|pair| joined(pair)).count();
        Requests { reads: (sectors.len() - inside_runs) as u64, bytes: sectors.len() as u64 * SECTOR_BYTES }
    }

    /// The throughput of these reads for `payload_bytes` useful bytes, relative to reads of whole lines. Only the
    /// link's bytes count: data and [`READ_OVERHEAD_BYTES`] per read.
    pub fn share_of_line_peak(self, payload_bytes: u64) -> f64 {
        let sent = self.bytes + self.reads * READ_OVERHEAD_BYTES;
        let efficiency = payload_bytes as f64 / sent as f64;
        efficiency / (LINE_BYTES as f64 / (LINE_BYTES + READ_OVERHEAD_BYTES) as f64)
    }
}

/// Why requests cannot be computed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestsError {
    /// A row of no bytes.
    #[error("a row has at least one byte")]
    EmptyRow,
    /// A base offset outside of a line.
    #[error("a base offset of {0} bytes is outside of a line: expected 0…127")]
    BaseOffset(u64),
    /// A table too large to run on a CPU.
    #[error("{rows} rows of {row_bytes} bytes are more than the {} MiB that the model runs a kernel over", MOST_TABLE_BYTES >> 20)]
    TooLarge {
        /// The requested number of rows.
        rows: u64,
        /// Bytes of a row.
        row_bytes: u64,
    },
    /// The kernel failed under the shim.
    #[error(transparent)]
    Launch(#[from] LaunchError),
}

/// The requests of each of the rows 0…`rows`-1 if `kernel` gathers it alone from a table whose row 0 begins
/// `base_offset` bytes into a line. Runs the kernel once per row; ids are of type `ids`, which does not affect the
/// result of a correct kernel.
///
/// # Errors
/// [`RequestsError`].
pub fn of_rows(
    kernel: Kernel,
    ids: IdWidth,
    row_bytes: u64,
    base_offset: u64,
    rows: u64,
) -> Result<Vec<Requests>, RequestsError> {
    if row_bytes == 0 {
        return Err(RequestsError::EmptyRow);
    }
    if base_offset >= LINE_BYTES {
        return Err(RequestsError::BaseOffset(base_offset));
    }
    let bytes = rows.checked_mul(row_bytes).filter(|&bytes| bytes <= MOST_TABLE_BYTES);
    let bytes = bytes.ok_or(RequestsError::TooLarge { rows, row_bytes })? as usize;
    // Zeroed memory that is only read stays unbacked; a line before and one after contain the pieces around the ends.
    let memory = vec![0_u8; bytes + 3 * LINE_BYTES as usize];
    let start = (memory.as_ptr() as u64).next_multiple_of(LINE_BYTES) + base_offset;
    let mut row = vec![0_u8; row_bytes as usize];
    let mut report = GatherReport::default();
    (0..rows)
        .map(|index| {
            let wide_id = index as i64;
            // Little-endian hosts only, as all that CUDA runs on: an int32 is the first half of its int64.
            let arguments = GatherArguments {
                table: start,
                rows,
                row_bytes,
                ids: (&raw const wide_id) as u64,
                count: 1,
                out: row.as_mut_ptr() as u64,
                report: (&raw mut report) as u64,
                slot_map: 0,
                cache: 0,
                order: 0,
            };
            let mut log =
                AccessLog::new(memory.as_ptr_range().start as u64..memory.as_ptr_range().end as u64);
            // SAFETY: one id below `rows`. The table lies in `memory`, with at least 128 bytes after it, and its first
            // piece begins at or after the start, which is on a line. The output row and the report are not shared.
            unsafe {
                gather(kernel, ids, arguments, GatherShape { blocks: 1, threads: 32 }, Some(&mut log))
            }?;
            Ok(log.instructions.iter().map(Requests::of_instruction).sum())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LaneAccess;

    fn instruction(lanes: &[(u64, u32)]) -> WarpAccess {
        let access =
            |(lane, &(address, bytes)): (usize, &(u64, u32))| LaneAccess { lane: lane as u8, address, bytes };
        WarpAccess { lanes: lanes.iter().enumerate().map(access).collect() }
    }

    fn cost(lanes: &[(u64, u32)]) -> (u64, u64) {
        let Requests { reads, bytes } = Requests::of_instruction(&instruction(lanes));
        (reads, bytes)
    }

    #[test]
    fn a_read_is_a_run_of_sectors_within_a_line() {
        assert_eq!(cost(&[(0, 4)]), (1, 32));
        assert_eq!(cost(&[(0, 16), (16, 16), (32, 16)]), (1, 64));
        assert_eq!(cost(&[(0, 128)]), (1, 128));
        // Sectors 0 and 2 of one line: two reads.
        assert_eq!(cost(&[(0, 4), (64, 4)]), (2, 64));
        // The last sector of a line and the first of the next one.
        assert_eq!(cost(&[(96, 32), (128, 4)]), (2, 64));
        // One access over a line's end.
        assert_eq!(cost(&[(126, 4)]), (2, 64));
    }

    #[test]
    fn lanes_that_read_the_same_share_it_and_their_order_does_not_matter() {
        assert_eq!(cost(&[(8, 4), (0, 4), (8, 4)]), (1, 32));
        assert_eq!(cost(&[(96, 4), (64, 4), (32, 4), (0, 4)]), (1, 128));
    }

    #[test]
    fn whole_lines_are_the_peak_and_an_overhead_is_paid_by_the_read() {
        let whole = Requests { reads: 8, bytes: 1024 };
        assert!((whole.share_of_line_peak(1024) - 1.0).abs() < 1e-12);
        let halves = Requests { reads: 16, bytes: 1024 };
        let expected = (1024.0 / 1344.0) / (128.0 / 148.0);
        assert!((halves.share_of_line_peak(1024) - expected).abs() < 1e-12);
    }

    #[test]
    fn what_cannot_be_asked_is_refused() {
        let ask =
            |row_bytes, base, rows| of_rows(Kernel::Wide, IdWidth::I64, row_bytes, base, rows).unwrap_err();
        assert_eq!(ask(0, 0, 1), RequestsError::EmptyRow);
        assert_eq!(ask(4, 128, 1), RequestsError::BaseOffset(128));
        assert!(matches!(ask(u64::MAX, 0, 2), RequestsError::TooLarge { .. }));
        assert!(ask(1 << 20, 0, 1024).to_string().contains("256 MiB"));
    }
}
