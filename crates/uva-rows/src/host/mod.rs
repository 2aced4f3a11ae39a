//! Sources of rows on the CPU.

mod caches;
mod copied_table;
mod file;
mod look_ahead;
mod mapped_table;
mod mover;
mod partial_sums;
mod place;
mod remote;
mod sums;
mod threads;
mod trained_rows;
mod widening;

pub use caches::{CachedRows, EvictingRows, RowCache};
pub use copied_table::CopiedTable;
pub use file::FileTable;
pub use look_ahead::{LOOK_AHEAD_MOST, LookAheadTable, kept_row_bytes};
pub use mapped_table::MappedTable;
pub use partial_sums::{BeginPlace, KeptRows, PartialSumBytes, PartialSums, SumBeginner};
pub use place::{HostPlace, HostSource, HostTable, Reduction, SumPlace, SumSource, TableSource};
pub use remote::{Remote, RemoteCounts};
pub use threads::{TASK_BYTES, divide, gather_pool};
pub use trained_rows::{InitialRows, InitialValues, TrainedError, TrainedRows, read_rows};
