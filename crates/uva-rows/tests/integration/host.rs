//! The host gather against the conformance checks, and its own refusals.

use std::sync::Arc;

use proptest::prelude::*;
use uva_cuda::memory::TableBytes;
use uva_ops::Vectors;
use uva_rows::cache::eviction;
use uva_rows::cache::map_bytes;
use uva_rows::conformance::{self, Extent, FifoReference, SieveReference};
use uva_rows::{
    Cached, CachedRows, CopiedTable, EvictingRows, GatherError, HostPlace, MappedTable, NarrowFloat,
    RowCache, RowCopy, RowOrigin, RowSource, SumSource, SummedValues, SummingSource, WideningSource,
};

/// Every way in which this machine can copy rows, chosen by the gather or explicitly. Otherwise small outputs would
/// never be streamed.
fn ways() -> impl Iterator<Item = RowCopy> {
    let streamed = [Some(false), Some(true)];
    Vectors::available()
        .flat_map(move |vectors| streamed.map(|streamed| RowCopy { vectors, streamed, ..RowCopy::best() }))
}

fn forced(table: &[u8], row_bytes: usize, threads: usize, way: RowCopy) -> MappedTable<'_> {
    MappedTable::new(table, row_bytes, threads).unwrap().with_copy(way)
}

fn fifo(table_rows: usize, row_bytes: usize, capacity: usize) -> Result<EvictingRows, GatherError> {
    EvictingRows::new(eviction::by_name("fifo").unwrap(), table_rows, row_bytes, capacity)
}

/// The evicting caches, with every policy, before the source that `source` makes.
fn evicting_caches_conform(source: impl for<'t> Fn(&'t [u8], usize) -> MappedTable<'t>) {
    for policy in eviction::POLICIES {
        conformance::evicting_cache(
            Extent::All,
            policy,
            &reference(policy.name),
            &|policy, table, row_bytes, capacity| {
                let rows = table.len() / row_bytes;
                let cache = EvictingRows::new(policy, rows, row_bytes, capacity).unwrap();
                assert_eq!((cache.capacity(), cache.bytes()), (capacity, (capacity * row_bytes) as u64));
                Box::new(Cached::in_memory(source(table, row_bytes), cache).unwrap())
            },
        );
    }
}

/// The reference implementation of a policy. A policy without one fails here.
fn reference(policy: &str) -> impl Fn(usize) -> Box<dyn conformance::Reference> {
    match policy {
        "fifo" => FifoReference::boxed,
        "sieve" => SieveReference::boxed,
        other => panic!("the conformance checks have no reference of {other}"),
    }
}

#[test]
fn every_way_of_moving_rows_conforms_on_one_thread() {
    for way in ways() {
        conformance::every_row_size_at_every_offset(
            &|table, row_bytes| Box::new(forced(table, row_bytes, 1, way)),
            1..=1025,
            [0, 1, 2, 4, 8, 16, 31, 32, 63].into_iter(),
        );
        conformance::whole_tables(Extent::All, &|table, row_bytes| {
            Box::new(forced(table, row_bytes, 1, way))
        });
    }
}

#[test]
fn rows_of_every_size_are_streamed_from_every_offset() {
    // The gather does not choose to stream such small outputs: `one_thread_conforms` does not cover it.
    let way = RowCopy { streamed: Some(true), ..RowCopy::best() };
    conformance::every_row_size_at_every_offset(
        &|table, row_bytes| Box::new(forced(table, row_bytes, 1, way)),
        1..=1025,
        0..128,
    );
}

#[test]
fn every_way_of_moving_rows_conforms_on_several_threads() {
    for way in ways() {
        conformance::whole_tables(Extent::All, &|table, row_bytes| {
            Box::new(forced(table, row_bytes, 3, way))
        });
    }
}

#[test]
fn every_way_of_moving_rows_conforms_with_caches() {
    for way in ways() {
        conformance::static_cache(Extent::All, &|table, row_bytes, ids| {
            let cache = CachedRows::new(table, row_bytes, ids, 1).unwrap();
            Box::new(Cached::in_memory(forced(table, row_bytes, 1, way), cache).unwrap())
        });
        evicting_caches_conform(|table, row_bytes| forced(table, row_bytes, 1, way));
    }
}

#[test]
fn no_rows_requested_beforehand_conforms() {
    let way = RowCopy { ahead: 0, ..RowCopy::best() };
    conformance::whole_tables(Extent::All, &|table, row_bytes| Box::new(forced(table, row_bytes, 1, way)));
}

#[test]
fn every_way_of_widening_conforms() {
    for way in ways() {
        conformance::widening(&|table, row_bytes, narrow, cached| {
            let cache = CachedRows::new(table, row_bytes, cached, 1).unwrap();
            let rows = Cached::in_memory(forced(table, row_bytes, 1, way), cache).unwrap();
            Box::new(WideningSource::new(rows, narrow).unwrap())
        });
    }
}

