//! The contract of every source of rows.

use std::fmt;

use uva_disk::DiskReads;

/// Where rows are written: host memory ([`HostPlace`](crate::HostPlace)), device memory in the order of a stream
/// ([`DevicePlace`](crate::cuda::DevicePlace)), or a slot ([`SlotPlace`](crate::cuda::SlotPlace)).
pub trait Place {
    /// The error type of sources that fill such places.
    type Error;
}

/// A source that fills places with rows of a table, selected by id: row `ids[i]` becomes row `i` of the place, without
/// gaps.
///
/// Ids may repeat, be in any order, or be empty. An id outside of the table is an error with the position of the first
/// such id, and the place is then not usable. A source on the CPU detects it before it reads the table; a kernel
/// detects it during the gather.
///
/// Filling is asynchronous: [`submit`](RowSource::submit) starts it, and the ticket is [waited](RowSource::wait) for. A
/// source on the CPU is done when `submit` returns; one on a GPU has then enqueued its work, and no host thread waits
/// for the GPU. Dispatch is once per batch, never per row.
///
/// # Sources, and sources around sources
/// | source | reads rows from | fills |
/// |---|---|---|
/// | [`MappedTable`](crate::MappedTable) | a table in host memory, such as a mapped file | host memory |
/// | [`FileTable`](crate::FileTable) | a file, bypassing the page cache if supported | host memory |
/// | [`Remote`](crate::Remote) | its own part of a table, a cache, and other ranks' parts by an exchange | host memory |
/// | [`LookAheadTable`](crate::LookAheadTable) | a file, with read-ahead and rows kept in memory | host memory |
/// | [`Pinned`](crate::cuda::Pinned) | pinned host memory, by kernels over the link (zero-copy) | device memory |
/// | [`DeviceRows`](crate::cuda::DeviceRows) | a whole table in device memory | device memory |
/// | [`StagingSource<S>`](crate::cuda::StagingSource) | any host source, whose rows are copied by a copy engine (DMA) | device memory |
/// | [`Spliced<S>`](crate::cuda::Spliced) | any host source, except for chosen rows in device memory | device memory |
/// | [`Cached<S, C>`](crate::Cached) | a cache, static or dynamic, before a source | as the source |
/// | [`SplitSource<A, B>`](crate::cuda::SplitSource) | two concurrent sources, each with a measured share of each batch | device memory |
/// | [`WideningSource<S>`](crate::WideningSource) | a host source of half-precision rows, which become float32 | host memory |
/// | [`SummingSource<S>`](crate::SummingSource) | a host source, whose rows it adds up by lists | host memory ([`SumPlace`](crate::SumPlace)) |
/// | [`SlotFiller<S>`](crate::cuda::SlotFiller) | a source of device memory, and a batch's arrays | slots |
/// | [`ReadBack<S>`](crate::cuda::ReadBack) | a source of device memory, copied back | host memory |
///
/// A source has its own [`RowOrigin`]. Each node type of a typed graph has its own source.
pub trait RowSource<P: Place> {
    /// Rows of the table: valid ids are `0..rows()`.
    fn rows(&self) -> usize;

    /// Bytes of a row in the place.
    fn row_bytes(&self) -> usize;

    /// Allocates the memory for the given number of concurrent fills of at most the given number of rows each. Sources
    /// of device memory allocate page-locked memory here and never in `submit`, where it could stall the device.
    ///
    /// # Errors
    /// If the memory cannot be allocated.
    fn reserve(&mut self, lanes: usize, rows: usize) -> Result<(), P::Error> {
        let _ = (lanes, rows);
        Ok(())
    }

    /// Whether `submit` reads the ids themselves. If not, ids that are already in the place need not be passed.
    fn reads_ids(&self) -> bool {
        true
    }

