//! Sources of rows on the CPU.

mod ahead;
mod begun;
mod cached;
mod file;
mod mapped;
mod mover;
mod place;
mod remote;
mod summed;
mod threads;
mod widened;

pub use ahead::{LOOK_AHEAD_MOST, LookAheadTable, kept_row_bytes};
pub use begun::{BeginPlace, KeptRows, PartialSumBytes, PartialSums, SumBeginner};
pub use cached::{CachedRows, EvictingRows, RowCache};
pub use file::FileTable;
pub use mapped::MappedTable;
pub use place::{HostPlace, HostSource, HostTable, Reduction, SumPlace, SumSource, TableSource};
pub use remote::{Remote, RemoteCounts};
pub use threads::{TASK_BYTES, divide, gather_pool};
