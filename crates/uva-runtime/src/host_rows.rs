//! The feature rows of a batch on the CPU: gathered into its slot, or summed by the outermost layer's lists.

use std::ops::Range;

use uva_batch::{Aggregation, BatchHeader, BatchLayout, Column};
use uva_graph::Dataset;
use uva_mem::FrozenBytes;
use uva_ops::lists::{Lists, Weights, degree_weights};
use uva_rows::{
    Cached, CachedRows, EvictingRows, File, GatherError, HostPlace, HostSource, HostTable, Mapped,
    NarrowFloat, Reduction, RowCache, RowsRead, SumPlace, SumSource, Summed, SummedValues, Widened,
};

use crate::RuntimeError;
use crate::cache::Caches;
use crate::rows_from::{RowsFrom, row_file};
use crate::sums::{check_sums, obstacle_in_table};
use crate::widening::narrow_float;

/// The columns of feature rows.
pub(crate) const FEATURES: [Column; 3] = [Column::X, Column::Aggregated, Column::Argmax];

/// Fills these columns of a slot, from tables in host memory or on disk.
pub(crate) enum HostRows<'d> {
    /// A row a node.
    Gathered(Box<dyn HostSource + 'd>),
    /// Sums, or in some batches a row a node.
    Summed(Box<dyn SumSource + 'd>),
}

impl<'d> HostRows<'d> {
    /// For slots of this layout. It has a cache of the table's rows where the run has one: of the rows with these ids,
    /// or one that evicts.
    pub fn new(
        dataset: &'d Dataset,
        layout: &BatchLayout,
        (threads, from): (usize, RowsFrom),
        caches: &Caches,
        cached_rows: Option<&FrozenBytes>,
    ) -> Result<Self, RuntimeError> {
        let cache = cache_of_run(dataset, (threads, from), caches, cached_rows)?;
        Self::behind(dataset, layout, (threads, from), cache)
    }

    /// For slots of this layout, with this cache.
    pub fn behind(
        dataset: &'d Dataset,
        layout: &BatchLayout,
        (threads, from): (usize, RowsFrom),
        cache: Option<RowCache>,
    ) -> Result<Self, RuntimeError> {
        if layout.aggregation() == Aggregation::None {
            let narrow = narrow_float(layout.widened_from());
            return gathered_on_host(dataset, narrow, (threads, from), cache).map(Self::Gathered);
        }
        let element = dataset.features().element;
        check_sums(layout.aggregation(), obstacle_in_table(element))?;
        let values = SummedValues {
            narrow: narrow_float(Some(element)),
            widened_own: layout.widened_from().is_some(),
        };
        fn summed<'d>(
            rows: impl HostTable + HostSource + 'd,
            values: SummedValues,
        ) -> Result<Box<dyn SumSource + 'd>, GatherError> {
            Ok(Box::new(Summed::new(rows, values)?))
        }
        let summed = match (table(dataset, threads, from)?, cache) {
            (Table::Memory(rows), None) => summed(rows, values),
            (Table::Memory(rows), Some(cache)) => {
                Cached::in_memory(rows, cache).and_then(|rows| summed(rows, values))
            }
            (Table::Disk(rows), None) => summed(*rows, values),
            (Table::Disk(rows), Some(cache)) => {
                Cached::on_disk(*rows, cache).and_then(|rows| summed(rows, values))
            }
        };
        summed.map(Self::Summed).map_err(failed)
    }

    /// Fills the columns of the batch of this header. `from` is the batch slot's payload, `to` the feature slot's from
    /// byte `skipped` on. Returns where the batch's rows came from.
    pub fn fill(
        &mut self,
        layout: &BatchLayout,
        header: &BatchHeader,
        threads: usize,
        from: &[u8],
        (to, skipped): (&mut [u8], usize),
    ) -> Result<RowsRead, RuntimeError> {
        let ranges = FEATURES.map(|column| behind(layout.range(header, column, 0), skipped));
        self.fill_ranges(layout, header, threads, from, (to, ranges))
    }

    /// As [`fill`](Self::fill), to these ranges of `to` for the [`FEATURES`].
    pub fn fill_ranges(
        &mut self,
        layout: &BatchLayout,
        header: &BatchHeader,
        threads: usize,
        from: &[u8],
        (to, [x, sums, argmax]): (&mut [u8], [Range<usize>; 3]),
    ) -> Result<RowsRead, RuntimeError> {
        let (to, argmax) = cut_off(to, argmax);
        let (to, sums) = cut_off(to, sums);
        let (_, x) = cut_off(to, x);
        self.fill_columns(layout, header, threads, from, [x, sums, argmax]).map_err(failed)
    }

    /// As [`fill`](Self::fill), with the bytes that the batch uses of each of the [`FEATURES`], wherever they are.
    pub fn fill_columns(
        &mut self,
        layout: &BatchLayout,
        header: &BatchHeader,
        threads: usize,
        from: &[u8],
        [x, sums, argmax]: [&mut [u8]; 3],
    ) -> Result<RowsRead, GatherError> {
        let nodes: &[i64] = bytemuck::cast_slice(&from[layout.range(header, Column::InputNodes, 0)]);
        match self {
            Self::Gathered(source) => source.fill(nodes, HostPlace { out: x, threads }),
            Self::Summed(source) if layout.aggregation_of(header) == Aggregation::None => {
                source.fill_rows(nodes, HostPlace { out: x, threads })
            }
            Self::Summed(source) => {
                let outermost = layout.layers().len() - 1;
                let column = |column| &from[layout.range(header, column, outermost)];
                let lists = Lists::new(
                    bytemuck::cast_slice(column(Column::Indptr)),
                    bytemuck::cast_slice(column(Column::Indices)),
                    nodes.len(),
                )?;
                let sampled: &[f32] = bytemuck::cast_slice(column(Column::Weights));
                let of_degrees = (layout.aggregation() == Aggregation::Degrees).then(|| {
                    let degrees = bytemuck::cast_slice(column(Column::Degrees));
                    let pool = source.pool().filter(|_| threads > 1);
                    degree_weights(&lists, sampled, degrees, pool)
                });
                let reduction = match (layout.aggregation(), &of_degrees) {
                    (Aggregation::Max, _) => Reduction::Max,
                    (Aggregation::Sum, _) => Reduction::Sum { weights: Weights::One, own: None },
                    (_, Some((weights, own))) => {
                        Reduction::Sum { weights: Weights::Each(weights), own: Some(own) }
                    }
                    // Samplers that weigh no edges leave the column out.
                    (_, None) if sampled.is_empty() => Reduction::Sum { weights: Weights::Mean, own: None },
                    (_, None) => Reduction::Sum { weights: Weights::Each(sampled), own: None },
                };
                // No bytes begin nowhere in particular.
                let argmax = if argmax.is_empty() { &mut [] } else { bytemuck::cast_slice_mut(argmax) };
                let out = bytemuck::cast_slice_mut(sums);
                source.fill(nodes, SumPlace { out, own: x, argmax, lists, reduction, threads })
            }
        }
    }
}

