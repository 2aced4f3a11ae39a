//! Sources of rows on the CPU.

mod begun;
mod cached;
mod file;
mod mapped;
mod mover;
mod place;
mod summed;
mod widened;

pub use begun::{BeginPlace, Begun, BegunBytes, KeptRows, SumBeginner};
pub use cached::{CachedRows, EvictingRows, RowCache};
pub use file::File;
pub use mapped::Mapped;
pub use place::{HostPlace, HostSource, HostTable, Reduction, SumPlace, SumSource};
