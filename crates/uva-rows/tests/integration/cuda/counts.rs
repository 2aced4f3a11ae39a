//! Driver calls of a batch in the steady state, as the simulator counts them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use uva_cuda::kernels::gather::Kernel;
use uva_cuda::memory::{IpcKind, PinnedBuffer, SharedBuffer, device_to_host, host_to_device};
use uva_cuda::{CudaEvent, CudaStream};
use uva_rows::cache::eviction;
use uva_rows::cuda::{
    DeviceCache, DeviceRows, DeviceSource, DeviceTable, GridBound, OnDevice, SlotFiller, SlotPlace,
};
use uva_rows::{Cached, RowSource};

use super::machine::*;

/// The figures of docs/internals/kernels.md, with the calls that each counts.
const COLUMNS: [(&str, &[&str]); 6] = [
    ("copies to the device", &["cuMemcpyHtoDAsync"]),
    ("launches", &["cuLaunchKernel"]),
    ("copies to the host", &["cuMemcpyDtoHAsync"]),
    ("events recorded", &["cuEventRecord"]),
    ("waits of streams", &["cuStreamWaitEvent"]),
    ("waits of the host", &["cuStreamSynchronize", "cuEventSynchronize", "cuCtxSynchronize"]),
];

/// Number of counted batches, after the same number of uncounted ones.
const BATCHES: u64 = 8;

/// Number of calls of each function by this process so far.
pub fn counts(folder: &Path) -> BTreeMap<String, u64> {
    let file = std::fs::read_dir(folder).unwrap().next().expect("a process counts").unwrap();
    let text = std::fs::read_to_string(file.path()).unwrap();
    let line = |line: &str| {
        let (name, count) = line.split_once(' ').expect("a name and a count");
        (name.trim_end_matches("_v2").to_owned(), count.trim().parse().expect("a count"))
    };
    text.lines().map(line).collect()
}

/// Fills slots until every batch has the same calls, and returns those of one batch.
fn calls_of_a_batch<S: DeviceSource>(mut filler: SlotFiller<S>, folder: &Path) -> BTreeMap<String, u64> {
    let context = uva_cuda::Context::primary(0).unwrap();
    let event = || CudaEvent::local(&context).unwrap();
    let (ready, free) = ([event(), event()], [event(), event()]);
    let mut random = Random(4);
    let mut before = BTreeMap::new();
    for index in 0..2 * BATCHES {
        if index == BATCHES {
            before = counts(folder);
        }
        let slot = (index % 2) as usize;
        // All rows differ from those before, so that a cache that evicts inserts some.
        let batch = Batch::new(&mut random, 500, index + 1);
        batch.fill(&mut filler, slot, Some(&free[slot]), &ready[slot]).unwrap();
        // The host is never ahead of the device, so it has no reason to wait.
        while filler.finished().unwrap().is_empty() {
            std::thread::yield_now();
        }
    }
    let behind = counts(folder);
    behind
        .into_iter()
        .map(|(function, count)| {
            let more = count - before.get(&function).copied().unwrap_or(0);
            (function, more)
        })
        .filter(|(function, count)| *count > 0 && function != "cuEventQuery")
        .map(|(function, count)| {
            // A wait that does not occur in every batch is rounded up, to be visible.
            (function, count.div_ceil(BATCHES))
        })
        .collect()
}