/// What lies before a range, and what lies in it. A column that the batch lacks is empty, wherever it begins. The columns of
/// [`FEATURES`] lie in their order, so each is cut off the bytes before the next.
fn cut_off(to: &mut [u8], range: Range<usize>) -> (&mut [u8], &mut [u8]) {
    if range.is_empty() {
        return (to, &mut []);
    }
    let (before, from) = to.split_at_mut(range.start);
    (before, &mut from[..range.len()])
}

/// The range in the part of a slot's payload that begins at byte `skipped`. A column that batches lack has an empty range
/// at the payload's begin, which stays empty.
pub(crate) fn behind(range: Range<usize>, skipped: usize) -> Range<usize> {
    range.start.saturating_sub(skipped)..range.end.saturating_sub(skipped)
}

/// The source of rows of a table in memory for slots of this layout, with a cache as [`HostRows::new`] makes it.
pub(crate) fn source_on_host<'d>(
    dataset: &'d Dataset,
    layout: &BatchLayout,
    threads: usize,
    caches: &Caches,
    cached_rows: Option<&FrozenBytes>,
) -> Result<Box<dyn HostSource + 'd>, RuntimeError> {
    let by = (threads, RowsFrom::Memory);
    let cache = cache_of_run(dataset, by, caches, cached_rows)?;
    gathered_on_host(dataset, narrow_float(layout.widened_from()), by, cache)
}