/// Summing sources over a mapped table with this cache.
fn summing<'t>(
    rows: MappedTable<'t>,
    cache: impl Into<RowCache>,
    values: SummedValues,
) -> Box<dyn SumSource + 't> {
    Box::new(SummingSource::new(Cached::in_memory(rows, cache).unwrap(), values).unwrap())
}

#[test]
#[ignore = "11 s of a core: scripts/measure/long_tests.sh"]
fn every_way_of_summing_conforms_with_a_cache_and_without() {
    for vectors in Vectors::available() {
        let way = RowCopy { vectors, ..RowCopy::best() };
        conformance::summed(&|table, row_bytes, values, _| {
            Box::new(SummingSource::new(forced(table, row_bytes, 1, way), values).unwrap())
        });
        conformance::summed(&|table, row_bytes, values, cached| {
            let cache = CachedRows::new(table, row_bytes, cached, 1).unwrap();
            summing(forced(table, row_bytes, 1, way), cache, values)
        });
    }
}

#[test]
fn summing_by_several_threads_conforms_with_and_without_a_cache() {
    conformance::summed(&|table, row_bytes, values, _| {
        Box::new(SummingSource::new(MappedTable::new(table, row_bytes, 3).unwrap(), values).unwrap())
    });
    conformance::summed(&|table, row_bytes, values, cached| {
        let cache = fifo(table.len() / row_bytes, row_bytes, cached.len()).unwrap();
        summing(MappedTable::new(table, row_bytes, 3).unwrap(), cache, values)
    });
}

#[test]
fn rows_that_are_not_whole_values_are_not_summed() {
    let rows = MappedTable::new(&[0; 30], 6, 1).unwrap();
    let refused = SummingSource::new(rows, SummedValues { narrow: None, widened_own: false }).unwrap_err();
    assert_eq!(refused, GatherError::NotValues { row_bytes: 6, value_bytes: 4 });
}

#[test]
fn widening_by_several_threads_conforms_with_and_without_a_cache() {
    conformance::widening(&|table, row_bytes, narrow, _| {
        Box::new(WideningSource::new(MappedTable::new(table, row_bytes, 3).unwrap(), narrow).unwrap())
    });
    conformance::widening(&|table, row_bytes, narrow, cached| {
        let cache = fifo(table.len() / row_bytes, row_bytes, cached.len()).unwrap();
        let rows = Cached::in_memory(MappedTable::new(table, row_bytes, 3).unwrap(), cache).unwrap();
        Box::new(WideningSource::new(rows, narrow).unwrap())
    });
}

#[test]
fn rows_that_are_not_whole_values_are_not_widened() {
    let error = WideningSource::new(MappedTable::new(&[0; 15], 3, 1).unwrap(), NarrowFloat::F16)
        .map(drop)
        .unwrap_err();
    assert_eq!(error, GatherError::NotHalves { row_bytes: 3 });
}

#[test]
fn one_thread_conforms() {
    conformance::run(&|table, row_bytes| Box::new(MappedTable::new(table, row_bytes, 1).unwrap()));
}

#[test]
fn several_threads_conform() {
    // A pool for each of a hundred thousand tables would test the operating system: many tables, one thread, above.
    conformance::every_row_size_at_every_offset(
        &|table, row_bytes| Box::new(MappedTable::new(table, row_bytes, 3).unwrap()),
        [1, 63, 400].into_iter(),
        0..3,
    );
    conformance::whole_tables(Extent::All, &|table, row_bytes| {
        Box::new(MappedTable::new(table, row_bytes, 3).unwrap())
    });
}

#[test]
fn a_copied_table_conforms() {
    let copied = |table: &[u8], row_bytes, threads| {
        let copy = Arc::new(CopiedTable::new(table, threads).unwrap());
        Box::new(MappedTable::owned(copy, row_bytes, threads).unwrap())
    };
    conformance::every_row_size_at_every_offset(
        &|table, row_bytes| copied(table, row_bytes, 1),
        [1, 63, 400].into_iter(),
        0..3,
    );
    conformance::whole_tables(Extent::All, &|table, row_bytes| copied(table, row_bytes, 3));
}

#[test]
fn threads_copy_every_byte_of_a_table_of_several_pieces() {
    let table: Vec<u8> =
        (0..(20 << 20) + 12).map(|at: u32| (at.wrapping_mul(0x9e37_79b9) >> 24) as u8).collect();
    for threads in [1, 3] {
        assert!(CopiedTable::new(&table, threads).unwrap().bytes() == table, "{threads} threads");
    }
}

#[test]
fn a_gather_with_cached_rows_conforms() {
    for threads in [1, 3] {
        conformance::static_cache(Extent::All, &|table, row_bytes, ids| {
            let cache = CachedRows::new(table, row_bytes, ids, threads).unwrap();
            assert_eq!(cache.bytes(), (ids.len() * row_bytes) as u64);
            Box::new(Cached::in_memory(MappedTable::new(table, row_bytes, threads).unwrap(), cache).unwrap())
        });
    }
}

