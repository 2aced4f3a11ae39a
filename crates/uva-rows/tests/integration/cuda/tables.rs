//! Rows of several tables, each by ids of its own, in a slot by one launch.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use uva_cuda::kernels::gather::GatherKernels;
use uva_cuda::memory::{IpcKind, PinOptions, PinnedTable, SharedBuffer, device_to_host};
use uva_cuda::{Context, CudaEvent, CudaStream};
use uva_rows::RowSource;
use uva_rows::cuda::{
    BadId, DeviceRows, DeviceTable, FillError, GridBound, HostMadeRows, Kernel, KernelRead, KernelTable,
    NoRows, Pinned, SlotFiller, SlotPlace, SlotShape, TablePlace, TableSet,
};

use super::counts::counts;
use super::machine::kernels;

/// Byte `at` of a row of a table.
fn byte(table: usize, row: usize, at: usize) -> u8 {
    (table * 59 + row * 31 + at * 7 + row * at) as u8
}

/// Rows and bytes of a row of this table: tables of all widths, some without rows.
fn shape_of(table: usize) -> (usize, usize) {
    let row_bytes = [16, 47, 400, 4, 2, 1028, 128][table % 7];
    (if table % 9 == 3 { 0 } else { 20 + 13 * table }, row_bytes)
}

fn table_bytes(table: usize) -> Vec<u8> {
    let (rows, row_bytes) = shape_of(table);
    (0..rows).flat_map(|row| (0..row_bytes).map(move |at| byte(table, row, at))).collect()
}

/// Batches of these tables in slots.
struct Bench {
    context: Arc<Context>,
    buffer: Arc<SharedBuffer>,
    filler: SlotFiller<NoRows>,
    ready: CudaEvent,
    tables: usize,
}

const STRIDE: usize = 1 << 20;

/// The offset of the rows in a slot.
const ROWS_AT: usize = 1 << 16;

impl Bench {
    fn new<T: KernelTable + std::fmt::Debug + Send + Sync + 'static>(
        kernels: &GatherKernels,
        tables: usize,
        read: impl Fn(&GatherKernels, Vec<u8>, usize) -> KernelRead<T>,
        reserved: usize,
    ) -> Self {
        let context = Arc::clone(kernels.context());
        let shape = SlotShape { slots: 2, stride: STRIDE };
        let buffer = SharedBuffer::create(&context, 2 * STRIDE, IpcKind::Auto, "two slots").unwrap();
        let buffer = Arc::new(buffer);
        let stream = CudaStream::new(&context).unwrap();
        let filler = SlotFiller::new(stream, kernels.clone(), NoRows, buffer.clone(), shape).unwrap();
        let all = (0..tables).map(|table| read(kernels, table_bytes(table), shape_of(table).1)).collect();
        let mut filler = filler.with_set(TableSet::new(&context, Kernel::Wide, all).unwrap());
        filler.reserve_room(ROWS_AT, reserved).unwrap();
        let ready = CudaEvent::local(&context).unwrap();
        Self { context, buffer, filler, ready, tables }
    }

    fn pinned(kernels: &GatherKernels, tables: usize) -> Self {
        Self::new(kernels, tables, pinned, 0)
    }

    /// Ids of each table in this batch; one has none.
    fn ids(&self, batch: usize) -> Vec<Vec<i64>> {
        let ids = |table: usize| {
            let rows = shape_of(table).0;
            let count = if rows == 0 || table == 1 { 0 } else { 5 + (table * 11 + batch) % 40 };
            (0..count).map(|at| ((at * 17 + batch * 5 + table) % rows) as i64).collect()
        };
        (0..self.tables).map(ids).collect()
    }

    /// Fills slot 1 with the rows of these ids.
    fn fill(&mut self, ids: &[Vec<i64>], stamp: u64) -> Result<Vec<TablePlace>, FillError> {
        let (mut arrays, mut places) = (Vec::new(), Vec::new());
        let (mut ids_at, mut rows_at) = (64, ROWS_AT);
        for (table, ids) in ids.iter().enumerate() {
            arrays.push((ids_at, bytemuck::cast_slice(ids)));
            places.push(TablePlace { ids_at, count: ids.len(), rows_at });
            ids_at = (ids_at + ids.len() * 8).next_multiple_of(64);
            rows_at += ids.len() * shape_of(table).1 + table % 3;
        }
        let place = SlotPlace { arrays: &arrays, of_set: Some(&places), stamp, ..none(&self.ready) };
        self.filler.submit(&[], place)?;
        Ok(places)
    }

    fn slot(&self) -> Vec<u8> {
        let mut out = vec![0; STRIDE];
        let stream = CudaStream::new(&self.context).unwrap();
        // SAFETY: both ends live until the synchronisation.
        unsafe { device_to_host(&stream, self.buffer.address() + STRIDE as u64, &mut out) }.unwrap();
        stream.synchronize().unwrap();
        out
    }

    fn check(&self, ids: &[Vec<i64>], places: &[TablePlace]) {
        let slot = self.slot();
        for (table, (ids, place)) in ids.iter().zip(places).enumerate() {
            let row_bytes = shape_of(table).1;
            for (position, id) in ids.iter().enumerate() {
                let found = &slot[place.rows_at + position * row_bytes..][..row_bytes];
                let right = (0..row_bytes).all(|at| found[at] == byte(table, *id as usize, at));
                assert!(right, "table {table}, position {position}");
            }
        }
    }
}

