//! The feature rows of a batch on the CPU: gathered into its slot, or summed by the outermost layer's lists.

use std::ops::Range;
use std::sync::Arc;

use uva_batch::{Aggregation, BatchHeader, BatchLayout, Column};
use uva_cuda::memory::TableBytes;
use uva_graph::{Dataset, NodeType};
use uva_ops::lists::{Lists, Weights, degree_weights};
use uva_rows::{
    BeginPlace, GatherError, HostPlace, HostSource, PartialSums, Reduction, RowsRead, SumBeginner, SumPlace,
    SumSource,
};

use crate::RuntimeError;

/// A source of rows for each node type with features.
pub(crate) type RowsOfTypes<'d> = Vec<(NodeType, Box<dyn HostSource + 'd>)>;

/// A filler of these columns of a slot, from tables in host memory or on disk.
pub(crate) enum HostRows<'d> {
    /// One row per node.
    Gathered(Box<dyn HostSource + 'd>),
    /// One row per node of each type with features.
    OfTypes(RowsOfTypes<'d>),
    /// Sums, or in some batches one row per node.
    Summed(Box<dyn SumSource + 'd>),
}

/// A batch that was sampled before its turn.
pub(crate) struct ComingBatch<'s> {
    pub header: BatchHeader,
    /// The batch slot's payload.
    pub payload: &'s [u8],
}

impl<'s> ComingBatch<'s> {
    /// Its nodes of a type.
    fn nodes(&self, layout: &BatchLayout, node_type: NodeType) -> &'s [i64] {
        bytemuck::cast_slice(&self.payload[layout.range(&self.header, Column::InputNodes.of(node_type))])
    }
}

/// The nodes of a type in each of these batches.
pub(crate) fn nodes_of<'s>(
    layout: &BatchLayout,
    coming: &[ComingBatch<'s>],
    node_type: NodeType,
) -> Vec<&'s [i64]> {
    coming.iter().map(|batch| batch.nodes(layout, node_type)).collect()
}

impl HostRows<'_> {
    /// Sends the other ranks their requested rows without receiving any, for a fill that others make and this rank does
    /// not.
    pub fn serve(&mut self) -> Result<(), RuntimeError> {
        let place = HostPlace::new(&mut []);
        match self {
            Self::Gathered(source) => source.fill(&[], place),
            // No other rank requests rows of a type.
            Self::OfTypes(_) => return Ok(()),
            Self::Summed(source) => source.fill_rows(&[], place),
        }
        .map(drop)
        .map_err(failed)
    }

    /// Announces the batches whose rows later fills will request, see
    /// [`RowSource::expect`](uva_rows::RowSource::expect).
    pub fn expect(&mut self, layout: &BatchLayout, coming: &[ComingBatch<'_>]) {
        match self {
            Self::Gathered(source) => source.expect(&nodes_of(layout, coming, NodeType::ONLY)),
            Self::OfTypes(tables) => {
                for (of, source) in tables {
                    source.expect(&nodes_of(layout, coming, *of));
                }
            }
            Self::Summed(source) => source.expect(&nodes_of(layout, coming, NodeType::ONLY)),
        }
    }

    /// Fills the columns of the batch of this header. `from` is the batch slot's payload, `to` the feature slot's from
    /// byte `skipped` on. Returns the origins of the batch's rows.
    pub fn fill(
        &mut self,
        layout: &BatchLayout,
        header: &BatchHeader,
        threads: usize,
        from: &[u8],
        (to, skipped): (&mut [u8], usize),
    ) -> Result<RowsRead, RuntimeError> {
        let ranges = layout.feature_columns().iter();
        let ranges: Vec<_> = ranges.map(|column| behind(layout.range(header, *column), skipped)).collect();
        self.fill_ranges(layout, header, threads, from, (to, &ranges))
    }

    /// Fills like [`fill`](Self::fill), to these ranges of `to` for the layout's feature columns.
    pub fn fill_ranges(
        &mut self,
        layout: &BatchLayout,
        header: &BatchHeader,
        threads: usize,
        from: &[u8],
        (to, ranges): (&mut [u8], &[Range<usize>]),
    ) -> Result<RowsRead, RuntimeError> {
        let (mut rest, mut columns) = (to, Vec::with_capacity(ranges.len()));
        for range in ranges.iter().rev() {
            let (before, column) = cut_off(rest, range.clone());
            columns.push(column);
            rest = before;
        }
        columns.reverse();
        self.fill_columns(layout, header, threads, from, &mut columns).map_err(failed)
    }

    /// Fills like [`fill`](Self::fill), to the bytes that the batch uses of each of the layout's feature columns, at any
    /// place.
    pub fn fill_columns(
        &mut self,
        layout: &BatchLayout,
        header: &BatchHeader,
        threads: usize,
        from: &[u8],
        columns: &mut [&mut [u8]],
    ) -> Result<RowsRead, GatherError> {
        if let Self::OfTypes(tables) = self {
            return fill_types(tables, layout, header, threads, from, columns);
        }
        let [x, sums, argmax] = columns else { return Ok(RowsRead::default()) };
        let nodes: &[i64] = bytemuck::cast_slice(&from[layout.range(header, Column::InputNodes)]);
        match self {
            Self::Gathered(source) => source.fill(nodes, HostPlace { out: x, threads }),
            Self::OfTypes(_) => unreachable!("rows of several types are filled into their own columns"),
            Self::Summed(source) if layout.aggregation_of(header) == Aggregation::None => {
                source.fill_rows(nodes, HostPlace { out: x, threads })
            }
            Self::Summed(source) => {
                let weighed = WeighedLists::of(layout, header, from, source.pool().filter(|_| threads > 1))?;
                let reduction = match layout.aggregation() {
                    Aggregation::Max => Reduction::Max,
                    _ => {
                        let (weights, own) = weighed.weights();
                        Reduction::Sum { weights, own }
                    }
                };
                // The offset of an empty slice is arbitrary.
                let argmax = if argmax.is_empty() { &mut [][..] } else { bytemuck::cast_slice_mut(argmax) };
                let out = bytemuck::cast_slice_mut(sums);
                let lists = weighed.lists;
                source.fill(nodes, SumPlace { out, own: x, argmax, lists, reduction, threads })
            }
        }
    }

    /// Begins the sums of the batch of this header, in this memory, with `beginner`. Not supported for maxima.
    pub fn begin_sums(
        &mut self,
        layout: &BatchLayout,
        header: &BatchHeader,
        threads: usize,
        from: &[u8],
        (beginner, room): (&mut SumBeginner, &mut [u8]),
    ) -> Result<PartialSums, GatherError> {
        let Self::Summed(source) = self else { unreachable!("a run whose rows are gathered begins no sums") };
        let nodes: &[i64] = bytemuck::cast_slice(&from[layout.range(header, Column::InputNodes)]);
        let weighed = WeighedLists::of(layout, header, from, source.pool().filter(|_| threads > 1))?;
        let (weights, own) = weighed.weights();
        let place = BeginPlace { room, lists: weighed.lists, weights, own, threads };
        beginner.begin(&mut **source, nodes, place)
    }
}

