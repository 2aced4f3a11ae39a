//! A table divided among ranks; rows of other ranks are received by an exchange.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use uva_exchange::{Book, Exchange, ExchangeError, Splits};
use uva_ops::rows::{JoinedTables, NarrowFloat, RowKind};

use super::caches::CachedRows;
use super::mapped_table::MappedTable;
use super::place::{HostPlace, HostTable, SumPlace};
use crate::error::GatherError;
use crate::source::{RowOrigin, RowSource, RowsRead, Ticket};
use crate::stack::SummedValues;

/// One rank's source of a table that is divided among the ranks of a group.
///
/// A row comes from the first of these that has it:
///
/// 1. the cache: rows chosen and copied at the start, usually of other ranks,
/// 2. the rank's own part, a range of the table's rows in memory,
/// 3. the rank that owns it, by an [`Exchange`] of three calls per fill: the numbers of requested rows, their ids, and
///    the rows. The owner gathers them into the memory that is sent.
///
/// All ranks make the same number of fills, and each fill serves the others: **a rank without a batch fills a place for
/// no ids**. A fill rejected for its ids, or for the length of its rows, has not begun, and the others still expect it.
/// Sums are rejected for their lists or their place after the exchange, so they count as a fill. Any other error
/// cancels the exchange, so that no rank waits for this one.
///
/// Not supported with [`StagingSource`](crate::cuda::StagingSource) or other wrappers that divide a batch: these make
/// one fill per piece, and none for an empty batch.
pub struct Remote<'t> {
    own: MappedTable<'t>,
    /// The rows of this rank's part.
    range: Range<i64>,
    book: Book,
    exchange: Box<dyn Exchange>,
    cache: Option<CachedRows>,
    counts: RemoteCounts,
    /// A copy of the counts after each fill, for another thread.
    told: Option<Arc<Mutex<RemoteCounts>>>,
    fill: Fill,
}

/// Statistics of a [`Remote`] since its cache was filled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemoteCounts {
    /// Rows from the own part.
    pub local_rows: u64,
    /// Rows from the cache.
    pub cached_rows: u64,
    /// Rows from other ranks.
    pub remote_rows: u64,
    /// Rows that this rank sent to others.
    pub given_rows: u64,
    /// Bytes to other ranks: counts, ids and rows.
    pub sent_bytes: u64,
    /// Bytes from other ranks.
    pub received_bytes: u64,
    /// Time in the first call of a fill, until all ranks had begun it.
    pub met: Duration,
    /// Time in the other calls of the exchange, which transfer ids and rows.
    pub passed: Duration,
}

impl RemoteCounts {
    /// Total time in calls of the exchange.
    #[must_use]
    pub fn waited(&self) -> Duration {
        self.met + self.passed
    }
}

/// Memory of a fill, reused for the next.
#[derive(Default)]
struct Fill {
    /// For each id, the index of its row in the concatenation of the own part, the cache and the received rows.
    numbers: Vec<i64>,
    /// The positions of the ids that other ranks own, and their owners.
    missing: Vec<(usize, usize)>,
    /// The ids requested from other ranks, by owner.
    wanted: Vec<i64>,
    /// The rows that other ranks request, by rank, as indices in the own part.
    asked: Vec<i64>,
}

impl<'t> Remote<'t> {
    /// Creates a source of the table that `book` divides among the ranks of `exchange`; `own` is this rank's part.
    ///
    /// # Errors
    /// [`GatherError::Parts`] unless there is one part per rank; [`GatherError::PartRows`] unless `own` has the number
    /// of rows in the book.
    pub fn new(own: MappedTable<'t>, book: Book, exchange: Box<dyn Exchange>) -> Result<Self, GatherError> {
        let (rank, ranks, parts) = (exchange.rank(), exchange.ranks(), book.parts());
        if parts != ranks {
            return Err(GatherError::Parts { parts, ranks });
        }
        let range = book.range(rank);
        let (rows, expected) = (own.rows(), range.end - range.start);
        if rows as u64 != expected {
            return Err(GatherError::PartRows { rank, rows, expected });
        }
        // A book has no more rows than an i64 counts.
        let range = range.start as i64..range.end as i64;
        let (counts, fill) = (RemoteCounts::default(), Fill::default());
        Ok(Self { own, range, book, exchange, cache: None, counts, told: None, fill })
    }

    /// Also writes the counts to `counts` after each fill.
    #[must_use]
    pub fn telling(mut self, counts: Arc<Mutex<RemoteCounts>>) -> Self {
        self.told = Some(counts);
        self
    }

    /// Gets the rows `ids` from their owners and keeps a copy of them: all ranks call this together, each with its own
    /// ids, or none. Resets the counts.
    ///
    /// # Errors
    /// As [`CachedRows::read`].
    pub fn with_cache(mut self, ids: &[i64]) -> Result<Self, GatherError> {
        let cache = self.filled(ids).inspect_err(|error| self.give_up(error))?;
        self.cache = Some(cache);
        self.counts = RemoteCounts::default();
        Ok(self)
    }

