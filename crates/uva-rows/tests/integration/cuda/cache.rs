//! Rows cached on the device: the same bytes, every hit counted, and arguments that cannot be refused.

use std::sync::Arc;

use uva_cuda::kernels::gather::{GatherKernels, GridBound, Kernel};
use uva_cuda::memory::{JoinedMemory, PinOptions, PinnedTable, Share};
use uva_cuda::{Context, CudaEvent, CudaStream};
use uva_rows::cache::eviction::{self, Eviction};
use uva_rows::conformance::{self, FifoReference, SieveReference};
use uva_rows::cuda::{BadId, DeviceCache, FillError, LanedCache, Pinned, ReadBack, SlotFiller, fill_joined};
use uva_rows::{Cached, EvictingRows, GatherError, HostPlace, MappedTable, RowSource};

use super::machine::*;

type CachedRows = Cached<Pinned, LanedCache>;

fn fifo() -> &'static Eviction {
    eviction::by_name("fifo").unwrap()
}

fn gather(
    kernels: &GatherKernels,
    cache: DeviceCache,
    table: &[u8],
    row_bytes: usize,
    kernel: Kernel,
) -> ReadBack<CachedRows> {
    let context = Context::primary(0).unwrap();
    let table = PinnedTable::new(&context, Arc::new(Aside::of(table)), &PinOptions::default()).unwrap();
    // Few blocks, so that each warp processes several rows.
    let bound = GridBound::Blocks(2);
    let rows = Pinned::new(kernels.clone(), Arc::new(table), row_bytes, kernel, bound).unwrap();
    // Only these kernels read the order as well.
    let rows = rows.by_region(kernel == Kernel::Wide);
    ReadBack::new(&context, kernels.clone(), Cached::on_device(rows, cache).unwrap()).unwrap()
}

fn static_cache_conforms(kernel: Kernel) {
    let context = Context::primary(0).unwrap();
    let kernels = kernels(&context);
    conformance::static_cache(extent(), &|table, row_bytes, ids| {
        let cache = DeviceCache::filled(&context, table, row_bytes, ids, 1).unwrap();
        assert_eq!((cache.rows(), cache.bytes()), (ids.len(), (ids.len() * row_bytes) as u64));
        assert_eq!(cache.map_bytes(), (table.len() / row_bytes * 4) as u64);
        Box::new(gather(&kernels, cache, table, row_bytes, kernel))
    });
}

#[test]
fn the_naive_kernel_with_cached_rows_conforms() {
    if cuda_sim::in_process_with("cuda::cache::the_naive_kernel_with_cached_rows_conforms", &[]) {
        static_cache_conforms(Kernel::Naive);
    }
}

#[test]
fn the_shift_kernel_with_cached_rows_conforms() {
    if cuda_sim::in_process_with("cuda::cache::the_shift_kernel_with_cached_rows_conforms", &[]) {
        static_cache_conforms(Kernel::Shift);
    }
}

#[test]
fn the_wide_kernel_with_cached_rows_conforms() {
    if cuda_sim::in_process_with("cuda::cache::the_wide_kernel_with_cached_rows_conforms", &[]) {
        static_cache_conforms(Kernel::Wide);
    }
}

#[test]
fn a_cache_that_evicts_conforms_by_every_kernel_and_policy() {
    if !cuda_sim::in_process_with("cuda::cache::a_cache_that_evicts_conforms_by_every_kernel_and_policy", &[])
    {
        return;
    }
    let context = Context::primary(0).unwrap();
    let kernels = kernels(&context);
    for kernel in Kernel::ALL {
        for policy in eviction::POLICIES {
            // The reference implementation of each policy: a policy without one fails here.
            let reference: fn(usize) -> Box<dyn conformance::Reference> = match policy.name {
                "fifo" => FifoReference::boxed,
                "sieve" => SieveReference::boxed,
                other => panic!("the conformance checks have no reference of {other}"),
            };
            conformance::evicting_cache(
                extent(),
                policy,
                &reference,
                &|policy, table, row_bytes, capacity| {
                    let rows = table.len() / row_bytes;
                    let cache = DeviceCache::evicting(policy, &context, rows, row_bytes, capacity).unwrap();
                    assert!(cache.is_dynamic() && cache.rows() == capacity);
                    Box::new(gather(&kernels, cache, table, row_bytes, kernel))
                },
            );
        }
    }
}

