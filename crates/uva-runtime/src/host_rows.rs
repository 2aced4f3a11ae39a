//! The feature rows of a batch on the CPU: gathered into its slot, or summed by the outermost layer's lists.

use std::ops::Range;
use std::sync::Arc;

use uva_batch::{Aggregation, BatchHeader, BatchLayout, Column};
use uva_cuda::memory::TableBytes;
use uva_exchange::Book;
use uva_graph::Dataset;
use uva_mem::FrozenBytes;
use uva_ops::lists::{Lists, Weights, degree_weights};
use uva_rows::{
    BeginPlace, Begun, Cached, CachedRows, EvictingRows, File, GatherError, HostPlace, HostSource, HostTable,
    LookAhead, Mapped, NarrowFloat, Reduction, Remote, RowCache, RowsRead, SumBeginner, SumPlace, SumSource,
    Summed, SummedValues, Widened,
};

use crate::RuntimeError;
use crate::cache::Caches;
use crate::ranks::Ranks;
use crate::rows_from::{KeptRows, Reader, RowsFrom, row_file};
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
        if let RowsFrom::DiskAhead(reader, kept) = from {
            let rows = kept_before_disk(dataset, (threads, reader), kept, cached_rows)?;
            return Self::over(rows, dataset, layout);
        }
        let cache = cache_of_run(dataset, (threads, from), caches, cached_rows)?;
        Self::behind(dataset, layout, (threads, from), cache)
    }

    /// For slots of this layout, over rows of which this process has a part, and the others come from other
    /// ranks.
    pub fn divided(
        dataset: &'d Dataset,
        layout: &BatchLayout,
        threads: usize,
        ranks: &Ranks,
    ) -> Result<Self, RuntimeError> {
        let own = dataset.own_rows().ok_or_else(|| {
            RuntimeError::Failed("the dataset has all rows: there is no exchange".to_owned())
        })?;
        let table = own.table();
        let book = Book::new(own.boundaries()).map_err(|error| RuntimeError::Failed(error.to_string()))?;
        let rows = Mapped::new(table.bytes, table.row_bytes(), threads).map_err(failed)?;
        let mut rows = Remote::new(rows, book, ranks.rows().take()?).map_err(failed)?;
        if let Some(ids) = ranks.kept() {
            rows = rows.with_cache(ids).map_err(failed)?;
        }
        Self::over(rows.telling(ranks.shared_counts()), dataset, layout)
    }

    /// Gives the other ranks the rows that they want, and gets none: for a fill that others make and this rank does not.
    pub fn serve(&mut self) -> Result<(), RuntimeError> {
        let place = HostPlace::new(&mut []);
        match self {
            Self::Gathered(source) => source.fill(&[], place),
            Self::Summed(source) => source.fill_rows(&[], place),
        }
        .map(drop)
        .map_err(failed)
    }

    /// For slots of this layout, with this cache.
    pub fn behind(
        dataset: &'d Dataset,
        layout: &BatchLayout,
        (threads, from): (usize, RowsFrom),
        cache: Option<RowCache>,
    ) -> Result<Self, RuntimeError> {
        match (table(dataset, threads, from)?, cache) {
            (Table::Memory(rows), None) => Self::over(rows, dataset, layout),
            (Table::Memory(rows), Some(cache)) => {
                Self::over(Cached::in_memory(rows, cache).map_err(failed)?, dataset, layout)
            }
            (Table::Disk(rows), None) => Self::over(*rows, dataset, layout),
            (Table::Disk(rows), Some(cache)) => {
                Self::over(Cached::on_disk(*rows, cache).map_err(failed)?, dataset, layout)
            }
        }
    }

    /// For slots of this layout, over the rows of the dataset's table.
    fn over(
        rows: impl HostTable + HostSource + 'd,
        dataset: &Dataset,
        layout: &BatchLayout,
    ) -> Result<Self, RuntimeError> {
        if layout.aggregation() == Aggregation::None {
            let narrow = narrow_float(layout.widened_from());
            return as_asked_for(rows, narrow).map(Self::Gathered).map_err(failed);
        }
        let element = dataset.features().element;
        check_sums(layout.aggregation(), obstacle_in_table(element))?;
        let values = SummedValues {
            narrow: narrow_float(Some(element)),
            widened_own: layout.widened_from().is_some(),
        };
        Ok(Self::Summed(Box::new(Summed::new(rows, values).map_err(failed)?)))
    }

    /// Says which nodes' rows the fills to come will ask for, as [`RowSource::expect`](uva_rows::RowSource::expect).
    pub fn expect(&mut self, coming: &[&[i64]]) {
        match self {
            Self::Gathered(source) => source.expect(coming),
            Self::Summed(source) => source.expect(coming),
        }
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
                let weighed = WeighedLists::of(layout, header, from, source.pool().filter(|_| threads > 1))?;
                let reduction = match layout.aggregation() {
                    Aggregation::Max => Reduction::Max,
                    _ => {
                        let (weights, own) = weighed.weights();
                        Reduction::Sum { weights, own }
                    }
                };
                // No bytes begin nowhere in particular.
                let argmax = if argmax.is_empty() { &mut [] } else { bytemuck::cast_slice_mut(argmax) };
                let out = bytemuck::cast_slice_mut(sums);
                let lists = weighed.lists;
                source.fill(nodes, SumPlace { out, own: x, argmax, lists, reduction, threads })
            }
        }
    }

    /// Begins the sums of the batch of this header, in this room, as `beginner` does. It is for sums that are not maxima.
    pub fn begin_sums(
        &mut self,
        layout: &BatchLayout,
        header: &BatchHeader,
        threads: usize,
        from: &[u8],
        (beginner, room): (&mut SumBeginner, &mut [u8]),
    ) -> Result<Begun, GatherError> {
        let Self::Summed(source) = self else { unreachable!("a run whose rows are gathered begins no sums") };
        let nodes: &[i64] = bytemuck::cast_slice(&from[layout.range(header, Column::InputNodes, 0)]);
        let weighed = WeighedLists::of(layout, header, from, source.pool().filter(|_| threads > 1))?;
        let (weights, own) = weighed.weights();
        let place = BeginPlace { room, lists: weighed.lists, weights, own, threads };
        beginner.begin(&mut **source, nodes, place)
    }
}

