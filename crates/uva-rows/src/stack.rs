//! Sources around sources. Their implementations lie beside the places that they fill: [`crate::host`],
//! [`crate::cuda`].

use uva_ops::rows::HalfFloat;

/// A source with a cache of its rows in front of it. The rows are the same, byte for byte.
///
/// In host memory the cache is a [`RowCache`](crate::RowCache), looked up by the loop that copies the rows; on a GPU a
/// [`DeviceCache`](crate::cuda::DeviceCache), looked up by the kernel that gathers them.
#[derive(Debug)]
pub struct Cached<S, C> {
    pub(crate) source: S,
    pub(crate) cache: C,
}

impl<S, C> Cached<S, C> {
    /// The cache.
    pub fn cache(&self) -> &C {
        &self.cache
    }
}

/// A source of half-precision rows, which become float32 in the place: rows of twice the bytes.
#[derive(Debug)]
pub struct Widened<S> {
    pub(crate) source: S,
    pub(crate) from: HalfFloat,
}
