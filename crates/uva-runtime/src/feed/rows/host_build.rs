//! Construction of the sources of rows on the CPU from a tree.

use std::sync::Arc;

use uva_batch::BatchLayout;
use uva_cuda::memory::TableBytes;
use uva_exchange::Book;
use uva_graph::{Dataset, NodeType, TableSchema};
use uva_rows::{
    Cached, CachedRows, CopiedTable, EvictingRows, FileTable, LookAheadTable, MappedTable, RowCache,
    SumSource, SummedValues, SummingSource, TableSource, WideningSource,
};
use uva_rows::{HostSource, Remote};

use super::host::{HostRows, failed};
use super::tree::{RowCacheKind, RowTree};
use crate::RuntimeError;
use crate::backend::obstacle::{check_sums, obstacle_in_table};
use crate::backend::widening::narrow_float;
use crate::feed::ranks::RankExchanges;
use crate::options::reader::{DiskReader, row_file};

/// The parts from which the sources of a tree are built.
pub(crate) struct HostParts<'d, 's> {
    pub dataset: &'d Dataset,
    /// The node type whose rows are read.
    pub node_type: NodeType,
    /// Threads that copy or sum.
    pub threads: usize,
    /// The rows that a cache of chosen rows holds.
    pub chosen: ChosenRows<'s>,
    /// The copy of the table, for trees that read one; otherwise they read the mapped file.
    pub copied: Option<Arc<dyn TableBytes>>,
    /// The other ranks, if rows are divided among ranks.
    pub ranks: Option<&'s RankExchanges>,
}

/// The rows of a cache whose content does not change.
#[derive(Clone)]
pub(crate) enum ChosenRows<'s> {
    /// There is no such cache.
    None,
    /// Rows with these ids, to be copied.
    Ids(&'s [i64]),
    /// Rows that are already copied, for several threads.
    Copied(Arc<CachedRows>),
}

impl<'s> ChosenRows<'s> {
    /// The ids of rows to copy.
    pub fn ids(&self) -> &'s [i64] {
        match self {
            Self::Ids(ids) => ids,
            Self::None | Self::Copied(_) => &[],
        }
    }
}

impl<'d, 's> HostParts<'d, 's> {
    /// Creates the parts for rows of the first node type, without a cache and without other ranks.
    pub fn new(dataset: &'d Dataset, threads: usize) -> Self {
        let node_type = NodeType::ONLY;
        Self { dataset, node_type, threads, chosen: ChosenRows::None, copied: None, ranks: None }
    }

    /// The parts for rows of another type of several.
    fn of_type(&self, node_type: NodeType) -> Self {
        Self { node_type, ..Self::new(self.dataset, self.threads) }
    }

    /// Shape and type of the rows.
    fn table(&self) -> Result<TableSchema, RuntimeError> {
        self.dataset.table_of(self.node_type).ok_or_else(|| self.without_rows())
    }

    /// The error for a type whose rows are gone.
    fn without_rows(&self) -> RuntimeError {
        RuntimeError::failed(format!("node type {}: its feature rows are gone", self.node_type.index()))
    }

    /// Copies the table into memory if this tree reads a copy. Without memory for it, rows are read from the mapped
    /// file, and a warning says so.
    pub fn copying(self, tree: &RowTree) -> Self {
        if !tree.any(&|tree| *tree == RowTree::Copied) {
            return self;
        }
        let copied = CopiedTable::new(self.dataset.features().bytes, self.threads);
        let copied = match copied {
            Ok(copied) => {
                tracing::info!(huge_share = copied.huge_share(), "the feature table is copied");
                Some(Arc::new(copied) as Arc<dyn TableBytes>)
            }
            Err(error) => {
                tracing::warn!(%error, "rows are read from the mapped file");
                None
            }
        };
        Self { copied, ..self }
    }

    /// Adds a cache of the rows with these ids, if the run has one.
    pub fn with_chosen(self, ids: Option<&'s [i64]>) -> Self {
        let chosen = ids.map_or(ChosenRows::None, ChosenRows::Ids);
        Self { chosen, ..self }
    }
}

