//! The request model: which reads a PCIe link sees for what the warps of a kernel read.
//!
//! A warp instruction's loads leave the multiprocessor line by line (128 bytes), in sectors of 32 bytes; neighbouring
//! sectors of one line travel as one read of 32, 64, 96 or 128 bytes. So an instruction costs, for each line, one read
//! per run of touched sectors. Nothing is kept between instructions: what two of them touch is read twice.

use serde::Serialize;
use uva_kernels::gather::{GatherArguments, GatherReport, IdWidth, Kernel};

use crate::gather::{GatherShape, gather};
use crate::{AccessLog, LaunchError, WarpAccess};

pub use uva_kernels::gather::LINE_BYTES;

/// Bytes of a sector. Reads are whole sectors.
pub const SECTOR_BYTES: u64 = 32;
/// What a read's completion brings along besides its data on PCIe 3 to 5: the start token (4 bytes), a header of three
/// words (12) and the link's checksum (4).
pub const READ_OVERHEAD_BYTES: u64 = 20;
/// The most that [`of_rows`] runs a kernel over.
pub const MOST_TABLE_BYTES: u64 = 256 << 20;

/// Reads of the link, and the bytes that they ask for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Requests {
    /// How many reads.
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
    /// What one warp instruction costs.
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

    /// The share of what a link delivers in whole lines that these reads deliver of `payload_bytes` wanted bytes, when
    /// only the link's bytes count: data and [`READ_OVERHEAD_BYTES`] a read.
    pub fn share_of_line_peak(self, payload_bytes: u64) -> f64 {
        let sent = self.bytes + self.reads * READ_OVERHEAD_BYTES;
        let efficiency = payload_bytes as f64 / sent as f64;
        efficiency / (LINE_BYTES as f64 / (LINE_BYTES + READ_OVERHEAD_BYTES) as f64)
    }
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestsError {
    /// A row of no bytes.
    #[error("a row has at least one byte")]
    EmptyRow,
    /// A base offset that is no place in a line.
    #[error("a base offset of {0} bytes is no place in a line: those are 0…127")]
    BaseOffset(u64),
    /// More than is sensible to run on a CPU.
    #[error("{rows} rows of {row_bytes} bytes are more than the {} MiB that the model runs a kernel over", MOST_TABLE_BYTES >> 20)]
    TooLarge {
        /// Rows asked for.
        rows: u64,
        /// Bytes of a row.
        row_bytes: u64,
    },
    /// The kernel failed under the shim.
    #[error(transparent)]
    Launch(#[from] LaunchError),
}

/// What each of the rows 0…`rows`-1 costs that `kernel` gathers alone from a table whose row 0 begins `base_offset`
/// bytes into a line. The kernel is run, once a row; ids are of type `ids`, which changes nothing in any kernel that is
/// right.
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
    // Zeroed memory that is only read stays unbacked; a line before and one behind hold the pieces around the ends.
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
            // SAFETY: one id below `rows`. The table lies in `memory`, with at least 128 bytes behind it, and its first
            // piece begins at or behind the start, which is on a line. The output row and the report are ours alone.
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
