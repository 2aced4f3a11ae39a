//! Rows read from files directly into slots, without host memory, by the stand-in libcufile.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use uva_cuda::{CudaEvent, CudaStream};
use uva_disk::{DiskReads, TableShape, WatchedFiles};
use uva_rows::RowSource;
use uva_rows::cuda::{BroughtRows, DirectRuns, FillError, NoRows, SlotFiller, SlotPlace, try_direct_reads};

use super::machine::{Hold, Machine, Pool, Random, STRIDE, never};

/// Bytes of a row of each table.
const ROWS_OF: [usize; 2] = [40, 104];
const ROWS: usize = 3000;
const OFFSET: usize = 4096;

/// Tables in files, and a filler for their rows.
struct Tables {
    folder: tempfile::TempDir,
    bytes: Vec<Vec<u8>>,
}

impl Tables {
    fn new() -> Self {
        let mut random = Random(5);
        let folder = tempfile::tempdir().unwrap();
        let table = |row_bytes| (0..OFFSET + ROWS * row_bytes).map(|_| random.next() as u8).collect();
        let bytes: Vec<Vec<u8>> = ROWS_OF.map(table).into();
        let tables = Self { folder, bytes };
        for (table, bytes) in tables.bytes.iter().enumerate() {
            std::fs::write(tables.path(table), bytes).unwrap();
        }
        tables
    }

    fn path(&self, table: usize) -> std::path::PathBuf {
        self.folder.path().join(format!("{table}.npy"))
    }

    /// `None` on a file system without `O_DIRECT`.
    fn runs(&self, machine: &Machine) -> Option<DirectRuns> {
        let paths = [0, 1].map(|table| self.path(table));
        let shapes = ROWS_OF.map(|row_bytes| TableShape { offset: OFFSET as u64, rows: ROWS, row_bytes });
        let files: Vec<(&Path, TableShape)> = paths.iter().map(|path| path.as_path()).zip(shapes).collect();
        let watched = WatchedFiles::open(&files).unwrap();
        if let Some(reason) = watched.cached() {
            eprintln!("not run: {reason}");
            return None;
        }
        Some(DirectRuns::new(&machine.context, watched, shapes.into(), Arc::clone(&machine.buffer)).unwrap())
    }

    /// The rows of these runs in a table.
    fn rows(&self, table: usize, runs: &[Range<usize>]) -> Vec<u8> {
        let bytes = |run: &Range<usize>| {
            &self.bytes[table][OFFSET..][run.start * ROWS_OF[table]..run.end * ROWS_OF[table]]
        };
        runs.iter().flat_map(bytes).copied().collect()
    }
}

/// Where the rows of each table go.
fn ranges(rows: usize) -> [Range<usize>; 2] {
    [4096..4096 + rows * ROWS_OF[0], 524_288..524_288 + rows * ROWS_OF[1]]
}

/// Fills slot 0 with the rows of these runs, and returns the counts of the fill.
fn fill(
    filler: &mut SlotFiller<NoRows>,
    by: &RefCell<DirectRuns>,
    runs: &[Range<usize>],
    after: Option<&CudaEvent>,
    ready: &CudaEvent,
) -> Result<DiskReads, FillError> {
    let took = Cell::default();
    let ranges = ranges(runs.iter().map(ExactSizeIterator::len).sum());
    let place = SlotPlace {
        slot: 0,
        arrays: &[(64, &[7; 100])],
        on_device: None,
        ids_at: 64,
        features_at: 4096,
        sums: None,
        made: None,
        brought: Some(BroughtRows { by, runs, ranges: &ranges, took: &took }),
        tables_at: None,
        of_set: None,
        begun: None,
        stamp: 5,
        after: after.map(|event| event as _),
        ready,
    };
    filler.submit(&[], place)?;
    Ok(took.get())
}

