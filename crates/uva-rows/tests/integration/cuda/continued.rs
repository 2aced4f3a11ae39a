//! Sums that the CPU begins and a kernel continues with the rows of a cache: in slots, batch after batch.

use std::path::Path;
use std::sync::Arc;

use uva_cuda::memory::{IpcKind, PinnedBuffer, SharedBuffer, device_to_host};
use uva_cuda::{CudaEvent, CudaStream};
use uva_ops::lists::{Lists, Weights, degree_weights};
use uva_rows::cache::eviction;
use uva_rows::cuda::{
    DeviceCache, FillError, GridBound, HostMadeRows, HostPartialSums, SlotFiller, SlotPlace, SlotShape,
    SlotSums,
};
use uva_rows::{
    BeginPlace, GatherError, KeptRows, MappedTable, PartialSumBytes, RowSource, SumBeginner, SummedValues,
    SummingSource,
};

use super::counts::counts;
use super::machine::*;
use super::sums::{Gpu, Listed, ROWS_AT, ROWS_OF_TABLE, SLOT, SUMS_AT, WIDTH};

const ROW: usize = 4 * WIDTH;
const BATCHES: usize = 12;
const BYTES: [PartialSumBytes; 2] =
    [PartialSumBytes { sum: ROW, own: ROW }, PartialSumBytes { sum: ROW, own: 0 }];

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks().0.iter().map(|value| f32::from_ne_bytes(*value)).collect()
}

/// Row `id` of the table.
fn row(table: &[u8], id: i64) -> Vec<f32> {
    floats(&table[id as usize * ROW..][..ROW])
}

/// The sums in order: rows that are not cached, list by list, and then the cached ones. An own row ends its part.
fn expected(table: &[u8], batch: &Listed, kept: &dyn Fn(i64) -> bool, by_degrees: bool) -> Vec<f32> {
    let lists = Lists::new(&batch.offsets, &batch.indices, batch.ids.len()).unwrap();
    let (weights, own) = degree_weights::<f32, _>(&lists, &[], &batch.degrees, None);
    let sums = (0..lists.len()).flat_map(|list| {
        let edges = lists.edges(list);
        let mean = (1.0 / edges.len() as f64) as f32;
        let of_edge =
            |edge: usize| (batch.ids[lists.row(edge)], if by_degrees { weights[edge] } else { mean });
        let mut terms: Vec<(i64, f32)> = edges.map(of_edge).collect();
        if by_degrees {
            terms.push((batch.ids[list], own[list]));
        }
        // A stable order.
        terms.sort_by_key(|&(id, _)| kept(id));
        let mut sum = vec![0_f32; WIDTH];
        for (id, weight) in terms {
            sum.iter_mut().zip(row(table, id)).for_each(|(sum, value)| *sum = value.mul_add(weight, *sum));
        }
        sum
    });
    sums.collect()
}