// --- slots ---

fn filler_with(machine: &Machine, cache: DeviceCache, kernel: Kernel) -> SlotFiller<CachedRows> {
    machine.filler_of(Cached::on_device(machine.pinned(kernel), cache).unwrap())
}

/// Every third row, in descending order.
fn cached_ids() -> Vec<i64> {
    (0..ROWS as i64).rev().filter(|id| id % 3 == 0).collect()
}

#[test]
fn slots_filled_with_cached_rows_hold_what_a_plain_loop_gives() {
    if !cuda_sim::in_process_with(
        "cuda::cache::slots_filled_with_cached_rows_hold_what_a_plain_loop_gives",
        &SHAKEN,
    ) {
        return;
    }
    let machine = Machine::new();
    for (seed, kernel) in Kernel::ALL.into_iter().enumerate() {
        let ids = cached_ids();
        let cache = DeviceCache::filled(&machine.context, &machine.table_bytes, ROW_BYTES, &ids, 2).unwrap();
        let filler = filler_with(&machine, cache, kernel);
        let fills = two_slots_in_turns(&machine, filler, 20, 200 + seed as u64);
        let (rows, hits) =
            fills.iter().fold((0, 0), |(rows, hits), fill| (rows + fill.rows, hits + fill.read.hits()));
        assert!((hits as f64 / rows as f64 - 1.0 / 3.0).abs() < 0.02, "{hits} of {rows} rows hit");
    }
}

#[test]
fn rows_that_two_devices_hold_are_read_as_those_of_one() {
    const TEST: &str = "cuda::cache::rows_that_two_devices_hold_are_read_as_those_of_one";
    if !cuda_sim::in_process_with(TEST, &[SHAKEN[0], ("CUDA_SIM_DEVICES", "2")]) {
        return;
    }
    let machine = Machine::new();
    let (other, ids) = (Context::primary(1).unwrap(), cached_ids());
    let bytes = (ids.len() * ROW_BYTES).div_ceil(2);
    let [own, others] =
        [&machine.context, &other].map(|context| Share::new(context, bytes, "a test").unwrap());
    let (of_own, of_others) = (own.export().unwrap(), others.export().unwrap());
    let own = Arc::new(JoinedMemory::new(own, 0, vec![of_others]).unwrap());
    let others = JoinedMemory::new(others, 1, vec![of_own]).unwrap();
    let table = (machine.table_bytes.as_slice(), ROW_BYTES, 2);
    let half = ids.len() / 2;
    fill_joined(&machine.context, &own, table, &ids, 0..half).unwrap();
    fill_joined(&other, &others, table, &ids, half..ids.len()).unwrap();
    let shape = (ROWS, ROW_BYTES);
    let cache = DeviceCache::joined(&machine.context, Arc::clone(&own), shape, &ids).unwrap();
    assert_eq!(cache.rows(), ids.len());
    let fills = two_slots_in_turns(&machine, filler_with(&machine, cache, Kernel::Wide), 20, 300);
    let (rows, hits) =
        fills.iter().fold((0, 0), |(rows, hits), fill| (rows + fill.rows, hits + fill.read.hits()));
    assert!((hits as f64 / rows as f64 - 1.0 / 3.0).abs() < 0.02, "{hits} of {rows} rows hit");
    // More rows than fit into memory are refused before anything is written.
    let all: Vec<i64> = (0..(own.bytes() / ROW_BYTES + 1) as i64).collect();
    let refused = DeviceCache::joined(&machine.context, own, (all.len(), ROW_BYTES), &all).unwrap_err();
    assert!(matches!(refused, FillError::Layout(_)), "{refused}");
}