fn check(tables: &Tables, slot: &[u8], runs: &[Range<usize>], case: &str) {
    for (table, range) in ranges(runs.iter().map(ExactSizeIterator::len).sum()).into_iter().enumerate() {
        assert!(slot[range] == tables.rows(table, runs), "{case}: table {table}");
    }
    assert_eq!(slot[64..164], [7; 100], "{case}");
}

#[test]
fn rows_arrive_once_the_consumer_frees_the_slot_and_failures_are_named() {
    let test = "cuda::direct::rows_arrive_once_the_consumer_frees_the_slot_and_failures_are_named";
    // The first read fails; some later ones are interrupted, or lack space.
    let faults = "cuFileRead:1=5, cuFileRead:24=4, cuFileRead:29=11, cuFileBufRegister:1=5036";
    let variables = [("CUDA_SIM_CUFILE", "short"), ("CUDA_SIM_CUFILE_FAIL", faults)];
    if !cuda_sim::in_process_with_cufile(test, &variables) {
        return;
    }
    let (machine, tables) = (Machine::new(), Tables::new());
    let Some(runs) = tables.runs(&machine) else { return };
    assert_eq!(runs.compatibility(), None);
    assert!(runs.unregistered().unwrap().contains("CU_FILE_GPU_MEMORY_PINNING_FAILED (5036)"));
    let by = RefCell::new(runs);
    let mut filler = machine.filler_of(NoRows);
    let ready = CudaEvent::local(filler.stream().made_in()).unwrap();
    let (first, second) = ([2000..2400, 0..3, 17..18], vec![5..200; 1]);
    let failed = fill(&mut filler, &by, &first, None, &ready).unwrap_err().to_string();
    assert!(failed.contains(".npy: cannot read ") && failed.contains("os error 5"), "{failed}");
    // The slot can be filled anyway, from memory that is registered.
    drop(by);
    let by = RefCell::new(tables.runs(&machine).unwrap());
    assert_eq!(by.borrow().unregistered(), None);
    let took = fill(&mut filler, &by, &first, None, &ready).unwrap();
    let bytes = (404 * (40 + 104)) as u64;
    assert_eq!(took, DiskReads { bytes_asked: bytes, bytes_read: bytes, reads: 6 });
    let free = CudaEvent::interprocess(&machine.context).unwrap();
    let consumer = CudaStream::new(&machine.context).unwrap();
    let mut pool = Pool::new(&machine, 1, 1);
    consumer.wait(&ready).unwrap();
    let hold: Hold = pool.hold(&machine, &consumer);
    let seen = pool.read(&machine, &consumer, 0);
    free.record(&consumer).unwrap();
    let by = std::thread::scope(|scope| {
        let filling = scope.spawn(|| {
            let by = by;
            fill(&mut filler, &by, &second, Some(&free), &ready).unwrap();
            by
        });
        never("a slot was filled while its consumer held it", || filling.is_finished());
        hold.let_go();
        filling.join().unwrap()
    });
    consumer.synchronize().unwrap();
    check(&tables, seen.as_slice(), &first, "as the consumer saw it");
    filler.drain().unwrap();
    let after = machine.read(&consumer, 0);
    consumer.synchronize().unwrap();
    check(&tables, &after.as_slice()[..STRIDE], &second, "the second fill");
    assert_eq!(fill(&mut filler, &by, &[], None, &ready).unwrap(), DiskReads::default());
    let paths = [0, 1].map(|table| tables.path(table));
    let tried = || try_direct_reads(&machine.context, &paths.each_ref().map(|path| path.as_path()));
    assert_eq!(tried(), Ok(None));
    let changed = std::fs::File::options().write(true).open(tables.path(1)).unwrap();
    changed.set_len(OFFSET as u64).unwrap();
    let failed = fill(&mut filler, &by, &second, None, &ready).unwrap_err().to_string();
    assert!(failed.contains("1.npy: it changed while it was read"), "{failed}");
}
