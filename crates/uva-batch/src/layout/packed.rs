//! The columns of a batch in a slot on a GPU, where they follow each other without gaps.

use std::ops::Range;

use uva_cuda::kernels::gather::GatherReport;

use super::batch_layout::{BatchLayout, CACHE_LINE, PAGE};
use super::feature_parts::of_features;
use crate::{BatchHeader, ColumnKey, ColumnPlace};

/// Bytes of the report of a gather on a GPU.
pub(super) const REPORT_BYTES: usize = size_of::<GatherReport>();
// Arrays after the report begin on a cache line, and no later than after a header.
const _: () = assert!(REPORT_BYTES.is_multiple_of(CACHE_LINE) && REPORT_BYTES <= BatchHeader::bytes(1, 0));

impl BatchLayout {
    /// Maximum bytes of one upload to a slot on a GPU: the report and the [packed](Self::packed) columns. Columns that
    /// a sampler writes on the GPU are excluded.
    pub fn upload_bytes(&self, sampled_on_gpu: bool) -> usize {
        let sent = self.own_room(false).chain(self.own_room(true).filter(|_| !sampled_on_gpu));
        sent.fold(REPORT_BYTES, |end, place| end + place.room().len().next_multiple_of(CACHE_LINE))
    }

    /// The columns before the feature rows that have their own memory: those that a sampler on a GPU makes there, or
    /// the others.
    fn own_room(&self, made_on_gpu: bool) -> impl Iterator<Item = &ColumnPlace> {
        self.places.iter().filter(move |place| {
            let spec = place.key.column.spec();
            !of_features(place.key.column) && spec.first_of.is_none() && spec.made_on_gpu == made_on_gpu
        })
    }

    /// Bytes of a feature slot on a GPU that fits the largest batch.
    pub fn device_slot_bytes(&self) -> usize {
        self.feature_slot_bytes().next_multiple_of(PAGE)
    }

    /// The columns before the feature rows of a slot on a GPU, with the bytes that the batch of this header uses. They
    /// follow the report without gaps, so that one copy transfers them all. Each begins on a cache line. Columns that a
    /// sampler on a GPU makes there come last, so that one copy still transfers the others.
    pub fn packed(&self, header: &BatchHeader) -> impl Iterator<Item = (&ColumnPlace, Range<usize>)> {
        side_by_side(REPORT_BYTES, self.own_room(false).chain(self.own_room(true)), header)
    }

    /// The columns of feature rows of a slot on a GPU, with the bytes that the batch of this header uses. They follow
    /// the [packed](Self::packed) columns, the first at the start of a page. A batch therefore uses no more of a slot
    /// than it fills, and a slot may be smaller than the largest batch.
    pub fn packed_features(
        &self,
        header: &BatchHeader,
    ) -> impl Iterator<Item = (&ColumnPlace, Range<usize>)> {
        let arrays = self.packed(header).last().map_or(REPORT_BYTES, |(_, range)| range.end);
        side_by_side(arrays.next_multiple_of(PAGE), self.of_features(), header)
    }

    /// Bytes of a slot on a GPU that the batch of this header uses.
    pub fn packed_bytes(&self, header: &BatchHeader) -> usize {
        let columns = self.packed(header).chain(self.packed_features(header));
        columns
            .filter(|(_, range)| !range.is_empty())
            .map(|(_, range)| range.end)
            .max()
            .unwrap_or(REPORT_BYTES)
    }

    /// The counterpart of [`range`](Self::range) for a slot on a GPU.
    pub fn packed_range(&self, header: &BatchHeader, key: impl Into<ColumnKey>) -> Range<usize> {
        let key = key.into();
        let Some(of) = self.place(key) else { return 0..0 };
        let whole = ColumnKey { column: key.column.spec().first_of.unwrap_or(key.column), ..key };
        let is_whole = |(place, _): &(&ColumnPlace, _)| place.key == whole;
        let found = match of_features(key.column) {
            true => self.packed_features(header).find(is_whole),
            false => self.packed(header).find(is_whole),
        };
        found.map_or(0..0, |(_, range)| range.start..range.start + of.rows(header) * of.row_bytes())
    }
}

/// The given columns laid out from byte `end` on, each on a cache line, with the bytes that the batch of this header
/// uses.
fn side_by_side<'l>(
    mut end: usize,
    places: impl Iterator<Item = &'l ColumnPlace>,
    header: &BatchHeader,
) -> impl Iterator<Item = (&'l ColumnPlace, Range<usize>)> {
    let header = header.clone();
    places.map(move |place| {
        let range = end..end + place.rows(&header) * place.row_bytes();
        end = range.end.next_multiple_of(CACHE_LINE);
        (place, range)
    })
}