impl RowTree {
    /// The error for a tree that is built where it is not valid, which is a bug of the program.
    pub(crate) fn is_not(&self, what: &str) -> RuntimeError {
        RuntimeError::failed(format!("rows ({self}) are not {what}: this is a bug, please report it"))
    }

    /// The source of this tree's rows, in the form of a slot of this layout.
    ///
    /// # Errors
    /// Files that cannot be opened, threads that cannot be started, a table of integers if rows are summed.
    pub(crate) fn on_host<'d>(
        &self,
        layout: &BatchLayout,
        parts: &HostParts<'d, '_>,
    ) -> Result<HostRows<'d>, RuntimeError> {
        match self {
            Self::Summed(of) => of.summed(layout, parts).map(HostRows::Summed),
            Self::Types(types) => {
                let source = |(of, tree): &(NodeType, Self)| Ok((*of, tree.gathered(&parts.of_type(*of))?));
                types.iter().map(source).collect::<Result<_, _>>().map(HostRows::OfTypes)
            }
            _ => self.gathered(parts).map(HostRows::Gathered),
        }
    }

    /// The source of this tree's rows, one for each node.
    ///
    /// # Errors
    /// As [`on_host`](Self::on_host).
    pub(crate) fn gathered<'d>(
        &self,
        parts: &HostParts<'d, '_>,
    ) -> Result<Box<dyn HostSource + 'd>, RuntimeError> {
        let Self::Widened(of) = self else { return Ok(Box::new(self.table(parts)?)) };
        match narrow_float(Some(parts.table()?.element)) {
            Some(narrow) => Ok(Box::new(WideningSource::new(of.table(parts)?, narrow).map_err(failed)?)),
            None => of.gathered(parts),
        }
    }

    /// The source of the sums of this tree's rows.
    fn summed<'d>(
        &self,
        layout: &BatchLayout,
        parts: &HostParts<'d, '_>,
    ) -> Result<Box<dyn SumSource + 'd>, RuntimeError> {
        let element = parts.table()?.element;
        check_sums(layout.aggregation(), obstacle_in_table(element))?;
        let values = SummedValues {
            narrow: narrow_float(Some(element)),
            widened_own: layout.widened_from().is_some(),
        };
        Ok(Box::new(SummingSource::new(self.table(parts)?, values).map_err(failed)?))
    }

    /// The table whose rows the CPU writes unchanged, widened or summed.
    fn table<'d>(&self, parts: &HostParts<'d, '_>) -> Result<Box<dyn TableSource + 'd>, RuntimeError> {
        Ok(match self {
            Self::Mapped | Self::Copied => Box::new(self.in_memory(parts)?),
            Self::File(reader) => Box::new(file(parts, *reader)?),
            Self::Remote => Box::new(remote(parts)?),
            Self::Cached(kind, of) => {
                let cache = of.row_cache(*kind, parts)?;
                match **of {
                    Self::Mapped | Self::Copied => {
                        Box::new(Cached::in_memory(of.in_memory(parts)?, cache).map_err(failed)?)
                    }
                    Self::File(reader) => {
                        Box::new(Cached::on_disk(file(parts, reader)?, cache).map_err(failed)?)
                    }
                    _ => return Err(self.is_not("cached in host memory")),
                }
            }
            // Without memory for rows, none are read ahead either.
            Self::LookAhead { rows: 0, of, .. } => Box::new(of.table(parts)?),
            Self::LookAhead { rows, reads_ahead, of } => {
                let (chosen, stored) = match &**of {
                    Self::Cached(RowCacheKind::Chosen, stored) => (stored.chosen(parts)?, &**stored),
                    stored => (None, stored),
                };
                let Self::File(reader) = stored else { return Err(self.is_not("read ahead")) };
                let file = file(parts, *reader)?;
                let ahead = if *reads_ahead {
                    Some(row_file(parts.dataset, parts.node_type, *reader)?)
                } else {
                    None
                };
                tracing::info!(rows, ahead = ahead.is_some(), "rows of the file are kept in memory");
                Box::new(LookAheadTable::new(file, ahead, chosen, *rows).map_err(failed)?)
            }
            _ => return Err(self.is_not("brought by the CPU")),
        })
    }

    /// A table in memory: the mapped file, or the copy.
    fn in_memory<'d>(&self, parts: &HostParts<'d, '_>) -> Result<MappedTable<'d>, RuntimeError> {
        let table = parts.dataset.rows(parts.node_type).ok_or_else(|| parts.without_rows())?;
        let rows = match &parts.copied {
            Some(copied) if *self == Self::Copied => {
                MappedTable::owned(Arc::clone(copied), table.row_bytes(), parts.threads)
            }
            _ => MappedTable::new(table.bytes, table.row_bytes(), parts.threads),
        };
        rows.map_err(failed)
    }

    /// A cache before this tree.
    fn row_cache(&self, kind: RowCacheKind, parts: &HostParts<'_, '_>) -> Result<RowCache, RuntimeError> {
        Ok(match kind {
            RowCacheKind::Chosen => {
                let rows = self.chosen(parts)?;
                rows.ok_or_else(|| self.is_not("chosen for the cache in front of them"))?.into()
            }
            RowCacheKind::Evicting { policy, rows } => {
                let (nodes, row_bytes) =
                    (parts.dataset.nodes_of(parts.node_type), parts.table()?.row_bytes());
                EvictingRows::new(policy, nodes, row_bytes, rows).map_err(failed)?.into()
            }
        })
    }

    /// Copies of the chosen rows of this tree; `None` without such rows.
    fn chosen(&self, parts: &HostParts<'_, '_>) -> Result<Option<Arc<CachedRows>>, RuntimeError> {
        match &parts.chosen {
            ChosenRows::None => Ok(None),
            ChosenRows::Ids(ids) => self.copies_of(parts, ids).map(|rows| Some(Arc::new(rows))),
            ChosenRows::Copied(rows) => Ok(Some(Arc::clone(rows))),
        }
    }

    /// Copies the rows with these ids, in the fastest reading order of this tree.
    ///
    /// From memory they keep their order, so that the first rows, which batches read most, are adjacent. From disk they
    /// are in the order of the file, so that a fill is one pass over it. For a third of 4 M rows of 1 KiB, chosen at
    /// random, that took 3.2 s in place of 6.4 s on a virtual disk.
    ///
    /// # Errors
    /// As [`on_host`](Self::on_host).
    pub(crate) fn copies_of(
        &self,
        parts: &HostParts<'_, '_>,
        ids: &[i64],
    ) -> Result<CachedRows, RuntimeError> {
        let ids = self.in_reading_order(ids);
        CachedRows::read(&mut self.clone().in_place().table(parts)?, &ids).map_err(failed)
    }

    /// These ids in the fastest reading order of this tree, which is sorted if it reads a file.
    pub(crate) fn in_reading_order(&self, ids: &[i64]) -> Vec<i64> {
        let mut ids = ids.to_vec();
        if self.reads_disk() {
            ids.sort_unstable();
        }
        ids
    }
}

fn file(parts: &HostParts<'_, '_>, reader: DiskReader) -> Result<FileTable, RuntimeError> {
    let file = row_file(parts.dataset, parts.node_type, reader)?;
    tracing::info!(node_type = parts.node_type.index(), reader = %file.reader(), how = file.how(), "rows are read from disk");
    FileTable::new(file, parts.threads).map_err(failed)
}

fn remote<'d>(parts: &HostParts<'d, '_>) -> Result<Remote<'d>, RuntimeError> {
    let (Some(own), Some(ranks)) = (parts.dataset.own_rows(), parts.ranks) else {
        return Err(RowTree::Remote.is_not("divided among ranks here"));
    };
    let table = own.table();
    let book = Book::new(own.boundaries()).map_err(|error| RuntimeError::failed(error.to_string()))?;
    let rows = MappedTable::new(table.bytes, table.row_bytes(), parts.threads).map_err(failed)?;
    let mut rows = Remote::new(rows, book, ranks.rows().take()?).map_err(failed)?;
    if let Some(ids) = ranks.kept() {
        rows = rows.with_cache(ids).map_err(failed)?;
    }
    Ok(rows.telling(ranks.shared_counts()))
}