#[test]
fn a_gather_with_a_cache_that_evicts_conforms() {
    for threads in [1, 3] {
        evicting_caches_conform(|table, row_bytes| MappedTable::new(table, row_bytes, threads).unwrap());
    }
}

#[test]
fn cached_rows_are_read_from_the_cache_and_not_from_the_table() {
    // Bytes other than the table's, which no cache would hold: they show where a row was read.
    let (table, other) = ([1_u8; 40], [2_u8; 40]);
    let cache = CachedRows::new(&other, 4, &[9, 3], 1).unwrap();
    assert!(cache.contains(3) && !cache.contains(4) && !cache.contains(-1) && !cache.contains(10));
    let mut source = Cached::in_memory(MappedTable::new(&table, 4, 1).unwrap(), cache).unwrap();
    let mut out = [0; 12];
    let read = source.fill(&[3, 4, 9], HostPlace::new(&mut out)).unwrap();
    assert_eq!(out, [2, 2, 2, 2, 1, 1, 1, 1, 2, 2, 2, 2]);
    assert_eq!((read.rows(RowOrigin::HostTable), read.rows(RowOrigin::HostCache)), (1, 2));
    assert_eq!((read.total(), read.hits(), read.bytes(RowOrigin::HostCache)), (3, 2, 8));
    assert_eq!(map_bytes(10), 40);
}

#[test]
fn a_cache_of_a_table_without_rows_is_empty() {
    let cache = CachedRows::new(&[], 4, &[], 1).unwrap();
    assert!(cache.is_empty() && !cache.contains(0));
    let mut source = Cached::in_memory(MappedTable::new(&[], 4, 1).unwrap(), cache).unwrap();
    assert_eq!(source.fill(&[], HostPlace::new(&mut [])).unwrap().total(), 0);
}

#[test]
fn caches_that_cannot_be_are_refused() {
    let table = [0_u8; 40];
    let refusal = |ids: &[i64]| CachedRows::new(&table, 4, ids, 1).map(drop).unwrap_err();
    assert_eq!(refusal(&[1, 2, 1]), GatherError::RepeatedId { position: 2, id: 1 });
    for id in [-1, 10, i64::MAX] {
        assert_eq!(refusal(&[1, id]), GatherError::IdOutOfRange { position: 1, id, rows: 10 });
    }
    let error = Cached::in_memory(MappedTable::new(&table, 4, 1).unwrap(), fifo(5, 8, 2).unwrap())
        .map(drop)
        .unwrap_err();
    assert_eq!(
        error,
        GatherError::OtherTable { rows: 5, row_bytes: 8, table_rows: 10, table_row_bytes: 4 },
        "a cache of another table"
    );
    // More bytes than addresses, and than memory.
    for (rows, row_bytes) in [(1000, 1 << 60), (1000, 1 << 50)] {
        let error = fifo(rows, row_bytes, rows).map(drop).unwrap_err();
        assert!(matches!(error, GatherError::CacheMemory { .. }), "{error}");
    }
    let rows = 1 << 31;
    let error = fifo(rows, 4, rows).map(drop).unwrap_err();
    assert_eq!(error, GatherError::TooManyCached { rows });
}

#[test]
fn tables_beyond_4_gib_are_addressed_with_64_bits() {
    conformance::large_table(&|table, row_bytes| Box::new(MappedTable::new(table, row_bytes, 2).unwrap()));
}

#[test]
fn a_table_that_is_not_whole_rows_is_refused() {
    for (length, row_bytes) in [(10, 0), (10, 3), (1, 2)] {
        let error = MappedTable::new(&vec![0; length], row_bytes, 1).map(drop).unwrap_err();
        assert_eq!(error, GatherError::TableLength { length, row_bytes });
    }
}

#[test]
fn a_bad_id_is_named_with_its_position() {
    let mut source = MappedTable::new(&[0; 20], 2, 1).unwrap();
    let error = source.fill(&[0, 9, 10], HostPlace::new(&mut [0; 6])).unwrap_err();
    assert_eq!(error.to_string(), "id 10 at position 2 is outside the table of 10 rows");
}

proptest! {
    #[test]
    fn any_ids_give_what_a_plain_loop_gives(
        row_bytes in 1usize..700,
        rows in 1usize..50,
        picks in prop::collection::vec(any::<prop::sample::Index>(), 0..3000),
        threads in 1usize..4,
    ) {
        let table: Vec<u8> = (0..rows * row_bytes).map(|i| (i * 131 % 253) as u8).collect();
        let ids: Vec<i64> = picks.iter().map(|pick| pick.index(rows) as i64).collect();
        let mut out = vec![0; ids.len() * row_bytes];
        for way in ways() {
            out.fill(0);
            forced(&table, row_bytes, threads, way).fill(&ids, HostPlace::new(&mut out)).unwrap();
            for (id, row) in ids.iter().zip(out.chunks_exact(row_bytes)) {
                prop_assert_eq!(row, &table[*id as usize * row_bytes..][..row_bytes]);
            }
        }
    }
}
