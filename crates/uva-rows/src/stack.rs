//! Sources that wrap other sources. Their implementations are next to the places that they fill: [`crate::host`],
//! [`crate::cuda`].

use uva_ops::rows::NarrowFloat;

/// A source with a cache of its rows. The cache does not change the result, byte for byte.
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

/// A source that widens half-precision rows to float32, so that rows have twice the bytes.
#[derive(Debug)]
pub struct WideningSource<S> {
    pub(crate) source: S,
    pub(crate) from: NarrowFloat,
}

/// A source that delivers sums of rows by list, and no rows that are only summed. Places are
/// [`SumPlace`](crate::SumPlace)s.
#[derive(Debug)]
pub struct SummingSource<S> {
    pub(crate) source: S,
    pub(crate) values: SummedValues,
}

/// The types of a summing source.
#[derive(Clone, Copy, Debug)]
pub struct SummedValues {
    /// The type of the table's values; `None` for float32.
    pub narrow: Option<NarrowFloat>,
    /// Whether the rows next to the sums are widened to float32, too.
    pub widened_own: bool,
}

impl SummedValues {
    /// Bytes of a value in the table.
    pub(crate) fn bytes(self) -> usize {
        self.narrow.map_or(size_of::<f32>(), NarrowFloat::bytes)
    }

    /// The type from which the rows next to the sums are widened.
    pub(crate) fn own(self) -> Option<NarrowFloat> {
        self.narrow.filter(|_| self.widened_own)
    }
}
