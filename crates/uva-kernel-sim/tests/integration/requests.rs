//! The link cost of the shipped kernels, according to the request model.

use std::thread;

use uva_kernel_sim::AccessLog;
use uva_kernel_sim::gather::{GatherShape, gather};
use uva_kernel_sim::requests::{Requests, of_rows};
use uva_kernels::gather::{GatherArguments, GatherReport, IdWidth, Kernel};

/// How many aligned units of `unit` bytes the bytes from `start` up to `end` touch.
fn touched(unit: u64, start: u64, end: u64) -> u64 {
    (end - 1) / unit - start / unit + 1
}

fn reads(kernel: Kernel, row_bytes: u64, base_offset: u64, rows: u64) -> Vec<u64> {
    let costs = of_rows(kernel, IdWidth::I64, row_bytes, base_offset, rows).unwrap();
    costs.iter().map(|cost| cost.reads).collect()
}

#[test]
fn the_example_of_480_bytes_costs_what_is_published() {
    for (kernel, second_row) in [(Kernel::Naive, 8), (Kernel::Shift, 5), (Kernel::Wide, 5)] {
        assert_eq!(reads(kernel, 480, 0, 2)[1], second_row, "{kernel}");
    }
}

#[test]
fn wide_reads_each_line_once_and_no_sector_that_the_row_does_not_touch() {
    // Every row size, nine base offsets of the 128 (one of them another for each size), three rows each: 110,592
    // launches, in about ten seconds on two cores. All offsets of the short rows are in the conformance matrix.
    let check = |row_bytes: u64| {
        for base in [0, 1, 4, 16, 32, 60, 100, 127, row_bytes * 37 % 128] {
            let costs = of_rows(Kernel::Wide, IdWidth::I64, row_bytes, base, 3).unwrap();
            for (index, cost) in (0..).zip(costs) {
                let start = base + index * row_bytes;
                let lines = touched(128, start, start + row_bytes);
                let sectors = touched(32, start, start + row_bytes);
                let expected = Requests { reads: lines, bytes: 32 * sectors };
                assert_eq!(cost, expected, "row {index} of {row_bytes} bytes, base offset {base}");
            }
        }
    };
    thread::scope(|scope| {
        for part in 0..2 {
            scope.spawn(move || (1 + part..=4096).step_by(2).for_each(check));
        }
    });
}

#[test]
fn short_rows_that_share_an_instruction_cost_no_more_than_alone() {
    for (row_bytes, base) in [(24_u64, 0_u64), (100, 28), (188, 4), (480, 0), (33, 127), (4096, 16)] {
        // Every other row, so that no two touch the same line in one instruction but those of short rows.
        let ids: Vec<i64> = (0..60).step_by(2).collect();
        let memory = vec![0_u8; (60 * row_bytes + 512) as usize];
        let table = (memory.as_ptr() as u64).next_multiple_of(128) + base;
        let mut out = vec![0_u8; ids.len() * row_bytes as usize];
        let mut report = GatherReport::default();
        let arguments = GatherArguments {
            table,
            rows: 60,
            row_bytes,
            ids: ids.as_ptr() as u64,
            count: ids.len() as u64,
            out: out.as_mut_ptr() as u64,
            report: (&raw mut report) as u64,
            slot_map: 0,
            cache: 0,
            order: 0,
        };
        let mut log = AccessLog::new(memory.as_ptr() as u64..memory.as_ptr() as u64 + memory.len() as u64);
        // SAFETY: 30 ids below 60, a table of 60 rows with a line on either side, 30 output rows, a report.
        unsafe {
            gather(
                Kernel::Wide,
                IdWidth::I64,
                arguments,
                GatherShape { blocks: 1, threads: 32 },
                Some(&mut log),
            )
        }
        .unwrap();
        let together: Requests = log.instructions.iter().map(Requests::of_instruction).sum();
        let alone = of_rows(Kernel::Wide, IdWidth::I64, row_bytes, base, 60).unwrap();
        let alone: Requests = alone.into_iter().step_by(2).sum();
        if row_bytes > 128 {
            assert_eq!(together, alone, "{row_bytes} bytes");
        } else {
            assert!(
                together.reads <= alone.reads && together.bytes <= alone.bytes,
                "{row_bytes} bytes: {together:?}"
            );
        }
    }
}

#[test]
fn shift_reads_what_naive_reads_where_it_must_not_rotate() {
    for row_bytes in [4, 64, 100, 128, 256, 1024] {
        for base in [0, 4, 64, 100] {
            assert_eq!(reads(Kernel::Shift, row_bytes, base, 8), reads(Kernel::Naive, row_bytes, base, 8));
        }
    }
}

#[test]
fn shift_costs_at_most_one_read_more_than_the_lines_of_a_row_in_words() {
    // Rows of whole words on a word: lanes of four bytes, 128 bytes an instruction. All such sizes up to 2048.
    let mut one_more = 0;
    for row_bytes in (132..2048).step_by(4).filter(|bytes| bytes % 128 != 0) {
        for (index, reads) in (0..).zip(reads(Kernel::Shift, row_bytes, 0, 8)) {
            let lines = touched(128, index * row_bytes, (index + 1) * row_bytes);
            assert!(
                reads == lines || reads == lines + 1,
                "row {index} of {row_bytes} bytes: {reads}, {lines} lines"
            );
            one_more += u64::from(reads == lines + 1);
        }
    }
    assert!(one_more > 0, "head and tail never needed two instructions");
}

#[test]
fn the_type_of_the_ids_changes_nothing() {
    for kernel in Kernel::ALL {
        for row_bytes in [3, 47, 188, 516] {
            let cost = |ids| of_rows(kernel, ids, row_bytes, 12, 5).unwrap();
            assert_eq!(cost(IdWidth::I32), cost(IdWidth::I64), "{kernel}, {row_bytes} bytes");
        }
    }
}