/// The outermost layer's lists, and what their rows are multiplied by.
struct WeighedLists<'b> {
    aggregation: Aggregation,
    lists: Lists<'b, i32>,
    /// Empty where the sampler weighs no edges: it leaves the column out.
    sampled: &'b [f32],
    /// By degrees: of the edges, and of the lists' own rows.
    of_degrees: Option<(Vec<f32>, Vec<f32>)>,
}

impl<'b> WeighedLists<'b> {
    /// Those of the batch of this header, whose batch slot's payload is `from`. `pool` shares the work.
    fn of(
        layout: &BatchLayout,
        header: &BatchHeader,
        from: &'b [u8],
        pool: Option<&rayon::ThreadPool>,
    ) -> Result<Self, GatherError> {
        let (aggregation, outermost) = (layout.aggregation(), layout.layers().len() - 1);
        let column = |column| &from[layout.range(header, column, outermost)];
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

    /// The weights of the edges, and of own rows where they are in the sums.
    fn weights(&self) -> (Weights<'_, f32>, Option<&[f32]>) {
        match (self.aggregation, &self.of_degrees) {
            (Aggregation::Sum, _) => (Weights::One, None),
            (_, Some((weights, own))) => (Weights::Each(weights), Some(own)),
            (_, None) if self.sampled.is_empty() => (Weights::Mean, None),
            (_, None) => (Weights::Each(self.sampled), None),
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

/// The feature table's bytes, for as long as the dataset is mapped.
pub(crate) struct FeatureBytes(pub(crate) Arc<Dataset>);

impl TableBytes for FeatureBytes {
    fn bytes(&self) -> &[u8] {
        self.0.features().bytes
    }
}

/// The table's rows as they are, by so many threads.
pub(crate) fn owned_source(
    dataset: &Arc<Dataset>,
    (threads, from): (usize, RowsFrom),
) -> Result<Box<dyn HostSource>, RuntimeError> {
    Ok(match from {
        RowsFrom::Memory => {
            let owner = Arc::new(FeatureBytes(Arc::clone(dataset)));
            Box::new(Mapped::owned(owner, dataset.features().row_bytes(), threads).map_err(failed)?)
        }
        RowsFrom::Disk(reader) => Box::new(File::new(row_file(dataset, reader)?, threads).map_err(failed)?),
        RowsFrom::DiskAhead(reader, kept) => {
            Box::new(kept_before_disk(dataset, (threads, reader), kept, None)?)
        }
    })
}

/// A table on disk with the rows of the cache in front of it, and others as batches come.
fn kept_before_disk(
    dataset: &Dataset,
    (threads, reader): (usize, Reader),
    kept: KeptRows,
    cached_rows: Option<&FrozenBytes>,
) -> Result<LookAhead, RuntimeError> {
    let from = RowsFrom::Disk(reader);
    let chosen = |ids: &FrozenBytes| chosen_rows(dataset, (threads, from), bytemuck::cast_slice(ids.bytes()));
    let chosen = cached_rows.map(chosen).transpose()?.map(Arc::new);
    let file = File::new(row_file(dataset, reader)?, threads).map_err(failed)?;
    let ahead = if kept.look_ahead { Some(row_file(dataset, reader)?) } else { None };
    let how = file.file().how();
    tracing::info!(reader = %file.file().reader(), how, rows = kept.rows, ahead = ahead.is_some(), "rows are read from disk");
    LookAhead::new(file, ahead, chosen, kept.rows).map_err(failed)
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
        RowsFrom::Disk(reader) | RowsFrom::DiskAhead(reader, _) => {
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

/// A copy of the rows with these ids, made by `threads` threads. From memory they keep their order, so that the first, which
/// batches read most, lie together. From disk they are in the order of the file: a fill is then one pass over it. For a third
/// of 4 M rows of 1 KiB, chosen at random, that took 3.2 s in place of 6.4 s on a virtual disk.
pub(crate) fn chosen_rows(
    dataset: &Dataset,
    (threads, from): (usize, RowsFrom),
    ids: &[i64],
) -> Result<CachedRows, RuntimeError> {
    match table(dataset, threads, from)? {
        Table::Memory(mut rows) => CachedRows::read(&mut rows, ids),
        Table::Disk(mut rows) => {
            let mut ids = ids.to_vec();
            ids.sort_unstable();
            CachedRows::read(&mut *rows, &ids)
        }
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
        GatherError::Exchange(error) => error.into(),
        GatherError::Lists(error) => RuntimeError::Failed(format!("the outermost block of a batch: {error}")),
        _ => RuntimeError::Failed(format!("feat.npy: {error}")),
    }
}