/// Batches that overlap in part, so that a FIFO cache hits: as many ids as requested, among few rows.
fn batch_of_few(random: &mut Random, count: usize, stamp: u64) -> Batch {
    let mut batch = Batch::new(random, count, stamp);
    for id in &mut batch.ids {
        *id %= 700;
    }
    for (place, id) in batch.payload[IDS_AT..].chunks_exact_mut(8).zip(&batch.ids) {
        place.copy_from_slice(&id.to_ne_bytes());
    }
    batch
}

#[test]
fn a_fifo_cache_in_slots_keeps_bytes_right_and_hits_as_on_the_host() {
    if !cuda_sim::in_process_with(
        "cuda::cache::a_fifo_cache_in_slots_keeps_bytes_right_and_hits_as_on_the_host",
        &SHAKEN,
    ) {
        return;
    }
    let machine = Machine::new();
    for (kernel, capacity) in
        [(Kernel::Naive, 100), (Kernel::Shift, 0), (Kernel::Wide, 450), (Kernel::Wide, ROWS)]
    {
        let cache = DeviceCache::evicting(fifo(), &machine.context, ROWS, ROW_BYTES, capacity).unwrap();
        let mut filler = filler_with(&machine, cache, kernel);
        let on_host = EvictingRows::new(fifo(), ROWS, ROW_BYTES, capacity).unwrap();
        let table = MappedTable::new(&machine.table_bytes, ROW_BYTES, 1).unwrap();
        let mut host = Cached::in_memory(table, on_host).unwrap();
        let mut host_hits = 0;
        let consumer = CudaStream::new(&machine.context).unwrap();
        let event = || CudaEvent::local(&machine.context).unwrap();
        let (ready, free) = ([event(), event()], [event(), event()]);
        let mut random = Random(capacity as u64);
        let (mut seen, mut expected) = (Vec::new(), Vec::new());
        for index in 0..40 {
            let slot = index % 2;
            let count = [0, 1, 300, 37, 650][index % 5];
            let batch = batch_of_few(&mut random, count, index as u64 + 1000);
            // Occasionally an id that is not a row: it is found, and the cache's content stays right.
            if index == 17 {
                let mut bad = batch_of_few(&mut random, 100, 5);
                bad.ids[50] = -3;
                bad.payload[IDS_AT + 400..][..8].copy_from_slice(&(-3_i64).to_ne_bytes());
                bad.fill(&mut filler, slot, Some(&free[slot]), &ready[slot]).unwrap();
                free[slot].record(&consumer).unwrap();
                expected.push((5, None));
            }
            let after = (index >= 2).then_some(&free[slot]);
            // Enqueued far ahead of the device: insertions wait for their batch.
            batch.fill(&mut filler, slot, after, &ready[slot]).unwrap();
            consumer.wait(&ready[slot]).unwrap();
            seen.push((machine.read(&consumer, slot), batch));
            free[slot].record(&consumer).unwrap();
            let batch = &seen[index].1;
            let mut out = vec![0; batch.ids.len() * ROW_BYTES];
            let hits = host.fill(&batch.ids, HostPlace::new(&mut out)).unwrap().hits();
            host_hits += hits;
            expected.push((batch.stamp, Some(hits)));
        }
        consumer.synchronize().unwrap();
        for (index, (out, batch)) in seen.iter().enumerate() {
            batch.check(out.as_slice(), &machine.table_bytes, &format!("{capacity} slots, batch {index}"));
        }
        for (fill, (stamp, hits)) in filler.drain().unwrap().into_iter().zip(expected) {
            assert_eq!(fill.stamp, stamp);
            match hits {
                Some(hits) => {
                    assert_eq!((fill.read.hits(), fill.bad), (hits, None), "{capacity} slots, fill {stamp}")
                }
                None => assert_eq!(fill.bad, Some(BadId { table: 0, position: 50, id: -3 })),
            }
        }
        assert!(capacity == 0 || host_hits > 0, "nothing hit at all");
    }
}

// --- refusals ---