#[test]
fn a_batch_costs_one_upload_few_launches_and_no_wait_of_the_host() {
    let test = "cuda::counts::a_batch_costs_one_upload_few_launches_and_no_wait_of_the_host";
    let temp = tempfile::tempdir().unwrap();
    if cuda_sim::on_a_gpu()
        || !cuda_sim::in_process_with(test, &[("CUDA_SIM_COUNTS", temp.path().to_str().unwrap())])
    {
        return;
    }
    let folder = std::env::var_os("CUDA_SIM_COUNTS").expect("the folder");
    let folder = Path::new(&folder);
    let machine = Machine::new();
    let context = &machine.context;
    let ids: Vec<i64> = (0..ROWS as i64).step_by(3).collect();
    let cached = |cache| Cached::on_device(machine.pinned(Kernel::Wide), cache).unwrap();
    let fixed = cached(DeviceCache::filled(context, &machine.table_bytes, ROW_BYTES, &ids, 1).unwrap());
    let fifo = eviction::by_name("fifo").unwrap();
    let evicts = cached(DeviceCache::evicting(fifo, context, ROWS, ROW_BYTES, 100).unwrap());
    let copy = Arc::new(DeviceTable::new(context, &machine.table_bytes, "a table").unwrap());
    let bound = GridBound::Multiprocessors(1);
    let on_device = DeviceRows::new(machine.kernels.clone(), copy, ROW_BYTES, Kernel::Wide, bound).unwrap();
    let stream = || CudaStream::new(context).unwrap();
    let of = |source: Box<dyn DeviceSource>| calls_of_a_batch(machine.filler_on(stream(), source), folder);
    let beside = machine.spliced(&ids);
    let ways: [(&str, Box<dyn DeviceSource>); 8] = [
        ("`zero-copy`", Box::new(machine.pinned(Kernel::Wide))),
        ("`zero-copy`, by region", Box::new(machine.pinned(Kernel::Wide).by_region(true))),
        ("`zero-copy`, cached rows", Box::new(fixed)),
        ("`zero-copy`, a cache that evicts", Box::new(evicts)),
        ("`device`", Box::new(on_device)),
        ("`split`", Box::new(machine.split(Kernel::Wide))),
        ("`dma`", Box::new(machine.staged())),
        ("`dma`, with cached rows", Box::new(beside)),
    ];
    let names = COLUMNS.map(|(name, _)| name).join(" | ");
    let mut table = format!("| rows by | {names} |\n|---|{}\n", "---|".repeat(COLUMNS.len()));
    for (name, source) in ways {
        // The second copy is the piece of rows that the CPU gathered, and the third has the positions of the rows.
        let copies_of_rows = match name {
            "`split`" | "`dma`" => 1,
            "`dma`, with cached rows" => 2,
            _ => 0,
        };
        let calls = of(source);
        let of_calls = |functions: &[&str]| -> u64 {
            functions.iter().filter_map(|function| calls.get(*function)).sum()
        };
        let [uploads, launches, _, _, _, waits] = COLUMNS.map(|(_, functions)| of_calls(functions));
        assert_eq!(uploads, 1 + copies_of_rows, "{name}: {calls:?}");
        // Three of them put the reads in order.
        let most = if name.contains("by region") { 5 } else { 3 };
        assert!(launches <= most && waits == 0, "{name}: {calls:?}");
        let takes_or_frees = calls.keys().find(|call| call.contains("Alloc") || call.contains("Free"));
        assert_eq!(takes_or_frees, None, "{name}: {calls:?}");
        let figures = COLUMNS.map(|(_, functions)| of_calls(functions).to_string()).join(" | ");
        table += &format!("| {name} | {figures} |\n");
    }
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/internals/kernels.md");
    let page = std::fs::read_to_string(page).expect("the page");
    assert!(page.contains(&table), "docs/internals/kernels.md should have:\n{table}");
}

/// The upload of a batch runs concurrently with the gather of the batch before it.
#[test]
fn an_upload_does_not_wait_for_the_gather_before_it() {
    if !cuda_sim::in_process_with("cuda::counts::an_upload_does_not_wait_for_the_gather_before_it", &[]) {
        return;
    }
    let machine = Machine::new();
    let own = CudaStream::new(&machine.context).unwrap();
    // SAFETY: the stream outlives the filler, which is dropped before it.
    let lent = unsafe { CudaStream::foreign(&machine.context, own.raw()) };
    let mut filler = machine.filler_on(lent, machine.pinned(Kernel::Wide));
    let event = || CudaEvent::local(&machine.context).unwrap();
    let ready = [event(), event()];
    let mut random = Random(8);
    let consumer = CudaStream::new(&machine.context).unwrap();
    let mut pool = Pool::new(&machine, 1, 0);
    let mut out = PinnedBuffer::new(&machine.context, FEATURES_AT, "arrays of a slot").unwrap();
    let hold = pool.hold(&machine, &own);
    let batches = [Batch::new(&mut random, 100, 1), Batch::new(&mut random, 200, 2)];
    for (slot, batch) in batches.iter().enumerate() {
        batch.fill(&mut filler, slot, None, &ready[slot]).unwrap();
    }
    // The host is not notified of an arrived upload, so it polls.
    let until = Instant::now() + Duration::from_secs(30);
    let mut seen = false;
    while !seen && Instant::now() < until {
        // SAFETY: both ends live, and the copy is waited for.
        unsafe { device_to_host(&consumer, machine.buffer.address() + STRIDE as u64, out.as_mut_slice()) }
            .unwrap();
        consumer.synchronize().unwrap();
        let ids = batches[1].ids_range();
        seen = out.as_slice()[ids.clone()] == batches[1].payload[ids];
    }
    assert!(seen, "the arrays of the second batch wait for the first gather");
    assert!(ready.iter().all(|ready| !ready.query().unwrap()), "the gathers are held");
    hold.let_go();
    assert_eq!(filler.drain().unwrap().len(), 2);
    drop(filler);
}