    fn filled(&mut self, ids: &[i64]) -> Result<CachedRows, GatherError> {
        // A rank with few ids serves those with many until the last of them is done.
        let fills = CachedRows::fills(ids.len()) as u64;
        let of_all = self.exchange.counts(&vec![fills; self.book.parts()])?;
        let cache = CachedRows::read(self, ids)?;
        for _ in fills..of_all.into_iter().max().unwrap_or(0) {
            self.fill(&[], HostPlace::new(&mut []))?;
        }
        Ok(cache)
    }

    /// The statistics so far.
    pub fn counts(&self) -> RemoteCounts {
        self.counts
    }

    /// The exchange with the other ranks, for cancellation.
    pub fn exchange(&self) -> &dyn Exchange {
        &*self.exchange
    }

    /// Fetches the rows of other ranks for checked ids, serves the other ranks, and numbers all rows.
    fn fetch(&mut self, ids: &[i64], threads: usize) -> Result<RowsRead, GatherError> {
        let (wanted, cached) = self.number(ids);
        // After a failure the ranks are at different calls.
        self.pass_on(&wanted, threads).inspect_err(|error| self.give_up(error))?;
        let row_bytes = self.own.row_bytes();
        let remote = self.fill.missing.len() as u64;
        let local = ids.len() as u64 - cached - remote;
        self.counts.local_rows += local;
        self.counts.cached_rows += cached;
        self.counts.remote_rows += remote;
        if let Some(told) = &self.told {
            // Plain numbers, which are valid even after a panic of another thread.
            *told.lock().unwrap_or_else(PoisonError::into_inner) = self.counts;
        }
        Ok(RowsRead::of(RowOrigin::HostTable, local, row_bytes)
            .and(RowsRead::of(RowOrigin::HostCache, cached, row_bytes))
            .and(RowsRead::of(RowOrigin::Remote, remote, row_bytes)))
    }

    /// Ends the exchange for the other ranks, unless it has ended: then calls before the one that failed may still complete.
    fn give_up(&self, error: &GatherError) {
        if !matches!(error, GatherError::Exchange(error) if error.culprit().is_some()) {
            self.exchange.cancel();
        }
    }

    /// Determines the origin of each row. Returns the number of rows requested from each rank, and of cached rows.
    fn number(&mut self, ids: &[i64]) -> (Vec<usize>, u64) {
        let Self { own, range, book, cache, fill, .. } = self;
        let Fill { numbers, missing, wanted: wanted_ids, .. } = fill;
        let cached_rows = cache.as_ref().map_or(0, CachedRows::len);
        let slots = cache.as_ref().map_or(&[][..], |cache| cache.view().0);
        let mut wanted = vec![0; book.parts()];
        let mut cached = 0;
        numbers.clear();
        missing.clear();
        numbers.extend(ids.iter().enumerate().map(|(position, &id)| {
            // Without a cache there are no slots.
            let slot = slots.get(id as usize).copied().unwrap_or(-1);
            if slot >= 0 {
                cached += 1;
                return (own.rows() + slot as usize) as i64;
            }
            if range.contains(&id) {
                return id - range.start;
            }
            let owner = book.owner(id as u64).expect("the id was found to be a row of the table");
            wanted[owner] += 1;
            missing.push((position, owner));
            // Numbered below, when the number of rows from earlier ranks is known.
            -1
        }));
        let mut next = starts(&wanted);
        wanted_ids.clear();
        wanted_ids.resize(missing.len(), 0);
        for &(position, owner) in &*missing {
            let place = next[owner];
            next[owner] += 1;
            wanted_ids[place] = ids[position];
            numbers[position] = (own.rows() + cached_rows + place) as i64;
        }
        (wanted, cached)
    }

    /// The three calls of a fill.
    fn pass_on(&mut self, wanted: &[usize], threads: usize) -> Result<(), GatherError> {
        let Self { own, range, exchange, fill, counts, .. } = self;
        let Fill { wanted: wanted_ids, asked, .. } = fill;
        let (rank, row_bytes) = (exchange.rank(), own.row_bytes());
        let each: Vec<u64> = wanted.iter().map(|&rows| rows as u64).collect();
        let asked_rows = timed(&mut counts.met, || exchange.counts(&each))?;
        let asked_rows = in_memory(&asked_rows, row_bytes.max(size_of::<i64>()))
            .ok_or(GatherError::AskedTooMuch { rank, row_bytes })?;

        let all: usize = asked_rows.iter().sum();
        asked.clear();
        asked.resize(all, 0);
        let (sends, receives) = (times(wanted, size_of::<i64>()), times(&asked_rows, size_of::<i64>()));
        timed(&mut counts.passed, || {
            let splits = Splits { send: &sends, recv: &receives };
            exchange.all_to_all(bytemuck::cast_slice(wanted_ids), bytemuck::cast_slice_mut(asked), splits)
        })?;
        for (peer, (&start, &rows)) in starts(&asked_rows).iter().zip(&asked_rows).enumerate() {
            for id in &mut asked[start..start + rows] {
                if !range.contains(&*id) {
                    let (start, end) = (range.start, range.end);
                    return Err(GatherError::NotOwned { rank, peer, id: *id, start, end });
                }
                *id -= range.start;
            }
        }

        own.fill(asked, HostPlace { out: exchange.lend(all * row_bytes)?, threads })?;
        let (sends, receives) = (times(&asked_rows, row_bytes), times(wanted, row_bytes));
        timed(&mut counts.passed, || exchange.exchange_lent(Splits { send: &sends, recv: &receives }))?;

        // The counts, then ids in one direction and rows in the other.
        let of_counts = (size_of::<u64>() * (wanted.len() - 1)) as u64;
        let (out, back) = (wanted_ids.len() as u64, all as u64);
        let (id_bytes, row_bytes) = (size_of::<i64>() as u64, row_bytes as u64);
        counts.given_rows += back;
        counts.sent_bytes += of_counts + out * id_bytes + back * row_bytes;
        counts.received_bytes += of_counts + back * id_bytes + out * row_bytes;
        Ok(())
    }