#[test]
fn a_cache_that_the_device_has_no_room_for_is_refused_with_both_numbers() {
    let memory = 8 << 20;
    let test = "cuda::cache::a_cache_that_the_device_has_no_room_for_is_refused_with_both_numbers";
    if !cuda_sim::in_process_with(test, &[("CUDA_SIM_MEMORY", &memory.to_string())]) {
        return;
    }
    let context = Context::primary(0).unwrap();
    let (free, _) = context.memory().unwrap();
    let table = vec![7; 16 << 20];
    let ids: Vec<i64> = (0..1 << 14).collect();
    let error = DeviceCache::filled(&context, &table, 1024, &ids, 1).unwrap_err();
    let FillError::CacheTooLarge { rows, bytes, map_bytes, free: told, .. } = error else {
        panic!("{error}")
    };
    assert_eq!((rows, bytes, map_bytes, told), (1 << 14, 16 << 20, 4 << 14, free));
    let text = error.to_string();
    assert!(text.contains("needs 16.1 MiB") && text.contains("8 MiB of its 8 MiB are free"), "{text}");
    assert_eq!(context.memory().unwrap().0, free, "no memory stays allocated");
    let error = DeviceCache::evicting(fifo(), &context, 1 << 20, 1 << 40, 1 << 20).unwrap_err();
    assert!(matches!(error, FillError::CacheTooLarge { .. }), "{error}");
}

#[test]
fn caches_that_do_not_match_the_table_are_refused() {
    if !cuda_sim::in_process_with("cuda::cache::caches_that_do_not_match_the_table_are_refused", &[]) {
        return;
    }
    let machine = Machine::new();
    let other = DeviceCache::evicting(fifo(), &machine.context, ROWS + 1, ROW_BYTES, 10).unwrap();
    let refused = Cached::on_device(machine.pinned(Kernel::Shift), other).unwrap_err();
    assert!(matches!(refused, FillError::Rows(GatherError::OtherTable { .. })), "{refused}");

    let filled = |ids: &[i64]| DeviceCache::filled(&machine.context, &machine.table_bytes, ROW_BYTES, ids, 1);
    for (ids, expected) in [
        ([1, ROWS as i64], GatherError::IdOutOfRange { position: 1, id: ROWS as i64, rows: ROWS }),
        ([-1, 1], GatherError::IdOutOfRange { position: 0, id: -1, rows: ROWS }),
        ([4, 4], GatherError::RepeatedId { position: 1, id: 4 }),
    ] {
        let refused = filled(&ids).unwrap_err();
        assert!(matches!(&refused, FillError::Rows(error) if *error == expected), "{refused}");
    }
}

/// Rows of several pieces being copied to the device, the last one partial: rows on both sides of every boundary.
#[test]
fn a_cache_of_several_pieces_has_the_rows_that_it_was_filled_with() {
    if !cuda_sim::in_process_with(
        "cuda::cache::a_cache_of_several_pieces_has_the_rows_that_it_was_filled_with",
        &SHAKEN,
    ) {
        return;
    }
    let context = Context::primary(0).unwrap();
    // In one case a row is larger than the piece that is copied at a time.
    for (row_bytes, rows) in [(40_009, 1000), ((16 << 20) + 5, 3)] {
        let table: Vec<u8> = (0..rows * row_bytes).map(|i| (i / row_bytes * 31 + i % 251) as u8).collect();
        let ids: Vec<i64> = (0..rows as i64).rev().collect();
        let cache = DeviceCache::filled(&context, &table, row_bytes, &ids, 2).unwrap();
        // A table of other bytes: only cached rows can be right.
        let other = vec![0; table.len()];
        let mut gather = gather(&kernels(&context), cache, &other, row_bytes, Kernel::Wide);
        let asked: Vec<i64> =
            [0, 1, 417, 418, 419, 420, 836, 837, 838, 839, 999].map(|id| id % rows as i64).into();
        let mut out = vec![0; asked.len() * row_bytes];
        let read = gather.fill(&asked, HostPlace::new(&mut out)).unwrap();
        for (&id, row) in asked.iter().zip(out.chunks_exact(row_bytes)) {
            assert!(row == &table[id as usize * row_bytes..][..row_bytes], "row {id} of {row_bytes} bytes");
        }
        assert_eq!(read.hits(), asked.len() as u64);
    }
}
