//! Sums in slots: equal to the host's bit for bit, for every source of rows, batch after batch in two slots and one
//! scratch buffer.

use std::sync::Arc;

use uva_cuda::kernels::gather::{GatherKernels, Kernel};
use uva_cuda::memory::{IpcKind, PinOptions, PinnedTable, SharedBuffer};
use uva_cuda::{Context, CudaEvent, CudaStream};
use uva_ops::lists::{Lists, Weights, degree_weights};
use uva_rows::cuda::{
    DeviceCache, DeviceRows, DeviceSource, DeviceTable, FillError, GridBound, Pinned, SlotFiller, SlotPlace,
    SlotShape, SlotSums, SplitSource, StagingSource,
};
use uva_rows::{
    Cached, MappedTable, NarrowFloat, Reduction, RowSource, SumPlace, SummedValues, SummingSource,
};

use super::machine::*;

/// A batch's ids and lists, packed as in a slot.
pub struct Listed {
    pub ids: Vec<i64>,
    pub offsets: Vec<i32>,
    pub indices: Vec<i32>,
    pub sampled: Vec<f32>,
    pub degrees: Vec<i32>,
}

impl Listed {
    pub fn new(random: &mut Random, rows: usize) -> Self {
        let nodes = 1 + random.below(rows / 2);
        // Each row of the table at most once, as in a batch.
        let first = random.below(rows);
        let ids: Vec<i64> = (0..nodes).map(|node| ((first + node * 7) % rows) as i64).collect();
        let lists = random.below(nodes + 1);
        let (mut offsets, mut indices) = (vec![0], Vec::new());
        for _ in 0..lists {
            indices.extend((0..random.below(9)).map(|_| random.below(nodes) as i32));
            offsets.push(indices.len() as i32);
        }
        let sampled = indices.iter().map(|_| random.below(100) as f32 / 50.0).collect();
        let degrees = ids.iter().map(|_| random.below(300) as i32).collect();
        Self { ids, offsets, indices, sampled, degrees }
    }
}

/// The GPU, and the kernels, which take seconds to compile.
pub struct Gpu {
    pub context: Arc<Context>,
    pub kernels: GatherKernels,
}

impl Gpu {
    pub fn new() -> Self {
        let context = Context::primary(0).unwrap();
        Self { kernels: kernels(&context), context }
    }

    fn pinned(&self, table: &[u8], row_bytes: usize) -> Pinned {
        let owner = Arc::new(Aside::of(table));
        let table = Arc::new(PinnedTable::new(&self.context, owner, &PinOptions::default()).unwrap());
        Pinned::new(self.kernels.clone(), table, row_bytes, Kernel::Wide, GridBound::Blocks(2)).unwrap()
    }

    pub fn staged(&self, table: &[u8], row_bytes: usize) -> StagingSource<MappedTable<'static>> {
        let table = MappedTable::owned(Arc::new(Aside::of(table)), row_bytes, 1).unwrap();
        StagingSource::new(&self.context, table).unwrap()
    }
}

/// Sizes of a slot and its parts: enough for every batch below.
pub const ROWS_OF_TABLE: usize = 160;
pub const WIDTH: usize = 50;
pub const SLOT: usize = 128 << 10;
pub const ROWS_AT: usize = 16 << 10;
pub const SUMS_AT: usize = ROWS_AT + ROWS_OF_TABLE * WIDTH * 4;

