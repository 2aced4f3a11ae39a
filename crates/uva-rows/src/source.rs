//! The contract of every source of rows.

use std::fmt;

use uva_disk::DiskReads;

/// Where rows are written: host memory ([`HostPlace`](crate::HostPlace)), device memory in the order of a stream
/// ([`DevicePlace`](crate::cuda::DevicePlace)), or a slot ([`SlotPlace`](crate::cuda::SlotPlace)).
pub trait Place {
    /// Failures of the sources that fill such places.
    type Error;
}

/// Fills places with rows of a table, picked by id: row `ids[i]` becomes row `i` of the place, without gaps.
///
/// Ids may repeat and need no order; no ids at all are fine. An id that is no row of the table is an error with the
/// position of the first such id, and the place is not handed out then. A source on the CPU finds it before it reads
/// the table; a kernel finds it during the gather.
///
/// Filling is asynchronous: [`submit`](RowSource::submit) starts it, and the ticket is [waited](RowSource::wait) for. A
/// source on the CPU is done when `submit` returns; one on a GPU has then enqueued its work, and no host thread waits
/// for the GPU. Dispatch is once a batch, never once a row.
///
/// # Sources, and sources around sources
/// | source | reads rows from | fills |
/// |---|---|---|
/// | [`MappedTable`](crate::MappedTable) | a table in host memory, such as a mapped file | host memory |
/// | [`FileTable`](crate::FileTable) | a file, past the page cache where that works | host memory |
/// | [`Remote`](crate::Remote) | its own part of a table, a cache, and other ranks' parts by an exchange | host memory |
/// | [`LookAheadTable`](crate::LookAheadTable) | a file, also before the fill that asks for them, and memory in front of it | host memory |
/// | [`Pinned`](crate::cuda::Pinned) | pinned host memory, by kernels over the link (zero-copy) | device memory |
/// | [`DeviceRows`](crate::cuda::DeviceRows) | a whole table in device memory | device memory |
/// | [`StagingSource<S>`](crate::cuda::StagingSource) | any host source, whose rows a copy engine takes over (DMA) | device memory |
/// | [`Spliced<S>`](crate::cuda::Spliced) | any host source, but for chosen rows that are in device memory | device memory |
/// | [`Cached<S, C>`](crate::Cached) | a cache, static or dynamic, in front of a source | as the source |
/// | [`SplitSource<A, B>`](crate::cuda::SplitSource) | two sources at the same time, a measured share of each batch each | device memory |
/// | [`WideningSource<S>`](crate::WideningSource) | a host source of half-precision rows, which become float32 | host memory |
/// | [`SummingSource<S>`](crate::SummingSource) | a host source, whose rows it adds up by lists | host memory ([`SumPlace`](crate::SumPlace)) |
/// | [`SlotFiller<S>`](crate::cuda::SlotFiller) | a source of device memory, and a batch's arrays | slots |
/// | [`ReadBack<S>`](crate::cuda::ReadBack) | a source of device memory, copied back | host memory |
///
/// To come: `Tables` (one source for each node type), which sends each stretch of ids to its source. A source brings its
/// own [`RowOrigin`].
pub trait RowSource<P: Place> {
    /// Rows of the table: valid ids are `0..rows()`.
    fn rows(&self) -> usize;

    /// Bytes of a row in the place.
    fn row_bytes(&self) -> usize;

    /// Allocates the memory for the given number of concurrent fills of at most the given number of rows each. Sources
    /// of device memory allocate page-locked memory here and never in `submit`, where it could stall the device.
    ///
    /// # Errors
    /// The lack of that memory.
    fn reserve(&mut self, lanes: usize, rows: usize) -> Result<(), P::Error> {
        let _ = (lanes, rows);
        Ok(())
    }

    /// Whether `submit` reads the ids themselves. If not, ids that the place has already need not be given again.
    fn reads_ids(&self) -> bool {
        true
    }

    /// Refuses ids that `submit` would refuse, with nothing started. A source whose kernels check the ids refuses none.
    ///
    /// # Errors
    /// The first id that is no row.
    fn check(&self, ids: &[i64]) -> Result<(), P::Error> {
        let _ = ids;
        Ok(())
    }

