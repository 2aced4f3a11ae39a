//! Sources around sources. Their implementations lie beside the places that they fill: [`crate::host`],
//! [`crate::cuda`].

use uva_ops::rows::NarrowFloat;

/// A source with a cache of its rows in front of it. The rows are the same, byte for byte.
///
/// In host memory the cache is a [`RowCache`](crate::RowCache), and the loop that copies the rows looks them up. On a
/// GPU it is a [`DeviceCache`](crate::cuda::DeviceCache), and the gather kernel looks them up.
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
    pub(crate) from: NarrowFloat,
}