/// Fills slots with sums of a table's rows and compares each with the host's.
fn sums_are_the_hosts<S: DeviceSource>(
    gpu: &Gpu,
    case: &str,
    narrow: Option<NarrowFloat>,
    make: &dyn Fn(&[u8], usize) -> S,
) {
    let Gpu { context, kernels } = gpu;
    let mut random = Random(3);
    let values = SummedValues { narrow, widened_own: false };
    let row_bytes = WIDTH * narrow.map_or(4, NarrowFloat::bytes);
    let table: Vec<u8> = match narrow {
        // Numbers of every type: no exponent of all ones.
        None => {
            (0..ROWS_OF_TABLE * WIDTH).flat_map(|_| (random.below(2001) as f32 / 7.0).to_le_bytes()).collect()
        }
        Some(_) => (0..ROWS_OF_TABLE * row_bytes).map(|_| random.below(0x3c) as u8).collect(),
    };
    let shape = SlotShape { slots: 2, stride: SLOT };
    let buffer = Arc::new(SharedBuffer::create(context, 2 * SLOT, IpcKind::Auto, "2 slots").unwrap());
    let source = make(&table, row_bytes);
    let stream = CudaStream::new(context).unwrap();
    let mut filler = SlotFiller::new(stream, kernels.clone(), source, buffer.clone(), shape).unwrap();
    filler.reserve_room(ROWS_AT, ROWS_OF_TABLE).unwrap();
    filler.sum_rows(ROWS_OF_TABLE, narrow, GridBound::Blocks(2)).unwrap();
    let ready = [(); 2].map(|()| CudaEvent::local(filler.stream().made_in()).unwrap());
    let free = [(); 2].map(|()| CudaEvent::local(context).unwrap());
    let consumer = CudaStream::new(context).unwrap();
    let mut host = SummingSource::new(MappedTable::new(&table, row_bytes, 1).unwrap(), values).unwrap();
    let mut seen = Vec::new();
    for number in 0..24_usize {
        let (slot, ways) = (number % 2, [(false, false), (true, false), (false, true), (true, true)]);
        let (weighed, by_degrees) = ways[number / 2 % 4];
        let batch = Listed::new(&mut random, ROWS_OF_TABLE);
        let arrays: [&[u8]; 5] = [
            bytemuck::cast_slice(&batch.ids),
            bytemuck::cast_slice(&batch.offsets),
            bytemuck::cast_slice(&batch.indices),
            bytemuck::cast_slice(&batch.sampled),
            bytemuck::cast_slice(&batch.degrees),
        ];
        let mut at = 64;
        let arrays = arrays.map(|bytes| {
            let place = (at, bytes);
            at = (at + bytes.len()).next_multiple_of(64);
            place
        });
        let lists = batch.offsets.len() - 1;
        let sums = SlotSums {
            destinations: lists,
            edges: batch.indices.len(),
            indptr_at: arrays[1].0,
            indices_at: arrays[2].0,
            weights_at: weighed.then_some(arrays[3].0),
            degrees_at: by_degrees.then_some(arrays[4].0),
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
            brought: None,
            tables_at: None,
            of_set: None,
            begun: None,
            stamp: number as u64 + 1,
            after: (number >= 2).then_some(&free[slot] as _),
            ready: &ready[slot],
        };
        filler.submit(&batch.ids, place).unwrap();
        consumer.wait(&ready[slot]).unwrap();
        let mut out = uva_cuda::memory::PinnedBuffer::new(context, SLOT, "a slot").unwrap();
        let from = buffer.address() + (slot * SLOT) as u64;
        // SAFETY: both ends live until the stream is waited for below.
        unsafe { uva_cuda::memory::device_to_host(&consumer, from, out.as_mut_slice()) }.unwrap();
        free[slot].record(&consumer).unwrap();

        let listed = Lists::new(&batch.offsets, &batch.indices, batch.ids.len()).unwrap();
        let sampled = if weighed { &batch.sampled[..] } else { &[] };
        let (weights, own_weights) = degree_weights(&listed, sampled, &batch.degrees, None);
        let mut expected = vec![0.0; lists * WIDTH];
        let mut rows = vec![0; if by_degrees { 0 } else { lists * row_bytes }];
        let place = SumPlace {
            out: &mut expected,
            own: &mut rows,
            argmax: &mut [],
            lists: listed,
            reduction: Reduction::Sum {
                weights: match (by_degrees, sampled) {
                    (true, _) => Weights::Each(&weights[..]),
                    (false, []) => Weights::Mean,
                    (false, sampled) => Weights::Each(sampled),
                },
                own: by_degrees.then_some(&own_weights[..]),
            },
            threads: 1,
        };
        host.fill(&batch.ids, place).unwrap();
        seen.push((out, expected, rows));
    }
    consumer.synchronize().unwrap();
    let fills = filler.drain().unwrap();
    assert!(fills.iter().all(|fill| fill.bad.is_none() && fill.read.total() == fill.rows as u64), "{case}");
    for (number, (slot, expected, rows)) in seen.iter().enumerate() {
        let slot = slot.as_slice();
        let bytes: Vec<u8> = expected.iter().flat_map(|sum| sum.to_ne_bytes()).collect();
        assert!(
            slot[SUMS_AT..][..bytes.len()] == bytes,
            "{case}: other sums than the host's in batch {number}"
        );
        assert!(slot[ROWS_AT..][..rows.len()] == rows[..], "{case}: other own rows in batch {number}");
    }
}

#[test]
fn sums_in_slots_are_the_hosts_for_every_type_of_values() {
    if !cuda_sim::in_process_with("cuda::sums::sums_in_slots_are_the_hosts_for_every_type_of_values", &SHAKEN)
    {
        return;
    }
    let gpu = Gpu::new();
    for narrow in std::iter::once(None).chain(NarrowFloat::ALL.map(Some)) {
        sums_are_the_hosts(&gpu, &format!("{narrow:?}"), narrow, &|table, row_bytes| {
            gpu.pinned(table, row_bytes)
        });
    }
}

