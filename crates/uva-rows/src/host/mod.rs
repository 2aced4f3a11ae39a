//! Sources of rows on the CPU.

mod cached;
mod mapped;
mod place;
mod summed;
mod widened;

pub use cached::{CachedRows, EvictingRows, RowCache};
pub use mapped::Mapped;
pub use place::{HostPlace, HostSource, InMemory, Reduction, SumPlace, SumSource};