/// The table's rows, widened from this type where one is given, by so many threads and through this cache.
pub(crate) fn gathered_on_host<'d>(
    dataset: &'d Dataset,
    narrow: Option<NarrowFloat>,
    (threads, from): (usize, RowsFrom),
    cache: Option<RowCache>,
) -> Result<Box<dyn HostSource + 'd>, RuntimeError> {
    match (table(dataset, threads, from)?, cache) {
        (Table::Memory(rows), None) => as_asked_for(rows, narrow),
        (Table::Memory(rows), Some(cache)) => {
            Cached::in_memory(rows, cache).and_then(|rows| as_asked_for(rows, narrow))
        }
        (Table::Disk(rows), None) => as_asked_for(*rows, narrow),
        (Table::Disk(rows), Some(cache)) => {
            Cached::on_disk(*rows, cache).and_then(|rows| as_asked_for(rows, narrow))
        }
    }
    .map_err(failed)
}

/// A table and who reads it.
enum Table<'d> {
    Memory(Mapped<'d>),
    Disk(Box<File>),
}

fn table(dataset: &Dataset, threads: usize, from: RowsFrom) -> Result<Table<'_>, RuntimeError> {
    let table = dataset.features();
    match from {
        RowsFrom::Memory => Mapped::new(table.bytes, table.row_bytes(), threads).map(Table::Memory),
        RowsFrom::Disk(reader) => {
            let file = row_file(dataset, reader)?;
            tracing::info!(reader = %file.reader(), how = file.how(), "rows are read from disk");
            File::new(file, threads).map(|rows| Table::Disk(Box::new(rows)))
        }
    }
    .map_err(failed)
}

/// A cache of the table's rows, where the run has one.
fn cache_of_run(
    dataset: &Dataset,
    by: (usize, RowsFrom),
    caches: &Caches,
    cached_rows: Option<&FrozenBytes>,
) -> Result<Option<RowCache>, RuntimeError> {
    let table = dataset.features();
    Ok(match (cached_rows, caches.dynamic) {
        (Some(ids), _) => Some(chosen_rows(dataset, by, bytemuck::cast_slice(ids.bytes()))?.into()),
        (None, Some(policy)) => {
            let rows = EvictingRows::new(policy, table.rows, table.row_bytes(), caches.rows);
            Some(rows.map_err(failed)?.into())
        }
        (None, None) => None,
    })
}

/// A copy of the rows with these ids, made by `threads` threads.
pub(crate) fn chosen_rows(
    dataset: &Dataset,
    (threads, from): (usize, RowsFrom),
    ids: &[i64],
) -> Result<CachedRows, RuntimeError> {
    match table(dataset, threads, from)? {
        Table::Memory(mut rows) => CachedRows::read(&mut rows, ids),
        Table::Disk(mut rows) => CachedRows::read(&mut *rows, ids),
    }
    .map_err(failed)
}

/// The rows unchanged, or widened.
fn as_asked_for<'d>(
    rows: impl HostTable + HostSource + 'd,
    narrow: Option<NarrowFloat>,
) -> Result<Box<dyn HostSource + 'd>, GatherError> {
    Ok(match narrow {
        None => Box::new(rows),
        Some(narrow) => Box::new(Widened::new(rows, narrow)?),
    })
}

/// An error of rows or sums as one of the run.
pub(crate) fn failed(error: GatherError) -> RuntimeError {
    match error {
        GatherError::Threads { .. } => RuntimeError::Missing(format!("--gather-threads: {error}")),
        // It names the file.
        GatherError::Disk(error) => RuntimeError::Failed(error.to_string()),
        GatherError::Lists(error) => RuntimeError::Failed(format!("the outermost block of a batch: {error}")),
        _ => RuntimeError::Failed(format!("feat.npy: {error}")),
    }
}
