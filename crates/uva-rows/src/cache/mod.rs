//! The decisions of row caches: the rows with a slot, the choice of evicted rows, and hit counts.
//!
//! Every cache is a direct map: a 32-bit slot for each row of the table (negative: not cached) and a dense array of
//! rows, in host memory ([`CachedRows`](crate::CachedRows), [`EvictingRows`](crate::EvictingRows)) or on a GPU
//! ([`DeviceCache`](crate::cuda::DeviceCache)). A lookup is one read; the map takes 4 bytes per row of the table,
//! cached or not ([`map_bytes`]).
//!
//! A static cache keeps the rows it was created with; PaGraph, GNNLab and others differ only in their choice. A dynamic
//! one inserts the misses of each batch; [`eviction`] has the policies.

pub mod eviction;
mod hits;
mod pages;
mod slot_map;

pub use hits::Hits;
pub(crate) use pages::zeroed_pages;
pub use slot_map::{MOST_CACHED_ROWS, map_bytes};
pub(crate) use slot_map::{NO_SLOT, SlotMap, check_capacity};
