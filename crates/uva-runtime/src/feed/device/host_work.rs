//! The CPU's work for each batch in a slot on a GPU.

use std::cell::RefCell;
use std::ops::Range;

use uva_batch::{Aggregation, BatchHeader, BatchLayout, Column, ColumnKey};
use uva_graph::{Hops, NodeType};
use uva_rows::cuda::{SlotSums, TablePlace};
use uva_rows::{GatherError, HostPlace, SumBeginner};

use super::direct::DirectHops;
use crate::RuntimeError;
use crate::control::disk_counts::DiskCounts;
use crate::feed::hop_rows::runs_at;
use crate::feed::rows::{EdgeRowSource, HopSource, HostRows};

/// The CPU's work for the rows of each batch.
pub(super) enum HostWork<'d> {
    /// No work other than that of the source's own threads.
    None,
    /// Rows of a table, or own rows and sums, made in page-locked memory.
    Rows(RowsOnHost<'d>),
    /// Sums begun with the rows that a cache on the GPU does not have. A kernel continues them.
    Begun(RowsOnHost<'d>, Box<RefCell<SumBeginner>>),
    /// Rows of a hop set's tables, of all splits or of those that are not on the GPU.
    Hops(Box<RefCell<HopSource<'d>>>, Hops<'d>),
    /// Rows of a hop set that cuFile reads from its files.
    Direct(Box<DirectHops<'d>>),
    /// Rows that a cache on the GPU does not have, brought by the source, which counts hits and reads.
    Spliced,
}

/// Rows, or own rows and sums, that are made on the host.
pub(super) struct RowsOnHost<'d> {
    /// Borrowed by the closure that a fill calls once.
    pub rows: Box<RefCell<HostRows<'d>>>,
    pub threads: usize,
}

impl HostWork<'_> {
    /// Whether it makes the content of a slot's [`feature_ranges`].
    pub fn makes_ranges(&self) -> bool {
        matches!(self, Self::Rows(_) | Self::Hops(..))
    }

    /// Makes the rows of the batch of this header in the parts of [`feature_ranges`]. `from` is its batch slot's
    /// payload. Returns the number of cache hits and the disk reads.
    pub fn make(
        &self,
        layout: &BatchLayout,
        header: &BatchHeader,
        from: &[u8],
        parts: &mut [&mut [u8]],
    ) -> Result<(u64, DiskCounts), GatherError> {
        match self {
            Self::Rows(on_host) => {
                let mut rows = on_host.rows.borrow_mut();
                let read = rows.fill_columns(layout, header, on_host.threads, from, parts)?;
                Ok((read.hits(), DiskCounts::of(&read)))
            }
            Self::Hops(rows, hops) => {
                let read = rows.borrow_mut().gather(&hop_runs(*hops, layout, header, from), parts)?;
                Ok((0, DiskCounts::of_runs(read, header.nodes())))
            }
            Self::None | Self::Begun(..) | Self::Direct(_) | Self::Spliced => Ok((0, DiskCounts::default())),
        }
    }
}

/// The feature rows of edges: gathered by the CPU, and sent to the slot with the batch's arrays.
pub(super) struct EdgesOnHost {
    pub source: EdgeRowSource,
    /// Rows of each column of the current batch.
    pub rows: Vec<(ColumnKey, Vec<u8>)>,
    pub threads: usize,
}

impl EdgesOnHost {
    /// Gathers the rows of each column.
    pub fn gather(
        &mut self,
        layout: &BatchLayout,
        header: &BatchHeader,
        from: &[u8],
    ) -> Result<(), RuntimeError> {
        if self.rows.is_empty() {
            let columns = EdgeRowSource::columns(layout, header);
            self.rows.extend(columns.map(|(column, _)| (column, Vec::new())));
        }
        let columns = EdgeRowSource::columns(layout, header);
        for ((column, range), (_, out)) in columns.zip(&mut self.rows) {
            out.resize(range.len(), 0);
            let place = HostPlace { out, threads: self.threads };
            self.source.fill(layout, header, column, from, place)?;
        }
        Ok(())
    }

    pub fn of_column(&self, column: ColumnKey) -> &[u8] {
        self.rows.iter().find(|(key, _)| *key == column).map_or(&[], |(_, rows)| rows)
    }
}

/// The places in a slot of the ids and rows of each node type with features, for the batch of this header.
pub(super) fn table_places(layout: &BatchLayout, header: &BatchHeader) -> Vec<TablePlace> {
    let types = layout.metagraph().types().filter(|of| layout.rows_of(*of).is_some());
    let place = |of: NodeType| TablePlace {
        ids_at: layout.packed_range(header, Column::InputNodes.of(of)).start,
        count: header.of_type(of).nodes,
        rows_at: layout.packed_range(header, Column::X.of(of)).start,
    };
    types.map(place).collect()
}

/// The bytes of a slot for the rows, or their replacements, of the batch of this header: a range for each of the
/// layout's feature columns.
pub(super) fn feature_ranges(layout: &BatchLayout, header: &BatchHeader) -> Vec<Range<usize>> {
    layout.feature_columns().iter().map(|column| layout.packed_range(header, *column)).collect()
}

/// The runs of a hop set's rows that the batch of this header has. `from` is its batch slot's payload.
pub(super) fn hop_runs(
    hops: Hops<'_>,
    layout: &BatchLayout,
    header: &BatchHeader,
    from: &[u8],
) -> Vec<Range<usize>> {
    let places = bytemuck::cast_slice(&from[layout.range(header, Column::InputId)]);
    runs_at(places, hops.rows_of(header.key().split).start)
}

/// The places of the outermost layer's lists and of its sums in a slot, for the batch of this header; `None` if rows
/// are not summed.
pub(super) fn slot_sums(layout: &BatchLayout, header: &BatchHeader) -> Option<SlotSums> {
    let by_degrees = match layout.aggregation() {
        // No kernel makes the last two: `Backend::check_features` has rejected them.
        Aggregation::None | Aggregation::Sum | Aggregation::Max => return None,
        Aggregation::Mean => false,
        Aggregation::Degrees => true,
    };
    let outermost = layout.layers() - 1;
    let counts = header.outermost();
    let at = |column: Column| {
        layout.place(column.at(outermost))?;
        Some(layout.packed_range(header, column.at(outermost)).start)
    };
    Some(SlotSums {
        destinations: counts.destinations,
        edges: counts.edges,
        indptr_at: at(Column::Indptr)?,
        indices_at: at(Column::Indices)?,
        weights_at: at(Column::Weights),
        degrees_at: at(Column::Degrees).filter(|_| by_degrees),
        sums_at: at(Column::Aggregated)?,
        own: layout.aggregation().keeps_own_rows(),
    })
}