/// Fills the rows of each type, in the columns of these types, one after the other.
fn fill_types(
    tables: &mut RowsOfTypes<'_>,
    layout: &BatchLayout,
    header: &BatchHeader,
    threads: usize,
    from: &[u8],
    columns: &mut [&mut [u8]],
) -> Result<RowsRead, GatherError> {
    let mut read = RowsRead::default();
    for ((of, source), out) in tables.iter_mut().zip(columns) {
        let nodes: &[i64] = bytemuck::cast_slice(&from[layout.range(header, Column::InputNodes.of(*of))]);
        read = read.and(source.fill(nodes, HostPlace { out, threads })?);
    }
    Ok(read)
}

/// The outermost layer's lists, with the factors of their rows.
struct WeighedLists<'b> {
    aggregation: Aggregation,
    lists: Lists<'b, i32>,
    /// Weights from the sampler; empty if the sampler does not weight edges, and so omits the column.
    sampled: &'b [f32],
    /// Weights by degree, for the edges and for the lists' own rows.
    of_degrees: Option<(Vec<f32>, Vec<f32>)>,
}

impl<'b> WeighedLists<'b> {
    /// The lists of the batch of this header, whose batch slot's payload is `from`. `pool` shares the work.
    fn of(
        layout: &BatchLayout,
        header: &BatchHeader,
        from: &'b [u8],
        pool: Option<&rayon::ThreadPool>,
    ) -> Result<Self, GatherError> {
        let (aggregation, outermost) = (layout.aggregation(), layout.layers() - 1);
        let column = |column: Column| &from[layout.range(header, column.at(outermost))];
        let lists = Lists::new(
            bytemuck::cast_slice(column(Column::Indptr)),
            bytemuck::cast_slice(column(Column::Indices)),
            header.nodes(),
        )?;
        let sampled: &[f32] = bytemuck::cast_slice(column(Column::Weights));
        let of_degrees = (aggregation == Aggregation::Degrees).then(|| {
            let degrees = bytemuck::cast_slice(column(Column::Degrees));
            degree_weights(&lists, sampled, degrees, pool)
        });
        Ok(Self { aggregation, lists, sampled, of_degrees })
    }

    /// The weights of the edges, and of own rows if they are in the sums.
    fn weights(&self) -> (Weights<'_, f32>, Option<&[f32]>) {
        match (self.aggregation, &self.of_degrees) {
            (Aggregation::Sum, _) => (Weights::One, None),
            (_, Some((weights, own))) => (Weights::Each(weights), Some(own)),
            (_, None) if self.sampled.is_empty() => (Weights::Mean, None),
            (_, None) => (Weights::Each(self.sampled), None),
        }
    }
}

/// Cuts off the bytes before a range, and those in it. A column that the batch lacks is empty, at any offset. The
/// feature columns are in order, so each is cut off the bytes before the next.
fn cut_off(to: &mut [u8], range: Range<usize>) -> (&mut [u8], &mut [u8]) {
    if range.is_empty() {
        return (to, &mut []);
    }
    let (before, from) = to.split_at_mut(range.start);
    (before, &mut from[..range.len()])
}

/// Translates a range to the part of a slot's payload that begins at byte `skipped`. A column that batches lack has an
/// empty range at the payload's start, which stays empty.
pub(crate) fn behind(range: Range<usize>, skipped: usize) -> Range<usize> {
    range.start.saturating_sub(skipped)..range.end.saturating_sub(skipped)
}

/// The bytes of a node type's feature table, while the dataset is mapped.
pub(crate) struct FeatureBytes(pub(crate) Arc<Dataset>, pub(crate) NodeType);

impl TableBytes for FeatureBytes {
    fn bytes(&self) -> &[u8] {
        self.0.rows(self.1).map_or(&[], |table| table.bytes)
    }
}

/// Converts an error of rows or sums to one of the run.
pub(crate) fn failed(error: GatherError) -> RuntimeError {
    match error {
        GatherError::Threads { .. } => {
            RuntimeError::missing(error.to_string()).with_option_of("gather_threads")
        }
        // It names the file.
        GatherError::Disk(error) => RuntimeError::failed(error.to_string()),
        GatherError::Exchange(error) => error.into(),
        GatherError::Lists(error) => RuntimeError::failed(format!("the outermost block of a batch: {error}")),
        _ => RuntimeError::failed(format!("feat.npy: {error}")),
    }
}