    /// The rows that the last fetch numbered.
    fn joined(&self) -> JoinedTables<'_, 3> {
        let row_bytes = self.own.row_bytes();
        let cached = self.cache.as_ref().map_or(&[][..], |cache| cache.view().1);
        JoinedTables::new([self.own.table(), cached, self.exchange.received()], row_bytes)
    }

    fn check_ids(&self, ids: &[i64]) -> Result<(), GatherError> {
        self.own.mover().check(ids, self.book.rows() as usize)
    }
}

/// Adds the time that a call takes.
fn timed<T>(
    spent: &mut Duration,
    call: impl FnOnce() -> Result<T, ExchangeError>,
) -> Result<T, ExchangeError> {
    let start = Instant::now();
    let result = call();
    *spent += start.elapsed();
    result
}

/// The start of each rank's share.
fn starts(shares: &[usize]) -> Vec<usize> {
    let mut end = 0;
    let start = |&share: &usize| {
        let start = end;
        end += share;
        start
    };
    shares.iter().map(start).collect()
}

fn times(rows: &[usize], bytes: usize) -> Vec<usize> {
    rows.iter().map(|&rows| rows * bytes).collect()
}

/// Converts the numbers to `usize`; `None` if that many rows of `bytes` bytes exceed the address space.
fn in_memory(rows: &[u64], bytes: usize) -> Option<Vec<usize>> {
    let all = rows.iter().try_fold(0_u64, |all, &rows| all.checked_add(rows))?;
    let all_bytes = usize::try_from(all).ok()?.checked_mul(bytes)?;
    isize::try_from(all_bytes).ok()?;
    Some(rows.iter().map(|&rows| rows as usize).collect())
}

impl fmt::Debug for Remote<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rank, range) = (self.exchange.rank(), &self.range);
        write!(formatter, "Remote(rank {rank}, rows {range:?} of {}, {:?})", self.book.rows(), self.counts)
    }
}

impl HostTable for Remote<'_> {
    fn table_row_bytes(&self) -> usize {
        self.own.row_bytes()
    }

    fn pool(&self) -> Option<&rayon::ThreadPool> {
        self.own.pool()
    }

    fn copy_to(
        &mut self,
        ids: &[i64],
        mut place: HostPlace<'_>,
        widened: Option<NarrowFloat>,
    ) -> Result<RowsRead, GatherError> {
        let row_bytes = RowKind { row_bytes: self.own.row_bytes(), widened }.out_bytes();
        let length = place.out.len();
        if ids.len().checked_mul(row_bytes) != Some(length) {
            return Err(GatherError::OutputLength { ids: ids.len(), row_bytes, length });
        }
        self.check_ids(ids)?;
        let read = self.fetch(ids, place.threads)?;
        let source = self.joined();
        // SAFETY: these are as many rows, of the own part's bytes.
        unsafe { self.own.mover().copy(source, source.rows(), widened, &self.fill.numbers, &mut place) }?;
        Ok(read)
    }

    fn sum_to(
        &mut self,
        ids: &[i64],
        place: SumPlace<'_>,
        values: SummedValues,
    ) -> Result<RowsRead, GatherError> {
        self.check_ids(ids)?;
        let read = self.fetch(ids, place.threads)?;
        let source = self.joined();
        // SAFETY: as in `copy_to`.
        unsafe { self.own.mover().sum(source, source.rows(), values, &self.fill.numbers, place) }?;
        Ok(read)
    }
}

impl RowSource<HostPlace<'_>> for Remote<'_> {
    fn rows(&self) -> usize {
        self.book.rows() as usize
    }

    fn row_bytes(&self) -> usize {
        self.own.row_bytes()
    }

    fn check(&self, ids: &[i64]) -> Result<(), GatherError> {
        self.check_ids(ids)
    }

    fn submit(&mut self, ids: &[i64], place: HostPlace<'_>) -> Result<Ticket, GatherError> {
        Ok(Ticket::of(0, self.copy_to(ids, place, None)?))
    }

    fn wait(&mut self, ticket: Ticket) -> Result<RowsRead, GatherError> {
        Ok(ticket.read)
    }
}
