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

pub use ahead::{LOOK_AHEAD_MOST, LookAhead, kept_row_bytes};
pub use begun::{BeginPlace, Begun, BegunBytes, KeptRows, SumBeginner};
pub use cached::{CachedRows, EvictingRows, RowCache};
pub use file::File;
pub use mapped::Mapped;
pub use place::{HostPlace, HostSource, HostTable, Reduction, SumPlace, SumSource, TableSource};
pub use remote::{Remote, RemoteCounts};
pub use threads::{TASK_BYTES, divide, gather_pool};