fn pinned(kernels: &GatherKernels, bytes: Vec<u8>, row_bytes: usize) -> Pinned {
    let table = PinnedTable::new(kernels.context(), Arc::new(bytes), &PinOptions::default()).unwrap();
    let bound = GridBound::Blocks(3);
    Pinned::new(kernels.clone(), Arc::new(table), row_bytes, Kernel::Wide, bound).unwrap()
}

fn by_region(kernels: &GatherKernels, bytes: Vec<u8>, row_bytes: usize) -> Pinned {
    pinned(kernels, bytes, row_bytes).by_region(row_bytes != 47)
}

fn on_device(kernels: &GatherKernels, bytes: Vec<u8>, row_bytes: usize) -> DeviceRows {
    let table = Arc::new(DeviceTable::new(kernels.context(), &bytes, "a table").unwrap());
    DeviceRows::new(kernels.clone(), table, row_bytes, Kernel::Wide, GridBound::Device).unwrap()
}

/// Slot 1, without a batch.
fn none(ready: &CudaEvent) -> SlotPlace<'_> {
    SlotPlace {
        slot: 1,
        arrays: &[],
        on_device: None,
        ids_at: 0,
        features_at: 0,
        sums: None,
        made: None,
        brought: None,
        tables_at: None,
        of_set: None,
        begun: None,
        stamp: 1,
        after: None,
        ready,
    }
}

#[test]
fn each_table_has_the_rows_of_its_own_ids_from_any_memory() {
    if !cuda_sim::in_process("cuda::tables::each_table_has_the_rows_of_its_own_ids_from_any_memory") {
        return;
    }
    let kernels = kernels(&Context::primary(0).unwrap());
    // 70 tables take three launches.
    for mut bench in [
        Bench::pinned(&kernels, 1),
        Bench::pinned(&kernels, 6),
        Bench::pinned(&kernels, 70),
        Bench::new(&kernels, 6, on_device, 0),
        Bench::new(&kernels, 33, by_region, 64),
    ] {
        for batch in 0..4 {
            let ids = bench.ids(batch);
            let places = bench.fill(&ids, batch as u64 + 1).unwrap();
            let fill = bench.filler.drain().unwrap().remove(0);
            let rows: usize = ids.iter().map(Vec::len).sum();
            assert_eq!((fill.bad, fill.rows, fill.read.total()), (None, rows, rows as u64));
            assert!(fill.began_ns <= fill.ended_ns);
            bench.check(&ids, &places);
        }
    }
}

#[test]
fn the_first_bad_id_is_reported_with_the_number_of_its_table() {
    if !cuda_sim::in_process("cuda::tables::the_first_bad_id_is_reported_with_the_number_of_its_table") {
        return;
    }
    let mut bench = Bench::pinned(&kernels(&Context::primary(0).unwrap()), 70);
    for table in [0, 2, 31, 32, 69] {
        let mut ids = bench.ids(0);
        let (rows, last) = (shape_of(table).0 as i64, ids[69].len() - 1);
        (ids[69][last], ids[table][3]) = (-1, rows);
        bench.fill(&ids, 7 + table as u64).unwrap();
        let bad = bench.filler.drain().unwrap()[0].bad;
        assert_eq!(bad, Some(BadId { table, position: 3, id: rows }));
    }
    let ids = bench.ids(1);
    let places = bench.fill(&ids, 1).unwrap();
    assert_eq!(bench.filler.drain().unwrap()[0].bad, None);
    bench.check(&ids, &places);
}