    /// Says which rows fills to come will ask for: those after the fills that were said before, in their order. A source
    /// may read them early. It says nothing, and does what it can of it, also with no fill at all. No row is wrong where
    /// other fills come than were said.
    fn expect(&mut self, coming: &[&[i64]]) {
        let _ = coming;
    }

    /// Starts filling `place` with the rows of `ids`.
    ///
    /// # Errors
    /// An id that is no row, a place of another size, or a failure of the machine.
    fn submit(&mut self, ids: &[i64], place: P) -> Result<Ticket, P::Error>;

    /// Blocks until the rows of that fill are in their place, and says where they were read. A
    /// [`DevicePlace`](crate::cuda::DevicePlace) is ordered by its stream, which the caller has waited for by then.
    ///
    /// # Errors
    /// A fill that failed after it was submitted.
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

/// A fill that was submitted, to be waited for at the source that gave it.
#[derive(Clone, Copy, Debug)]
pub struct Ticket {
    /// Which of the concurrent fills.
    pub(crate) lane: usize,
    /// The number of the fill, where a source counts them.
    pub(crate) number: u64,
    /// Where the rows are read, as far as it is known when the fill is submitted.
    pub(crate) read: RowsRead,
}

impl Ticket {
    /// For a fill whose reads are known.
    pub(crate) fn of(lane: usize, read: RowsRead) -> Self {
        Self { lane, number: 0, read }
    }

    /// Where the rows are read, as far as it is known when the fill is submitted. What only a kernel knows is not in it: which
    /// rows hit a cache that it looks up.
    #[must_use]
    pub fn read(&self) -> RowsRead {
        self.read
    }
}

/// Where a row was read.
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
    /// Host memory, where the row lay since an earlier fill from disk.
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
    /// Every origin.
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

/// How many rows a fill read from where.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct RowsRead {
    rows: [u64; RowOrigin::ALL.len()],
    row_bytes: usize,
    disk: DiskReads,
}

impl RowsRead {
    /// `rows` rows of `row_bytes` bytes each, as they lie at their origin.
    pub fn of(origin: RowOrigin, rows: u64, row_bytes: usize) -> Self {
        let mut read = Self { row_bytes, ..Self::default() };
        read.rows[origin as usize] = rows;
        read
    }

    /// The same rows; `hits` of them came from the cache `cache` instead of `from`.
    ///
    /// # Panics
    /// With more hits than rows, in debug builds.
    #[must_use]
    pub fn with_hits(mut self, from: RowOrigin, cache: RowOrigin, hits: u64) -> Self {
        debug_assert!(hits <= self.rows[from as usize], "{hits} hits of {self:?}");
        self.rows[from as usize] -= hits.min(self.rows[from as usize]);
        self.rows[cache as usize] += hits;
        self
    }

    /// These rows and those of another source of the same table.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        for (rows, more) in self.rows.iter_mut().zip(other.rows) {
            *rows += more;
        }
        self.row_bytes = self.row_bytes.max(other.row_bytes);
        self.disk += other.disk;
        self
    }

    /// The same, where these reads ended meanwhile.
    #[must_use]
    pub fn with_disk(mut self, reads: DiskReads) -> Self {
        self.disk = reads;
        self
    }

    /// The reads that ended for them, or ahead, since the fill before.
    pub fn disk(&self) -> DiskReads {
        self.disk
    }

    /// Rows from there.
    pub fn rows(&self, origin: RowOrigin) -> u64 {
        self.rows[origin as usize]
    }

    /// Bytes from there.
    pub fn bytes(&self, origin: RowOrigin) -> u64 {
        self.rows(origin) * self.row_bytes as u64
    }

    /// All rows.
    pub fn total(&self) -> u64 {
        self.rows.iter().sum()
    }

    /// Rows from a cache: the hits. Those that were only kept in front of a disk are not among them.
    pub fn hits(&self) -> u64 {
        self.rows(RowOrigin::HostCache) + self.rows(RowOrigin::DeviceCache)
    }
}

/// The origins that rows came from.
impl fmt::Debug for RowsRead {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut map = formatter.debug_map();
        for origin in RowOrigin::ALL.into_iter().filter(|&origin| self.rows(origin) > 0) {
            map.entry(&origin, &self.rows(origin));
        }
        map.finish()
    }
}