#[test]
fn sums_in_slots_are_those_of_missed_rows_continued_with_cached_ones() {
    let test = "cuda::continued::sums_in_slots_are_those_of_missed_rows_continued_with_cached_ones";
    let temp = tempfile::tempdir().unwrap();
    let variables = [SHAKEN[0], ("CUDA_SIM_COUNTS", temp.path().to_str().unwrap())];
    if !cuda_sim::in_process_with(test, &variables) {
        return;
    }
    let gpu = Gpu::new();
    let Gpu { context, kernels } = &gpu;
    let mut random = Random(9);
    let numbers = || (0..ROWS_OF_TABLE * WIDTH).map(|at| ((at * 7919) % 2001) as f32 / 7.0 - 140.0);
    let table: Vec<u8> = numbers().flat_map(f32::to_le_bytes).collect();
    let all: Vec<i64> = (0..ROWS_OF_TABLE as i64).collect();
    for (share, cached) in [(0, vec![]), (1, all.iter().rev().step_by(3).copied().collect()), (3, all)] {
        let cache = DeviceCache::filled(context, &table, ROW, &cached, 1).unwrap();
        let shape = SlotShape { slots: 2, stride: SLOT };
        let buffer = Arc::new(SharedBuffer::create(context, 2 * SLOT, IpcKind::Auto, "2 slots").unwrap());
        let stream = CudaStream::new(context).unwrap();
        let source = gpu.staged(&table, ROW);
        let mut filler = SlotFiller::new(stream, kernels.clone(), source, buffer.clone(), shape).unwrap();
        filler.reserve_room(ROWS_AT, ROWS_OF_TABLE).unwrap();
        let room = BYTES[0].room(ROWS_OF_TABLE);
        filler.continue_sums(cache, room, None, GridBound::Blocks(2)).unwrap();
        let values = SummedValues { narrow: None, widened_own: false };
        let mut host = SummingSource::new(MappedTable::new(&table, ROW, 1).unwrap(), values).unwrap();
        let mut beginners =
            BYTES.map(|bytes| SumBeginner::new(KeptRows::new(ROWS_OF_TABLE, &cached).unwrap(), bytes));
        let kept = KeptRows::new(ROWS_OF_TABLE, &cached).unwrap();
        let ready = [(); 2].map(|()| CudaEvent::local(filler.stream().made_in()).unwrap());
        let free = [(); 2].map(|()| CudaEvent::local(context).unwrap());
        let consumer = CudaStream::new(context).unwrap();
        let folder = std::env::var_os("CUDA_SIM_COUNTS").filter(|_| !cuda_sim::on_a_gpu());
        let calls = || folder.as_ref().map(|folder| counts(Path::new(folder))).unwrap_or_default();
        let before = calls();
        let mut seen = Vec::new();
        for number in 0..BATCHES {
            let (slot, by_degrees) = (number % 2, number / 2 % 2 == 1);
            let batch = loop {
                let batch = Listed::new(&mut random, ROWS_OF_TABLE);
                if batch.offsets.len() > 1 {
                    break batch;
                }
            };
            let arrays: [&[u8]; 4] = [
                bytemuck::cast_slice(&batch.ids),
                bytemuck::cast_slice(&batch.offsets),
                bytemuck::cast_slice(&batch.indices),
                bytemuck::cast_slice(&batch.degrees),
            ];
            let mut at = 64;
            let arrays = arrays.map(|bytes| {
                let place = (at, bytes);
                at = (at + bytes.len()).next_multiple_of(64);
                place
            });
            let lists = Lists::new(&batch.offsets, &batch.indices, batch.ids.len()).unwrap();
            let (weights, own) = degree_weights(&lists, &[], &batch.degrees, None);
            let beginning = std::cell::RefCell::new((&mut host, &mut beginners[usize::from(by_degrees)]));
            let begin = |room: &mut [u8]| {
                let mut beginning = beginning.borrow_mut();
                let (host, beginner) = &mut *beginning;
                let weights = if by_degrees { Weights::Each(&weights[..]) } else { Weights::Mean };
                let own = by_degrees.then_some(&own[..]);
                beginner.begin(*host, &batch.ids, BeginPlace { room, lists, weights, own, threads: 1 })
            };
            let sums = SlotSums {
                destinations: lists.len(),
                edges: batch.indices.len(),
                indptr_at: arrays[1].0,
                indices_at: arrays[2].0,
                weights_at: None,
                degrees_at: by_degrees.then_some(arrays[3].0),
                sums_at: SUMS_AT,
                own: !by_degrees,
            };
            let place = SlotPlace {
                slot,
                arrays: &arrays,
                on_device: None,
                ids_at: 64,
                features_at: ROWS_AT,
                sums: Some(sums),
                made: None,
                begun: Some(HostPartialSums { begin: &begin }),
                brought: None,
                tables_at: None,
                of_set: None,
                stamp: number as u64 + 1,
                after: (number >= 2).then_some(&free[slot] as _),
                ready: &ready[slot],
            };
            filler.submit(&batch.ids, place).unwrap();
            consumer.wait(&ready[slot]).unwrap();
            let mut out = PinnedBuffer::new(context, SLOT, "a slot").unwrap();
            let from = buffer.address() + (slot * SLOT) as u64;
            // SAFETY: both ends live until the stream is waited for below.
            unsafe { device_to_host(&consumer, from, out.as_mut_slice()) }.unwrap();
            free[slot].record(&consumer).unwrap();
            seen.push((out, by_degrees, batch));
        }
        consumer.synchronize().unwrap();
        let fills = filler.drain().unwrap();
        assert!(
            fills.iter().all(|fill| fill.bad.is_none() && fill.rows == 0 && fill.began_ns <= fill.ended_ns)
        );
        for (number, (slot, by_degrees, batch)) in seen.iter().enumerate() {
            let case = format!("{share} of three rows cached, batch {number}");
            let slot = slot.as_slice();
            let sums = expected(&table, batch, &|id| kept.has(id), *by_degrees);
            let bytes: Vec<u8> = sums.iter().flat_map(|sum| sum.to_ne_bytes()).collect();
            assert!(slot[SUMS_AT..][..bytes.len()] == bytes, "{case}: other sums");
            for (list, &id) in batch.ids[..batch.offsets.len() - 1].iter().enumerate().filter(|_| !by_degrees)
            {
                let own = floats(&slot[ROWS_AT + list * ROW..][..ROW]);
                assert!(own == row(&table, id), "{case}: another own row of list {list}");
            }
            // The seventh number of the report.
            let hits = u64::from_ne_bytes(slot[48..56].try_into().unwrap());
            assert_eq!(hits, batch.ids.iter().filter(|&&id| kept.has(id)).count() as u64, "{case}");
        }
        if folder.is_some() {
            let behind = calls();
            let of_batches = |functions: [&str; 2]| {
                let count = |calls: &std::collections::BTreeMap<String, u64>| -> u64 {
                    functions.iter().filter_map(|name| calls.get(*name)).sum()
                };
                (count(&behind) - count(&before)) as f64 / BATCHES as f64
            };
            // One upload of the batch and one of the CPU's part; a launch that sums and one that completes the report.
            let calls =
                ["cuMemcpyHtoDAsync", "cuLaunchKernel"].map(|name| of_batches([name, &format!("{name}_v2")]));
            assert_eq!(calls, [2.0, 2.0]);
        }
    }
}

