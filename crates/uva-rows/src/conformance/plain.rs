//! Checks that rows equal those of a plain loop, bit for bit.

use super::check::{Extent, GUARD, LINE, check, check_against, plain_loop, table_bytes};
use crate::error::GatherError;
use crate::host::{HostPlace, HostSource};
use crate::source::RowSource;

/// Creates the backend under test over a table, for rows of the given size.
pub type Make<'f> = dyn for<'t> Fn(&'t [u8], usize) -> Box<dyn HostSource + 't> + 'f;

/// Table sizes in rows: none to many, and values around those at which work is split.
const TABLE_ROWS: [usize; 7] = [0, 1, 2, 7, 31, 32, 33];

/// Runs all checks except [`large_table`].
///
/// # Panics
/// If the backend breaks the contract of [`RowSource`].
pub fn run(make: &Make<'_>) {
    every_row_size_at_every_offset(make, 1..=1025, 0..128);
    whole_tables(Extent::All, make);
}

/// Runs all checks except [`large_table`] and [`every_row_size_at_every_offset`]: some hundred tables, for backends
/// that are slow to create.
///
/// # Panics
/// As [`run`].
pub fn whole_tables(extent: Extent, make: &Make<'_>) {
    edge_row_sizes_and_table_sizes(extent, make);
    outputs_at_offsets(extent, make);
    many_rows(make);
    repeated_and_no_ids(make);
    refusals(make);
}

/// Checks every row size at every offset of the table's first byte from a 128-byte line.
///
/// # Panics
/// As [`run`].
pub fn every_row_size_at_every_offset(
    make: &Make<'_>,
    row_sizes: impl Iterator<Item = usize>,
    offsets: impl Iterator<Item = usize>,
) {
    const ROWS: usize = 5;
    let ids = [4, 0, 3, 3, 1, 2];
    let row_sizes: Vec<usize> = row_sizes.collect();
    let largest = row_sizes.iter().max().copied().unwrap_or(0);
    let offsets: Vec<usize> = offsets.collect();
    let furthest = offsets.iter().max().copied().unwrap_or(0);
    let memory = table_bytes(ROWS * largest + 256 + furthest);
    let line = memory.as_ptr().align_offset(128);
    for row_bytes in row_sizes {
        for &offset in &offsets {
            let table = &memory[line + offset..][..ROWS * row_bytes];
            let mut source = make(table, row_bytes);
            check(&mut *source, table, row_bytes, &ids, &|| {
                format!("rows of {row_bytes} bytes at offset {offset}")
            });
        }
    }
}

fn edge_row_sizes_and_table_sizes(extent: Extent, make: &Make<'_>) {
    for &row_bytes in extent.row_sizes() {
        for rows in TABLE_ROWS {
            let table = table_bytes(rows * row_bytes);
            let mut source = make(&table, row_bytes);
            assert_eq!((source.rows(), source.row_bytes()), (rows, row_bytes));
            let ids: Vec<i64> = (0..rows as i64).rev().collect();
            check(&mut *source, &table, row_bytes, &ids, &|| format!("{rows} rows of {row_bytes} bytes"));
        }
    }
}

/// Checks outputs that begin and end at the extent's offsets of a line.
fn outputs_at_offsets(extent: Extent, make: &Make<'_>) {
    const ROWS: usize = 40;
    for row_bytes in [1, 3, 16, 63, 64, 65, 100, 400, 513] {
        let table = table_bytes(ROWS * row_bytes);
        let mut source = make(&table, row_bytes);
        for offset in extent.offsets(LINE) {
            let count = offset % 9 + if offset % 2 == 0 { 0 } else { ROWS };
            let ids: Vec<i64> = (0..count).map(|i| (i * 7 % ROWS) as i64).collect();
            check_against(&mut *source, &plain_loop(&table, row_bytes, &ids), GUARD + offset, &ids, &|| {
                format!(
                    "{count} rows of {row_bytes} bytes into an output {offset} bytes after a line's beginning"
                )
            });
        }
    }
}

/// Checks more rows than any backend processes in one piece, in a scattered order.
fn many_rows(make: &Make<'_>) {
    for (row_bytes, rows) in [(1, 300_000), (3, 200_000), (400, 6000), (512, 6001), (4097, 700)] {
        let table = table_bytes(rows * row_bytes);
        let mut source = make(&table, row_bytes);
        for count in [rows - 1, rows, 2 * rows + 1] {
            // 7919 is prime and does not divide these numbers of rows, so every row occurs.
            let ids: Vec<i64> = (0..count).map(|i| (i * 7919 % rows) as i64).collect();
            check(&mut *source, &table, row_bytes, &ids, &|| {
                format!("{count} of {rows} rows of {row_bytes} bytes")
            });
        }
    }
}

fn repeated_and_no_ids(make: &Make<'_>) {
    let table = table_bytes(10 * 7);
    let mut source = make(&table, 7);
    check(&mut *source, &table, 7, &[], &|| "no ids".to_owned());
    check(&mut *source, &table, 7, &[9; 1000], &|| "one id a thousand times".to_owned());
}

fn refusals(make: &Make<'_>) {
    const ROWS: usize = 100;
    for (row_bytes, count) in [(1, 3), (8, 3), (400, 3), (8, 200_000)] {
        let table = table_bytes(ROWS * row_bytes);
        let mut source = make(&table, row_bytes);
        let mut out = vec![0x5a; count * row_bytes];
        for id in [-1, ROWS as i64, i64::MIN, i64::MAX, 1 << 32, i64::from(i32::MIN), (1 << 61) + 1] {
            for position in [0, 1, count - 1] {
                let mut ids = vec![5; count];
                // A second bad id at the end: the first must be reported.
                ids[count - 1] = -77;
                ids[position] = id;
                let expected = GatherError::IdOutOfRange { position, id, rows: ROWS };
                assert_eq!(refusal(&mut *source, &ids, &mut out), expected, "rows of {row_bytes} bytes");
            }
        }
        for length in [0, out.len() - 1] {
            let expected = GatherError::OutputLength { ids: count, row_bytes, length };
            assert_eq!(refusal(&mut *source, &vec![5; count], &mut out[..length]), expected);
        }
        assert!(out.iter().all(|&byte| byte == 0x5a), "an output was written although the ids were refused");
    }
}

/// Checks rows on both sides of every byte offset at which a narrower integer would overflow: 2^31 and 2^32.
///
/// Takes a little more than 4 GiB of address space, and memory for the pages of a few rows only.
///
/// # Panics
/// As [`run`].
pub fn large_table(make: &Make<'_>) {
    for row_bytes in [1, 100, 400, 512] {
        let rows = ((1usize << 32) + (1 << 16)) / row_bytes;
        // Zeroed by the system: pages are allocated on the first write.
        let mut table = vec![0u8; rows * row_bytes];
        let mut ids = vec![0, rows as i64 - 1];
        for edge in [1usize << 31, 1 << 32] {
            let row = (edge / row_bytes) as i64;
            ids.extend([row - 1, row, row + 1]);
        }
        for &id in &ids {
            let start = id as usize * row_bytes;
            for (i, byte) in table[start..start + row_bytes].iter_mut().enumerate() {
                *byte = (id as usize * 31 + i * 7 + 1) as u8;
            }
        }
        let mut source = make(&table, row_bytes);
        check(&mut *source, &table, row_bytes, &ids, &|| {
            format!("rows of {row_bytes} bytes around 2^31 and 2^32 bytes")
        });
    }
}

/// The error of a rejected fill.
pub(super) fn refusal(source: &mut dyn HostSource, ids: &[i64], out: &mut [u8]) -> GatherError {
    source.fill(ids, HostPlace::new(out)).expect_err("it was not refused")
}
