//! A table divided among ranks: each rank has a copy of its own part only, so other rows can only come through the
//! exchange.

use std::sync::Arc;
use std::thread::{self, JoinHandle};

use uva_exchange::conformance::in_threads;
use uva_exchange::{Cause, Settings, SharedMemory, Single};
use uva_rows::conformance::{self, Extent};
use uva_rows::{
    Book, Exchange, GatherError, HostPlace, MappedTable, Place, Remote, RemoteCounts, RowOrigin, RowSource,
    RowsRead, SumSource, SummingSource, Ticket, WideningSource,
};

const RANKS: [usize; 3] = [1, 2, 4];

/// Ranks of one group, as threads.
fn group(ranks: usize) -> Vec<Box<dyn Exchange>> {
    // Small pieces, so that most messages have several.
    let settings = Settings { pieces: 2, piece_bytes: 4096, ..Settings::new(ranks) };
    let ranks = SharedMemory::threads(&settings).unwrap();
    ranks.into_iter().map(|rank| Box::new(rank) as Box<dyn Exchange>).collect()
}

/// A partition into uneven parts, one of which is empty if there are four.
fn uneven(rows: usize, ranks: usize) -> Book {
    let bounds = match ranks {
        1 => vec![0, rows],
        2 => vec![0, rows / 3, rows],
        _ => vec![0, rows / 5, rows / 5, rows * 3 / 4, rows],
    };
    Book::new(&bounds.into_iter().map(|bound| bound as u64).collect::<Vec<_>>()).unwrap()
}

/// The source of a rank, over a copy of its part.
fn remote(table: &[u8], row_bytes: usize, book: &Book, exchange: Box<dyn Exchange>) -> Remote<'static> {
    let range = book.range(exchange.rank());
    let part = table[range.start as usize * row_bytes..range.end as usize * row_bytes].to_vec();
    Remote::new(MappedTable::owned(Arc::new(part), row_bytes, 1).unwrap(), book.clone(), exchange).unwrap()
}

/// A source over one rank, and the threads of the others, which request no rows and serve it until it leaves.
struct Served<S> {
    source: Option<S>,
    others: Vec<JoinHandle<()>>,
}