#[test]
fn sums_that_cannot_be_continued_are_refused_with_nothing_enqueued() {
    let test = "cuda::continued::sums_that_cannot_be_continued_are_refused_with_nothing_enqueued";
    if !cuda_sim::in_process_with(test, &[]) {
        return;
    }
    let gpu = Gpu::new();
    let Gpu { context, kernels } = &gpu;
    let table = vec![1; 40 * 20];
    let buffer = Arc::new(SharedBuffer::create(context, 4096, IpcKind::Auto, "a slot").unwrap());
    let filler = || {
        let (source, stream) = (gpu.staged(&table, 20), CudaStream::new(context).unwrap());
        let shape = SlotShape { slots: 1, stride: 4096 };
        let mut filler = SlotFiller::new(stream, kernels.clone(), source, buffer.clone(), shape).unwrap();
        filler.reserve_room(1024, 40).unwrap();
        filler
    };
    let cache = |row_bytes: usize| DeviceCache::filled(context, &table, row_bytes, &[3, 4], 1).unwrap();
    let bound = GridBound::Device;
    let evicts = DeviceCache::evicting(eviction::by_name("fifo").unwrap(), context, 40, 20, 4).unwrap();
    let refused = filler().continue_sums(evicts, 512, None, bound).unwrap_err();
    assert!(refused.to_string().contains("keeps its rows"), "{refused}");
    let refused = filler().continue_sums(cache(10), 512, None, bound).unwrap_err();
    assert!(matches!(refused, FillError::Rows(GatherError::OtherTable { .. })), "{refused}");

    let ready = CudaEvent::local(context).unwrap();
    let (ids, lists) = ([1_i64, 2, 3], [0_i32, 1, 3, 0, 1, 2]);
    let arrays: [(usize, &[u8]); 2] = [(64, bytemuck::cast_slice(&ids)), (128, bytemuck::cast_slice(&lists))];
    let sums = SlotSums {
        destinations: 2,
        edges: 3,
        indptr_at: 128,
        indices_at: 140,
        weights_at: None,
        degrees_at: None,
        sums_at: 2048,
        own: true,
    };
    let never = |_: &mut [u8]| -> Result<_, GatherError> { panic!("called for a fill that is refused") };
    let place = SlotPlace {
        slot: 0,
        arrays: &arrays,
        on_device: None,
        ids_at: 64,
        features_at: 1024,
        sums: Some(sums),
        made: None,
        begun: Some(HostPartialSums { begin: &never }),
        brought: None,
        tables_at: None,
        of_set: None,
        stamp: 1,
        after: None,
        ready: &ready,
    };
    let mut continuing = filler();
    continuing.continue_sums(cache(20), 512, None, bound).unwrap();
    let nothing = |_: &mut [&mut [u8]]| Ok(());
    let refused = |filler: &mut SlotFiller<_>, wrong| {
        let refused = filler.submit(&ids, wrong);
        assert!(matches!(refused, Err(FillError::Layout(_))), "{refused:?}");
    };
    refused(&mut filler(), place);
    for wrong in [
        SlotPlace { begun: None, ..place },
        SlotPlace { sums: None, ..place },
        SlotPlace { sums: Some(SlotSums { destinations: 4, ..sums }), ..place },
        SlotPlace { sums: Some(SlotSums { sums_at: 1040, ..sums }), ..place },
        SlotPlace { made: Some(HostMadeRows { ranges: &[], make: &nothing }), ..place },
    ] {
        refused(&mut continuing, wrong);
    }
    // Sums that the CPU cannot begin are not filled either.
    let fails = |_: &mut [u8]| Err(GatherError::Threads { threads: 0, reason: String::new() });
    let failed =
        continuing.submit(&ids, SlotPlace { begun: Some(HostPartialSums { begin: &fails }), ..place });
    assert!(matches!(failed, Err(FillError::Rows(_))), "{failed:?}");
    assert_eq!(continuing.drain().unwrap(), []);
}