    /// Checks ids like `submit`, without starting a fill. A source whose kernels check the ids accepts all.
    ///
    /// # Errors
    /// If an id is not a row; the error has the first one.
    fn check(&self, ids: &[i64]) -> Result<(), P::Error> {
        let _ = ids;
        Ok(())
    }

    /// Announces the ids of upcoming fills, in order, after those announced before. A source may read their rows early.
    /// This is a hint, and may be called without any fill. Rows are correct even if other fills follow.
    fn expect(&mut self, coming: &[&[i64]]) {
        let _ = coming;
    }

    /// Starts filling `place` with the rows of `ids`.
    ///
    /// # Errors
    /// If an id is not a row, the place has another size, or the machine fails.
    fn submit(&mut self, ids: &[i64], place: P) -> Result<Ticket, P::Error>;

    /// Blocks until the rows of that fill are in their place, and returns their origins. A
    /// [`DevicePlace`](crate::cuda::DevicePlace) is ordered by its stream, for which the caller must have waited.
    ///
    /// # Errors
    /// If the fill failed after it was submitted.
    fn wait(&mut self, ticket: Ticket) -> Result<RowsRead, P::Error>;

    /// Fills a place and waits for it.
    ///
    /// # Errors
    /// As [`submit`](RowSource::submit) and [`wait`](RowSource::wait).
    fn fill(&mut self, ids: &[i64], place: P) -> Result<RowsRead, P::Error> {
        let ticket = self.submit(ids, place)?;
        self.wait(ticket)
    }
}

impl<P: Place, S: RowSource<P> + ?Sized> RowSource<P> for Box<S> {
    fn rows(&self) -> usize {
        (**self).rows()
    }

    fn row_bytes(&self) -> usize {
        (**self).row_bytes()
    }

    fn reserve(&mut self, lanes: usize, rows: usize) -> Result<(), P::Error> {
        (**self).reserve(lanes, rows)
    }

    fn reads_ids(&self) -> bool {
        (**self).reads_ids()
    }

    fn check(&self, ids: &[i64]) -> Result<(), P::Error> {
        (**self).check(ids)
    }

    fn expect(&mut self, coming: &[&[i64]]) {
        (**self).expect(coming);
    }

    fn submit(&mut self, ids: &[i64], place: P) -> Result<Ticket, P::Error> {
        (**self).submit(ids, place)
    }

    fn wait(&mut self, ticket: Ticket) -> Result<RowsRead, P::Error> {
        (**self).wait(ticket)
    }
}

/// A submitted fill, to be waited for at its source.
#[derive(Clone, Copy, Debug)]
pub struct Ticket {
    /// The index of the concurrent fill.
    pub(crate) lane: usize,
    /// The number of the fill, if the source counts fills.
    pub(crate) number: u64,
    /// The origins of the rows, as far as known at submission.
    pub(crate) read: RowsRead,
}

impl Ticket {
    /// Creates a ticket for a fill whose reads are known.
    pub(crate) fn of(lane: usize, read: RowsRead) -> Self {
        Self { lane, number: 0, read }
    }

    /// The origins of the rows, as far as known at submission. Hits of a cache that a kernel looks up are not included.
    #[must_use]
    pub fn read(&self) -> RowsRead {
        self.read
    }
}

/// The origin of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowOrigin {
    /// A table in host memory, read by the CPU for the CPU.
    HostTable,
    /// A cache in host memory.
    HostCache,
    /// A file, read by the CPU for the CPU.
    Disk,
    /// A file, read ahead: the row's first use.
    ReadAhead,
    /// Host memory, with a row kept from an earlier fill from disk.
    Kept,
    /// Another rank's part of the table, sent by that rank.
    Remote,
    /// A table in pinned host memory, read by kernels over the link.
    ZeroCopy,
    /// Host memory, gathered by the CPU and sent by a copy engine.
    Dma,
    /// A whole table in device memory.
    DeviceTable,
    /// A cache in device memory.
    DeviceCache,
}