fn served<S>(
    table: &[u8],
    row_bytes: usize,
    ranks: usize,
    cached: &[i64],
    wrap: impl FnOnce(Remote<'static>) -> S,
) -> Served<S> {
    let rows = table.len() / row_bytes;
    let book = uneven(rows, ranks);
    let tested = rows % ranks;
    let (mut source, mut others) = (None, Vec::new());
    for exchange in group(ranks) {
        let rank = exchange.rank();
        let remote = remote(table, row_bytes, &book, exchange);
        if rank == tested {
            source = Some(remote);
            continue;
        }
        others.push(thread::spawn(move || {
            let mut remote = remote.with_cache(&[]).unwrap();
            let error = loop {
                if let Err(error) = remote.fill(&[], HostPlace::new(&mut [])) {
                    break error;
                }
            };
            let GatherError::Exchange(error) = error else { panic!("{error}") };
            assert_eq!((error.culprit(), error.cause()), (Some(tested), Some(Cause::Left)), "{error}");
        }));
    }
    let source = source.expect("one of the ranks").with_cache(cached).unwrap();
    Served { source: Some(wrap(source)), others }
}

impl<S> Served<S> {
    fn get(&self) -> &S {
        self.source.as_ref().expect("it is there until the end")
    }

    fn get_mut(&mut self) -> &mut S {
        self.source.as_mut().expect("it is there until the end")
    }
}

impl<S> Drop for Served<S> {
    fn drop(&mut self) {
        drop(self.source.take());
        for other in self.others.drain(..) {
            let ended = other.join();
            assert!(ended.is_ok() || thread::panicking(), "another rank failed");
        }
    }
}

impl<P: Place, S: RowSource<P>> RowSource<P> for Served<S> {
    fn rows(&self) -> usize {
        self.get().rows()
    }

    fn row_bytes(&self) -> usize {
        self.get().row_bytes()
    }

    fn check(&self, ids: &[i64]) -> Result<(), P::Error> {
        self.get().check(ids)
    }

    fn submit(&mut self, ids: &[i64], place: P) -> Result<Ticket, P::Error> {
        self.get_mut().submit(ids, place)
    }

    fn wait(&mut self, ticket: Ticket) -> Result<RowsRead, P::Error> {
        self.get_mut().wait(ticket)
    }
}

impl<S: SumSource> SumSource for Served<S> {
    fn pool(&self) -> Option<&rayon::ThreadPool> {
        self.get().pool()
    }

    fn fill_rows(&mut self, ids: &[i64], place: HostPlace<'_>) -> Result<RowsRead, GatherError> {
        self.get_mut().fill_rows(ids, place)
    }
}

#[test]
fn a_table_divided_among_ranks_conforms() {
    for ranks in RANKS {
        conformance::whole_tables(Extent::All, &|table, row_bytes| {
            Box::new(served(table, row_bytes, ranks, &[], |remote| remote))
        });
    }
}

#[test]
fn a_table_of_one_rank_conforms_without_shared_memory() {
    conformance::whole_tables(Extent::All, &|table, row_bytes| {
        let book = Book::even((table.len() / row_bytes) as u64, 1).unwrap();
        Box::new(remote(table, row_bytes, &book, Box::new(Single::new())))
    });
}

#[test]
fn a_cache_in_front_of_other_ranks_conforms() {
    conformance::static_cache(Extent::All, &|table, row_bytes, cached| {
        Box::new(served(table, row_bytes, 2, cached, |remote| remote))
    });
}

#[test]
fn rows_of_other_ranks_are_widened_and_summed_like_any() {
    conformance::widening(&|table, row_bytes, narrow, cached| {
        Box::new(served(table, row_bytes, 2, cached, |remote| WideningSource::new(remote, narrow).unwrap()))
    });
    conformance::summed(&|table, row_bytes, values, cached| {
        Box::new(served(table, row_bytes, 2, cached, |remote| SummingSource::new(remote, values).unwrap()))
    });
}

/// Ids without a pattern, some of them more than once.
fn some_ids(rows: u64, rank: usize, batch: u64) -> Vec<i64> {
    // Every rank has a batch without ids, and in one batch no rank has any.
    let count = if batch == 3 { 0 } else { (rank as u64 * 7 + batch * 31) % 5 * 60 };
    (0..count).map(|i| (uva_mem::mix(i ^ batch << 20 ^ (rank as u64) << 40) % rows) as i64).collect()
}

#[test]
fn each_rank_gets_its_own_batches_and_counts_where_rows_came_from() {
    const ROWS: usize = 1000;
    const ROW_BYTES: usize = 100;
    const BATCHES: u64 = 8;
    let table: Vec<u8> = (0..ROWS * ROW_BYTES).map(|i| (uva_mem::mix(i as u64) >> 56) as u8).collect();
    for ranks in [2, 4] {
        let book = uneven(ROWS, ranks);
        let all: Vec<RemoteCounts> = in_threads(group(ranks), |rank, exchange| {
            // Each rank caches another number of rows, of its own part as well; the last one caches none.
            let cached: Vec<i64> = (0..ROWS as i64).filter(|id| id % 9 < (ranks - 1 - rank) as i64).collect();
            let source = remote(&table, ROW_BYTES, &book, exchange);
            let mut source = source.with_cache(&cached).unwrap();
            assert_eq!(source.counts(), RemoteCounts::default(), "what fills the cache is not counted");
            let own = book.range(rank);
            let mut expected = RemoteCounts::default();
            for batch in 0..BATCHES {
                let ids = some_ids(ROWS as u64, rank, batch);
                let mut out = vec![0; ids.len() * ROW_BYTES];
                let read = source.fill(&ids, HostPlace::new(&mut out)).unwrap();
                for (id, row) in ids.iter().zip(out.chunks_exact(ROW_BYTES)) {
                    assert_eq!(row, &table[*id as usize * ROW_BYTES..][..ROW_BYTES], "row {id}");
                }
                let is_cached = |id: &&i64| cached.binary_search(id).is_ok();
                let hits = ids.iter().filter(is_cached).count() as u64;
                let local =
                    ids.iter().filter(|id| !is_cached(id) && own.contains(&(**id as u64))).count() as u64;
                let missing = ids.len() as u64 - hits - local;
                let origins = [RowOrigin::HostTable, RowOrigin::HostCache, RowOrigin::Remote];
                assert_eq!(origins.map(|origin| read.rows(origin)), [local, hits, missing]);
                assert_eq!(read.bytes(RowOrigin::Remote), missing * ROW_BYTES as u64);
                expected.local_rows += local;
                expected.cached_rows += hits;
                expected.remote_rows += missing;
            }
            let counts = source.counts();
            let given_rows = counts.given_rows;
            let of_counts = BATCHES * 8 * (ranks as u64 - 1);
            let (row, id) = (ROW_BYTES as u64, 8);
            expected.given_rows = given_rows;
            expected.sent_bytes = of_counts + expected.remote_rows * id + given_rows * row;
            expected.received_bytes = of_counts + given_rows * id + expected.remote_rows * row;
            (expected.met, expected.passed) = (counts.met, counts.passed);
            assert_eq!(counts, expected, "rank {rank}");
            assert!(!counts.met.is_zero() && !counts.passed.is_zero());
            counts
        });
        let sum = |of: &dyn Fn(&RemoteCounts) -> u64| all.iter().map(of).sum::<u64>();
        assert_eq!(sum(&|counts| counts.remote_rows), sum(&|counts| counts.given_rows));
        assert_eq!(sum(&|counts| counts.sent_bytes), sum(&|counts| counts.received_bytes));
        assert!(sum(&|counts| counts.remote_rows) > 0 && sum(&|counts| counts.cached_rows) > 0, "{all:?}");
    }
}

#[test]
fn a_refused_fill_has_not_begun_and_the_next_one_meets_the_other_ranks() {
    let table: Vec<u8> = (0..40).collect();
    let book = Book::even(10, 2).unwrap();
    in_threads(group(2), |rank, exchange| {
        let mut source = remote(&table, 4, &book, exchange);
        let mut out = [0; 8];
        if rank == 0 {
            let refused = source.fill(&[9, 10], HostPlace::new(&mut out)).unwrap_err();
            assert_eq!(refused, GatherError::IdOutOfRange { position: 1, id: 10, rows: 10 });
            let refused = source.fill(&[9, 1], HostPlace::new(&mut out[..7])).unwrap_err();
            assert_eq!(refused, GatherError::OutputLength { ids: 2, row_bytes: 4, length: 7 });
        }
        source.fill(&[9, 1], HostPlace::new(&mut out)).unwrap();
        assert_eq!(out, [36, 37, 38, 39, 4, 5, 6, 7]);
    });
}

#[test]
fn ranks_that_divide_the_table_differently_end_with_the_row_in_question() {
    let table: Vec<u8> = (0..40).collect();
    in_threads(group(2), |rank, exchange| {
        let book = Book::new(&[0, [4, 5][rank], 10]).unwrap();
        let mut source = remote(&table, 4, &book, exchange);
        let mut out = [0; 4];
        let ids: &[i64] = if rank == 0 { &[4] } else { &[] };
        let error = source.fill(ids, HostPlace::new(&mut out[..4 * ids.len()])).unwrap_err();
        if rank == 1 {
            assert_eq!(error, GatherError::NotOwned { rank: 1, peer: 0, id: 4, start: 5, end: 10 });
            let text = "rank 0 requested row 4 from rank 1, whose part is 5..10: the two ranks divide the table differently";
            assert_eq!(error.to_string(), text);
            return;
        }
        let GatherError::Exchange(error) = error else { panic!("{error}") };
        assert_eq!((error.culprit(), error.cause()), (Some(1), Some(Cause::Cancelled)), "{error}");
    });
}

#[test]
fn a_rank_that_leaves_ends_the_fills_of_the_others() {
    let table: Vec<u8> = (0..40).collect();
    let book = Book::even(10, 2).unwrap();
    in_threads(group(2), |rank, exchange| {
        let mut source = remote(&table, 4, &book, exchange);
        let mut out = [0; 4];
        source.fill(&[5], HostPlace::new(&mut out)).unwrap();
        if rank == 0 {
            let error = source.fill(&[5], HostPlace::new(&mut out)).unwrap_err();
            let text = "rows of other ranks: rank 0, call 4 of the exchange: rank 1 has left the group";
            assert_eq!(error.to_string(), text);
        }
    });
}

#[test]
fn a_cache_of_bad_ids_is_refused_on_its_rank_and_ends_the_others() {
    let table: Vec<u8> = (0..40).collect();
    let book = Book::even(10, 2).unwrap();
    in_threads(group(2), |rank, exchange| {
        let source = remote(&table, 4, &book, exchange);
        let error = source.with_cache(if rank == 0 { &[3, 10] } else { &[7] }).unwrap_err();
        if rank == 0 {
            assert_eq!(error, GatherError::IdOutOfRange { position: 1, id: 10, rows: 10 });
        } else {
            let GatherError::Exchange(error) = error else { panic!("{error}") };
            assert_eq!((error.culprit(), error.cause()), (Some(0), Some(Cause::Cancelled)), "{error}");
        }
    });
}

#[test]
fn parts_that_do_not_fit_the_partition_are_refused() {
    let own = || MappedTable::new(&[0; 40], 4, 1).unwrap();
    let refused = |book: Book| Remote::new(own(), book, Box::new(Single::new())).map(drop).unwrap_err();
    assert_eq!(refused(Book::even(10, 2).unwrap()), GatherError::Parts { parts: 2, ranks: 1 });
    let expected = GatherError::PartRows { rank: 0, rows: 10, expected: 11 };
    assert_eq!(refused(Book::even(11, 1).unwrap()), expected);
}
