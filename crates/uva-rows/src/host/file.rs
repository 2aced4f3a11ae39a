//! A table on disk.

use std::fmt;
use std::mem;

use uva_disk::RowFile;
use uva_ops::rows::{NarrowFloat, TableRows};

use super::caches::RowCache;
use super::mover::Mover;
use super::place::{HostPlace, HostTable, SumPlace};
use crate::error::GatherError;
use crate::source::{RowOrigin, RowSource, RowsRead, Ticket};
use crate::stack::{Cached, SummedValues};

/// A table in a file, whose rows are read for each fill: each page once, in file order.
///
/// Unchanged rows are read directly into their place. Rows that are widened or summed are first read into a buffer,
/// which has one row per id of the fill.
pub struct FileTable {
    file: RowFile,
    mover: Mover,
    /// Rows as stored in the file, in the order of a fill's ids.
    staged: Vec<u8>,
    /// 0, 1, …: the ids of staged rows.
    places: Vec<i64>,
}

impl FileTable {
    /// Creates a source of the rows of this file. `threads` threads widen and sum them (0 counts as 1).
    ///
    /// # Errors
    /// [`GatherError::Threads`] if no thread can be spawned.
    pub fn new(file: RowFile, threads: usize) -> Result<Self, GatherError> {
        let mover = Mover::new(file.shape().row_bytes, threads)?;
        Ok(Self { file, mover, staged: Vec::new(), places: Vec::new() })
    }

    /// Bytes of a row.
    pub(super) fn row_bytes(&self) -> usize {
        self.mover.row_bytes
    }

    /// Checks that all ids are rows.
    pub(super) fn check_ids(&self, ids: &[i64]) -> Result<(), GatherError> {
        self.mover.check(ids, self.file.shape().rows)
    }

    /// The file and its reader.
    pub fn file(&self) -> &RowFile {
        &self.file
    }

    /// Reads rows of checked ids into their places among the rows of `out`.
    pub(super) fn read(
        &mut self,
        wanted: impl Iterator<Item = (usize, i64)>,
        out: &mut [u8],
    ) -> Result<RowsRead, GatherError> {
        let row_bytes = self.mover.row_bytes;
        let mut rows = 0;
        let wanted = wanted.inspect(|_| rows += 1).map(|(place, id)| (place, id as u64));
        let reads = self.file.read(wanted, |place, row| {
            out[place * row_bytes..][..row_bytes].copy_from_slice(row);
        })?;
        Ok(RowsRead::of(RowOrigin::Disk, rows, row_bytes).with_disk(reads))
    }
}

impl fmt::Debug for FileTable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "File({:?}, {})", self.file.shape(), self.file.reader())
    }
}

impl Cached<FileTable, RowCache> {
    /// Reads cached rows from `cache`, and the others from disk.
    ///
    /// # Errors
    /// [`GatherError::OtherTable`] for a cache of another number of rows, or of rows of another size.
    pub fn on_disk(source: FileTable, cache: impl Into<RowCache>) -> Result<Self, GatherError> {
        let cache = cache.into();
        cache.check_table(source.file.shape().rows, source.mover.row_bytes)?;
        Ok(Self { source, cache })
    }
}

/// A source that fetches rows as stored in the table.
pub(super) trait Fetch {
    /// Fetches the rows of checked ids into `out`, which has exactly their size.
    fn fetch(&mut self, ids: &[i64], out: &mut [u8]) -> Result<RowsRead, GatherError>;

    /// As [`RowSource::expect`].
    fn expect(&mut self, _coming: &[&[i64]]) {}

    fn disk(&self) -> &FileTable;

    fn disk_mut(&mut self) -> &mut FileTable;
}

impl Fetch for FileTable {
    fn fetch(&mut self, ids: &[i64], out: &mut [u8]) -> Result<RowsRead, GatherError> {
        self.read(ids.iter().copied().enumerate(), out)
    }

    fn disk(&self) -> &FileTable {
        self
    }

    fn disk_mut(&mut self) -> &mut FileTable {
        self
    }
}