/// Arrays that are already on the device, as from a sampler there, are copied to the slot by one launch.
#[test]
fn arrays_on_the_device_are_copied_by_one_launch_whatever_their_number() {
    let test = "cuda::counts::arrays_on_the_device_are_copied_by_one_launch_whatever_their_number";
    let temp = tempfile::tempdir().unwrap();
    if cuda_sim::on_a_gpu()
        || !cuda_sim::in_process_with(test, &[("CUDA_SIM_COUNTS", temp.path().to_str().unwrap())])
    {
        return;
    }
    let folder = std::env::var_os("CUDA_SIM_COUNTS").expect("the folder");
    let folder = Path::new(&folder);
    let machine = Machine::new();
    let context = &machine.context;
    let stream = CudaStream::new(context).unwrap();
    let mut filler = machine.filler_on(CudaStream::new(context).unwrap(), machine.pinned(Kernel::Wide));
    let ids: Vec<i64> = (0..40).map(|i| i * 7 % ROWS as i64).collect();
    let id_bytes: &[u8] = bytemuck::cast_slice(&ids);
    let memory = Arc::new(SharedBuffer::create(context, 4096, IpcKind::Auto, "a batch").unwrap());
    // The ids, and eight more arrays, each on a separate line.
    let mut image = vec![0_u8; 4096];
    image.iter_mut().enumerate().for_each(|(at, byte)| *byte = (at % 251) as u8);
    image[..id_bytes.len()].copy_from_slice(id_bytes);
    // SAFETY: as long as the memory, which is not used otherwise, and waited for.
    unsafe { host_to_device(&stream, &image, memory.address()) }.unwrap();
    stream.synchronize().unwrap();
    let mut arrays = vec![(64, 0..id_bytes.len())];
    arrays.extend((0..8).map(|number| (512 + number * 64, 1024 + number * 128..1024 + number * 128 + 60)));
    let (ready, taken) = (CudaEvent::local(context).unwrap(), CudaEvent::local(context).unwrap());
    let fill = |filler: &mut SlotFiller<_>, stamp| {
        let on_device = OnDevice { memory: &memory, arrays: &arrays, count: ids.len(), taken: &taken };
        let place = SlotPlace {
            slot: 0,
            arrays: &[],
            on_device: Some(on_device),
            ids_at: 64,
            features_at: FEATURES_AT,
            sums: None,
            made: None,
            brought: None,
            tables_at: None,
            of_set: None,
            begun: None,
            stamp,
            after: None,
            ready: &ready,
        };
        filler.submit(&[], place).unwrap();
        filler.drain().unwrap();
    };
    fill(&mut filler, 1);
    let before = counts(folder);
    fill(&mut filler, 2);
    let more = |function: &str| {
        let of = |counts: &BTreeMap<String, u64>| counts.get(function).copied().unwrap_or(0);
        of(&counts(folder)) - of(&before)
    };
    // The copies, the gather and its end.
    assert_eq!((more("cuLaunchKernel"), more("cuMemcpyDtoDAsync"), more("cuMemcpyHtoDAsync")), (3, 0, 1));
    let mut slot = PinnedBuffer::new(context, STRIDE, "a slot").unwrap();
    // SAFETY: both ends live, and the copy is waited for.
    unsafe { device_to_host(&stream, machine.buffer.address(), slot.as_mut_slice()) }.unwrap();
    stream.synchronize().unwrap();
    let slot = slot.as_slice();
    for (to, from) in &arrays {
        assert!(slot[*to..][..from.len()] == image[from.clone()], "the array at {to}");
    }
    for (row, &id) in ids.iter().enumerate() {
        let expected = &machine.table_bytes[id as usize * ROW_BYTES..][..ROW_BYTES];
        assert!(&slot[FEATURES_AT + row * ROW_BYTES..][..ROW_BYTES] == expected, "row {row}");
    }
}
