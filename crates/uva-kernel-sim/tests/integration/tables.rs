//! Gathers from several tables by one launch, compared with one launch for each table: rows, reads and reports.

use uva_kernel_sim::gather::{GatherShape, gather, gather_tables};
use uva_kernel_sim::{AccessLog, WarpAccess};
use uva_kernels::gather::{BadId, GatherArguments, GatherReport, IdWidth, Kernel};
use uva_kernels::tables::GatheredTable;

/// Bytes between tables, and before and after all of them.
const APART: usize = 256;

/// Rows of each table, bytes of a row, bytes of the first row after the beginning of a line, and the number of ids.
type Shape = (u64, u64, u64, u64);

/// Tables of all widths, one without rows, one without ids, and one with a single id.
const SHAPES: [Shape; 7] = [
    (500, 256, 0, 200),
    (90, 47, 5, 131),
    (0, 16, 0, 0),
    (700, 400, 16, 300),
    (40, 6, 2, 0),
    (300, 4, 4, 129),
    (5, 1028, 3, 1),
];

struct Case {
    memory: Vec<u8>,
    ids: Vec<Vec<i64>>,
    /// The first byte of each table in the memory.
    begins: Vec<usize>,
}

impl Case {
    fn new() -> Self {
        let bytes: u64 = SHAPES.iter().map(|(rows, row_bytes, ..)| rows * row_bytes + 3 * APART as u64).sum();
        let memory: Vec<u8> =
            (0..bytes).map(|at| (at.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 53) as u8).collect();
        let (mut begins, mut at) = (Vec::new(), 0);
        for (rows, row_bytes, offset, _) in SHAPES {
            let address = memory.as_ptr() as usize;
            let begin = (address + at + APART).next_multiple_of(128) + offset as usize - address;
            begins.push(begin);
            at = begin + (rows * row_bytes) as usize;
        }
        let ids = |(table, (rows, _, _, count)): (u64, Shape)| {
            (0..count).map(|at| ((at * 7919 + table * 31) * (at + 3) % rows) as i64).collect()
        };
        Self { ids: (0..).zip(SHAPES).map(ids).collect(), memory, begins }
    }

    fn outs(&self) -> Vec<Vec<u8>> {
        let out = |(ids, (_, row_bytes, ..)): (&Vec<i64>, Shape)| vec![0xEE; ids.len() * row_bytes as usize];
        self.ids.iter().zip(SHAPES).map(out).collect()
    }

    fn log(&self) -> AccessLog {
        let range = self.memory.as_ptr_range();
        AccessLog::new(range.start as u64..range.end as u64)
    }

    fn tables(&self, outs: &mut [Vec<u8>]) -> Vec<GatheredTable> {
        let table = |(at, out): (usize, &mut Vec<u8>)| GatheredTable {
            table: self.memory[self.begins[at]..].as_ptr() as u64,
            rows: SHAPES[at].0,
            row_bytes: SHAPES[at].1,
            ids: self.ids[at].as_ptr() as u64,
            count: self.ids[at].len() as u64,
            out: out.as_mut_ptr() as u64,
            ..GatheredTable::default()
        };
        outs.iter_mut().enumerate().map(table).collect()
    }

    /// The rows of all tables by one launch, its reads and its report.
    fn by_one_launch(
        &self,
        kernel: Kernel,
        shape: GatherShape,
    ) -> (Vec<Vec<u8>>, Vec<WarpAccess>, GatherReport) {
        let (mut outs, mut report, mut log) = (self.outs(), GatherReport::default(), self.log());
        let tables = self.tables(&mut outs);
        // SAFETY: tables with bytes around them, ids, and outputs as long as the rows of the ids; a report.
        unsafe { gather_tables(kernel, &tables, (&raw mut report) as u64, shape, &mut log) }.unwrap();
        (outs, log.instructions, report)
    }

    /// The rows of all tables by a launch for each, and their reads.
    fn by_launches(&self, kernel: Kernel, shape: GatherShape) -> (Vec<Vec<u8>>, Vec<WarpAccess>) {
        let (mut outs, mut log) = (self.outs(), self.log());
        for table in self.tables(&mut outs) {
            let mut report = GatherReport::default();
            let arguments = GatherArguments {
                table: table.table,
                rows: table.rows,
                row_bytes: table.row_bytes,
                ids: table.ids,
                count: table.count,
                out: table.out,
                report: (&raw mut report) as u64,
                ..GatherArguments::default()
            };
            // SAFETY: as in `by_one_launch`.
            unsafe { gather(kernel, IdWidth::I64, arguments, shape, Some(&mut log)) }.unwrap();
        }
        (outs, log.instructions)
    }
}

#[test]
fn one_launch_has_the_rows_and_the_reads_of_a_launch_for_each_table() {
    let case = Case::new();
    for kernel in Kernel::ALL {
        // One warp takes 32 rows at once, and reads in order.
        let shape = GatherShape { blocks: 1, threads: 32 };
        let (rows, reads, report) = case.by_one_launch(kernel, shape);
        let (expected, of_launches) = case.by_launches(kernel, shape);
        assert!(rows == expected, "{kernel}: other rows");
        assert!(reads == of_launches, "{kernel}: {} reads, not {}", reads.len(), of_launches.len());
        assert_eq!((report.bad(), report.stamp), (None, 1));
        assert!(report.began_ns <= report.ended_ns);
    }
}

#[test]
fn any_grid_gathers_every_row_of_every_table() {
    let case = Case::new();
    for kernel in [Kernel::Shift, Kernel::Wide] {
        let (expected, _) = case.by_launches(kernel, GatherShape { blocks: 1, threads: 32 });
        for (blocks, threads) in [(1, 64), (2, 96), (7, 128), (40, 512)] {
            let (rows, ..) = case.by_one_launch(kernel, GatherShape { blocks, threads });
            assert!(rows == expected, "{kernel}, {blocks} blocks of {threads}");
        }
    }
}

#[test]
fn the_report_has_the_first_bad_id_of_the_first_table_with_one() {
    for kernel in Kernel::ALL {
        let mut case = Case::new();
        (case.ids[3][7], case.ids[3][250], case.ids[5][0]) = (-2, 700, 300);
        let shape = GatherShape { blocks: 2, threads: 64 };
        let (rows, _, report) = case.by_one_launch(kernel, shape);
        assert_eq!(report.bad(), Some(BadId { table: 3, position: 7, id: -2 }), "{kernel}");
        for (table, position) in [(3, 7), (3, 250), (5, 0)] {
            let row_bytes = SHAPES[table].1 as usize;
            assert!(rows[table][position * row_bytes..][..row_bytes].iter().all(|byte| *byte == 0xEE));
        }
    }
}

#[test]
fn rows_are_read_in_the_order_of_their_visits() {
    let case = Case::new();
    let shape = GatherShape { blocks: 1, threads: 32 };
    let (expected, reads, _) = case.by_one_launch(Kernel::Wide, shape);
    let order: Vec<u32> = (0..300).rev().collect();
    let (mut outs, mut report, mut log) = (case.outs(), GatherReport::default(), case.log());
    let mut tables = case.tables(&mut outs);
    tables[3].order = order.as_ptr() as u64;
    // SAFETY: as in `by_one_launch`; the order has each position once.
    unsafe { gather_tables(Kernel::Wide, &tables, (&raw mut report) as u64, shape, &mut log) }.unwrap();
    assert!(outs == expected && log.instructions != reads);
}