impl Fetch for Cached<FileTable, RowCache> {
    fn fetch(&mut self, ids: &[i64], out: &mut [u8]) -> Result<RowsRead, GatherError> {
        let Self { source, cache } = self;
        let row_bytes = source.mover.row_bytes;
        let (map, rows) = cache.view();
        let mut hits = 0;
        for (place, &id) in ids.iter().enumerate() {
            if let Ok(slot) = usize::try_from(map[id as usize]) {
                out[place * row_bytes..][..row_bytes].copy_from_slice(&rows[slot * row_bytes..][..row_bytes]);
                hits += 1;
            }
        }
        let misses = ids.iter().copied().enumerate().filter(|&(_, id)| map[id as usize] < 0);
        let read = source.read(misses, out)?;
        if let RowCache::Evicting(cache) = cache {
            let row = |place: usize| &out[place * row_bytes..][..row_bytes];
            cache.insert_misses(ids, row, source.mover.pool());
        }
        Ok(read.and(RowsRead::of(RowOrigin::HostCache, hits, row_bytes)))
    }

    fn disk(&self) -> &FileTable {
        &self.source
    }

    fn disk_mut(&mut self) -> &mut FileTable {
        &mut self.source
    }
}

/// Fetches the rows into a buffer, and lets the mover read them from there, as the rows 0, 1, ….
fn staged<S: Fetch>(
    source: &mut S,
    ids: &[i64],
    moved: impl FnOnce(&Mover, TableRows<'_>, &[i64]) -> Result<u64, GatherError>,
) -> Result<RowsRead, GatherError> {
    let file = source.disk_mut();
    file.check_ids(ids)?;
    let row_bytes = file.mover.row_bytes;
    let (mut rows, mut places) = (mem::take(&mut file.staged), mem::take(&mut file.places));
    rows.resize(ids.len() * row_bytes, 0);
    places.truncate(ids.len());
    places.extend(places.len() as i64..ids.len() as i64);
    let read = source.fetch(ids, &mut rows);
    let file = source.disk_mut();
    let moved = read.and_then(|read| {
        moved(&file.mover, TableRows { table: &rows, row_bytes }, &places)?;
        Ok(read)
    });
    (file.staged, file.places) = (rows, places);
    moved
}

impl<S: Fetch> HostTable for S {
    fn table_row_bytes(&self) -> usize {
        self.disk().mover.row_bytes
    }

    fn pool(&self) -> Option<&rayon::ThreadPool> {
        self.disk().mover.pool()
    }

    fn copy_to(
        &mut self,
        ids: &[i64],
        mut place: HostPlace<'_>,
        widened: Option<NarrowFloat>,
    ) -> Result<RowsRead, GatherError> {
        if widened.is_some() {
            return staged(self, ids, |mover, rows, places| {
                // SAFETY: `rows` are as many rows as there are places.
                unsafe { mover.copy(rows, places.len(), widened, places, &mut place) }
            });
        }
        let (row_bytes, length) = (self.table_row_bytes(), place.out.len());
        if ids.len().checked_mul(row_bytes) != Some(length) {
            return Err(GatherError::OutputLength { ids: ids.len(), row_bytes, length });
        }
        self.disk().check_ids(ids)?;
        self.fetch(ids, place.out)
    }

    fn sum_to(
        &mut self,
        ids: &[i64],
        place: SumPlace<'_>,
        values: SummedValues,
    ) -> Result<RowsRead, GatherError> {
        staged(self, ids, |mover, rows, places| {
            // SAFETY: `rows` are as many rows as there are places.
            unsafe { mover.sum(rows, places.len(), values, places, place) }
        })
    }
}

/// A macro instead of a blanket implementation, which would also cover boxes.
macro_rules! row_source {
    ($source:ty) => {
        impl RowSource<HostPlace<'_>> for $source {
            fn rows(&self) -> usize {
                self.disk().file().shape().rows
            }

            fn row_bytes(&self) -> usize {
                self.table_row_bytes()
            }

            fn check(&self, ids: &[i64]) -> Result<(), GatherError> {
                self.disk().check_ids(ids)
            }

            fn expect(&mut self, coming: &[&[i64]]) {
                Fetch::expect(self, coming);
            }

            fn submit(&mut self, ids: &[i64], place: HostPlace<'_>) -> Result<Ticket, GatherError> {
                Ok(Ticket::of(0, self.copy_to(ids, place, None)?))
            }

            fn wait(&mut self, ticket: Ticket) -> Result<RowsRead, GatherError> {
                Ok(ticket.read)
            }
        }
    };
}

pub(super) use row_source;

row_source!(FileTable);
row_source!(Cached<FileTable, RowCache>);