#[test]
fn several_tables_take_as_many_launches_as_one() {
    let test = "cuda::tables::several_tables_take_as_many_launches_as_one";
    let temp = tempfile::tempdir().unwrap();
    let counting = [("CUDA_SIM_COUNTS", temp.path().to_str().unwrap())];
    if cuda_sim::on_a_gpu() || !cuda_sim::in_process_with(test, &counting) {
        return;
    }
    let folder = std::env::var_os("CUDA_SIM_COUNTS").expect("the folder");
    let folder = Path::new(&folder);
    let kernels = kernels(&Context::primary(0).unwrap());
    for tables in [1, 6] {
        let mut bench = Bench::pinned(&kernels, tables);
        let ids = bench.ids(0);
        bench.fill(&ids, 1).unwrap();
        bench.filler.drain().unwrap();
        let before = counts(folder);
        bench.fill(&ids, 2).unwrap();
        bench.filler.drain().unwrap();
        let after = counts(folder);
        let of = |counts: &BTreeMap<String, u64>, name| counts.get(name).copied().unwrap_or(0);
        let more = |name| of(&after, name) - of(&before, name);
        // The gather and its end; the arrays with a prepared report; the report back.
        let calls = ["cuLaunchKernel", "cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync"].map(more);
        assert_eq!((calls, more("cuMemsetD8Async")), ([2, 1, 1], 0), "{tables} tables");
    }
}

#[test]
fn other_numbers_of_tables_and_other_rows_with_them_are_refused() {
    if !cuda_sim::in_process("cuda::tables::other_numbers_of_tables_and_other_rows_with_them_are_refused") {
        return;
    }
    let mut bench = Bench::pinned(&kernels(&Context::primary(0).unwrap()), 2);
    let ready = CudaEvent::local(&bench.context).unwrap();
    let at = |rows_at| TablePlace { ids_at: 64, count: 1, rows_at };
    let id = 0_i64.to_ne_bytes();
    let arrays = [(64, &id[..])];
    let place = SlotPlace { arrays: &arrays, ..none(&ready) };
    let never = |_: &mut [&mut [u8]]| panic!("called for a fill that is refused");
    let made = Some(HostMadeRows { ranges: &[], make: &never });
    let far = TablePlace { ids_at: 128, ..at(ROWS_AT + 64) };
    let odd = TablePlace { ids_at: 68, ..at(ROWS_AT + 64) };
    for (ids, place, why) in [
        (&[][..], place, "rows of 0 tables"),
        (&[], SlotPlace { of_set: Some(&[at(ROWS_AT)]), ..place }, "rows of 1 tables"),
        (&[], SlotPlace { of_set: Some(&[at(ROWS_AT), at(ROWS_AT + 9)]), ..place }, "overlap"),
        (&[], SlotPlace { of_set: Some(&[at(ROWS_AT), far]), ..place }, "not in any of the arrays"),
        (&[], SlotPlace { of_set: Some(&[at(ROWS_AT), odd]), ..place }, "64-bit ids at byte 68"),
        (&[1], SlotPlace { of_set: Some(&[at(ROWS_AT), at(ROWS_AT + 64)]), ..place }, "of others: true"),
        (&[], SlotPlace { of_set: Some(&[at(ROWS_AT), at(ROWS_AT + 64)]), made, ..place }, "of others: true"),
    ] {
        let refused = bench.filler.submit(ids, place);
        let Err(FillError::Layout(said)) = refused else { panic!("{refused:?}, not {why}") };
        assert!(said.contains(why), "{said}, not {why}");
    }
    let good = SlotPlace { of_set: Some(&[at(ROWS_AT), at(ROWS_AT + 64)]), ..place };
    bench.filler.submit(&[], good).unwrap();
    bench.filler.drain().unwrap();
}