impl RowOrigin {
    /// All origins.
    pub const ALL: [Self; 10] = [
        Self::HostTable,
        Self::HostCache,
        Self::Disk,
        Self::ReadAhead,
        Self::Kept,
        Self::Remote,
        Self::ZeroCopy,
        Self::Dma,
        Self::DeviceTable,
        Self::DeviceCache,
    ];
}

/// The numbers of rows that a fill read, and their bytes, by origin.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct RowsRead {
    rows: [u64; RowOrigin::ALL.len()],
    bytes: [u64; RowOrigin::ALL.len()],
    disk: DiskReads,
}

impl RowsRead {
    /// `rows` rows of `row_bytes` bytes each, as stored at their origin.
    pub fn of(origin: RowOrigin, rows: u64, row_bytes: usize) -> Self {
        let mut read = Self::default();
        read.rows[origin as usize] = rows;
        read.bytes[origin as usize] = rows * row_bytes as u64;
        read
    }

    /// The same rows; `hits` of them came from the cache `cache` instead of `from`, whose rows are of one length.
    ///
    /// # Panics
    /// If there are more hits than rows, in debug builds.
    #[must_use]
    pub fn with_hits(mut self, from: RowOrigin, cache: RowOrigin, hits: u64) -> Self {
        let rows = self.rows[from as usize];
        debug_assert!(hits <= rows, "{hits} hits of {self:?}");
        let bytes = self.bytes[from as usize].checked_div(rows).unwrap_or(0) * hits.min(rows);
        self.rows[from as usize] -= hits.min(rows);
        self.rows[cache as usize] += hits;
        self.bytes[from as usize] -= bytes;
        self.bytes[cache as usize] += bytes;
        self
    }

    /// These rows and those of another source, whose rows may have another length.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        let counts = self.rows.iter_mut().chain(&mut self.bytes);
        for (count, more) in counts.zip(other.rows.into_iter().chain(other.bytes)) {
            *count += more;
        }
        self.disk += other.disk;
        self
    }

    /// Adds disk reads that ended in the meantime.
    #[must_use]
    pub fn with_disk(mut self, reads: DiskReads) -> Self {
        self.disk = reads;
        self
    }

    /// The disk reads that ended for these rows, or ahead of them, since the previous fill.
    pub fn disk(&self) -> DiskReads {
        self.disk
    }

    /// The number of rows from this origin.
    pub fn rows(&self, origin: RowOrigin) -> u64 {
        self.rows[origin as usize]
    }

    /// The number of bytes from this origin.
    pub fn bytes(&self, origin: RowOrigin) -> u64 {
        self.bytes[origin as usize]
    }

    /// The number of all rows.
    pub fn total(&self) -> u64 {
        self.rows.iter().sum()
    }

    /// The number of rows from a cache: the hits. Excludes rows that were kept from earlier disk reads.
    pub fn hits(&self) -> u64 {
        self.rows(RowOrigin::HostCache) + self.rows(RowOrigin::DeviceCache)
    }
}

/// Formats the origins with rows.
impl fmt::Debug for RowsRead {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut map = formatter.debug_map();
        for origin in RowOrigin::ALL.into_iter().filter(|&origin| self.rows(origin) > 0) {
            map.entry(&origin, &self.rows(origin));
        }
        map.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_tables_of_several_widths_are_those_of_each() {
        let (from, cache) = (RowOrigin::HostTable, RowOrigin::HostCache);
        let hits = RowsRead::of(from, 5, 100).with_hits(from, cache, 2);
        let read = hits.and(RowsRead::of(from, 10, 8)).and(RowsRead::of(RowOrigin::Dma, 0, 4096));
        assert_eq!((read.rows(from), read.rows(cache), read.total()), (13, 2, 15));
        assert_eq!((read.bytes(from), read.bytes(cache), read.bytes(RowOrigin::Dma)), (380, 200, 0));
        assert_eq!(RowsRead::default().with_hits(from, cache, 0), RowsRead::default());
    }
}