#[test]
fn sums_in_slots_are_the_hosts_for_every_gather() {
    if !cuda_sim::in_process_with("cuda::sums::sums_in_slots_are_the_hosts_for_every_gather", &SHAKEN) {
        return;
    }
    let gpu = Gpu::new();
    let Gpu { context, kernels } = &gpu;
    sums_are_the_hosts(&gpu, "dma", None, &|table, row_bytes| gpu.staged(table, row_bytes));
    sums_are_the_hosts(&gpu, "split", None, &|table, row_bytes| {
        SplitSource::new(gpu.pinned(table, row_bytes), gpu.staged(table, row_bytes)).unwrap()
    });
    sums_are_the_hosts(&gpu, "device", None, &|table, row_bytes| {
        let table = Arc::new(DeviceTable::new(context, table, "a table").unwrap());
        DeviceRows::new(kernels.clone(), table, row_bytes, Kernel::Shift, GridBound::Blocks(2)).unwrap()
    });
    sums_are_the_hosts(&gpu, "a static cache", None, &|table, row_bytes| {
        let ids: Vec<i64> = (0..ROWS_OF_TABLE as i64).step_by(3).collect();
        let cache = DeviceCache::filled(context, table, row_bytes, &ids, 1).unwrap();
        Cached::on_device(gpu.pinned(table, row_bytes), cache).unwrap()
    });
    sums_are_the_hosts(&gpu, "a cache that evicts", None, &|table, row_bytes| {
        let fifo = uva_rows::cache::eviction::by_name("fifo").unwrap();
        let cache = DeviceCache::evicting(fifo, context, ROWS_OF_TABLE, row_bytes, 40).unwrap();
        Cached::on_device(gpu.pinned(table, row_bytes), cache).unwrap()
    });
}

#[test]
fn lists_without_scratch_or_with_too_many_rows_are_refused_unenqueued() {
    if !cuda_sim::in_process_with(
        "cuda::sums::lists_without_scratch_or_with_too_many_rows_are_refused_unenqueued",
        &[],
    ) {
        return;
    }
    let gpu = Gpu::new();
    let Gpu { context, kernels } = &gpu;
    let table = vec![1; 40 * 20];
    let shape = SlotShape { slots: 1, stride: 4096 };
    let buffer = Arc::new(SharedBuffer::create(context, 4096, IpcKind::Auto, "a slot").unwrap());
    let filler = |scratch: Option<usize>| {
        let (source, stream) = (gpu.pinned(&table, 20), CudaStream::new(context).unwrap());
        let mut filler = SlotFiller::new(stream, kernels.clone(), source, buffer.clone(), shape).unwrap();
        filler.reserve_room(1024, 40).unwrap();
        if let Some(rows) = scratch {
            filler.sum_rows(rows, None, GridBound::Device).unwrap();
        }
        filler
    };
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
    let place = |sums| SlotPlace {
        slot: 0,
        arrays: &arrays,
        on_device: None,
        ids_at: 64,
        features_at: 1024,
        sums,
        made: None,
        brought: None,
        tables_at: None,
        of_set: None,
        begun: None,
        stamp: 1,
        after: None,
        ready: &ready,
    };
    let refused = |filler: &mut SlotFiller<Pinned>, sums, part: &str| match filler.submit(&ids, place(sums)) {
        Err(FillError::Layout(what)) => assert!(what.contains(part), "`{part}` is missing in: {what}"),
        other => panic!("not refused: {other:?}"),
    };
    refused(&mut filler(None), Some(sums), "scratch");
    let mut small = filler(Some(2));
    refused(&mut small, Some(sums), "3 rows with the lists");
    let mut summing = filler(Some(3));
    refused(&mut summing, None, "scratch");
    refused(&mut summing, Some(SlotSums { destinations: 4, ..sums }), "3 rows with the lists");
    refused(&mut summing, Some(SlotSums { indices_at: 152, ..sums }), "not in any of the arrays");
    refused(&mut summing, Some(SlotSums { sums_at: 1040, ..sums }), "overlap");
    refused(&mut summing, Some(SlotSums { sums_at: 4080, ..sums }), "don't fit");
    summing.fill(&ids, place(Some(sums))).unwrap();
    let late = summing.sum_rows(9, None, GridBound::Device).unwrap_err();
    assert!(late.to_string().contains("before the first fill"), "{late}");
}
