//! A checked fill.

use crate::host::{HostPlace, HostSource};
use crate::source::RowsRead;

/// Row sizes at which the behaviour of a backend may change: vectors, lines, warps, pages, each with its neighbours.
pub const EDGE_ROW_BYTES: [usize; 34] = [
    1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 188, 255, 256, 257, 400,
    480, 511, 512, 513, 1023, 1024, 1025, 4096,
];

/// The row sizes and offsets at which a source is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// All of them.
    All,
    /// A third of the row sizes, with each kind of size, and a fifth of the offsets: for sources that are slow to create.
    Part,
}

impl Extent {
    /// [`EDGE_ROW_BYTES`], or some of them.
    pub(super) fn row_sizes(self) -> &'static [usize] {
        match self {
            Self::All => &EDGE_ROW_BYTES,
            Self::Part => &[1, 3, 8, 16, 33, 64, 129, 188, 400, 512, 1025],
        }
    }

    /// Offsets from a line of `line` bytes. A step of five meets every remainder by a vector of 16 bytes or fewer.
    pub(super) fn offsets(self, line: usize) -> impl Iterator<Item = usize> {
        (0..line).step_by(if self == Self::All { 1 } else { 5 })
    }
}

pub(super) const LINE: usize = 64;

/// Bytes that differ between neighbours, rows and offsets.
pub(super) fn table_bytes(length: usize) -> Vec<u8> {
    (0..length as u64).map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

pub(super) fn plain_loop(table: &[u8], row_bytes: usize, ids: &[i64]) -> Vec<u8> {
    ids.iter().flat_map(|&id| &table[id as usize * row_bytes..][..row_bytes]).copied().collect()
}

/// Fills an output that is guarded on both sides, and compares it with the plain loop.
pub(super) fn check(
    source: &mut dyn HostSource,
    table: &[u8],
    row_bytes: usize,
    ids: &[i64],
    case: &dyn Fn() -> String,
) -> RowsRead {
    check_against(source, &plain_loop(table, row_bytes, ids), GUARD, ids, case)
}

/// Bytes before and after an output, which must not be written.
pub(super) const GUARD: usize = 64;

/// Like [`check`], with the expected bytes, into an output that begins `before` bytes after the start of a line; at
/// least [`GUARD`].
pub(super) fn check_against(
    source: &mut dyn HostSource,
    expected: &[u8],
    before: usize,
    ids: &[i64],
    case: &dyn Fn() -> String,
) -> RowsRead {
    let mut buffer = vec![0xa5; LINE + before + expected.len() + GUARD];
    let before = buffer.as_ptr().align_offset(LINE) + before;
    let out = &mut buffer[before..before + expected.len()];
    let read =
        source.fill(ids, HostPlace::new(&mut *out)).unwrap_or_else(|error| panic!("{}: {error}", case()));
    assert!(out == expected, "{}: other bytes than a plain loop's", case());
    let guards = buffer[..before].iter().chain(&buffer[before + expected.len()..]);
    assert!(guards.copied().all(|byte| byte == 0xa5), "{}: wrote outside its output", case());
    assert_eq!(read.total(), ids.len() as u64, "{}: every row has one origin", case());
    read
}
