//! The loop over the rows: where each lies, when it is prefetched, and which instructions move it.

use super::portable;
use super::sink::{LINE, RowSink};
use super::source::RowAddresses;
use super::widening::NarrowFloat;
use crate::prefetch::prefetch;
use crate::vectors::{Set, Vectors};

/// Prefetch distance: rows between the one being copied and the one being prefetched.
///
/// GB/s for random rows of a 1 GiB table into 40 MiB, AVX-512 and streamed, on one core of a shared Xeon (family 6,
/// model 207). Variants were interleaved; figures are medians of 5 by thread CPU time (`benches/gather.rs`; table and
/// output on 2 MiB pages, then on 4 KiB):
///
/// | bytes a row | none | 16 | 32 | 48 | 64 | 96 | 4 KiB: none | 16 | 32 | 48 | 64 | 96 |
/// |---|---|---|---|---|---|---|---|---|---|---|---|---|
/// | 128  | 5.49 | 7.04 | 7.30 | 7.29 | 7.30 | 7.32 | 4.44 | 5.02 | 5.02 | 4.92 | 5.04 | 5.07 |
/// | 400  | 6.77 | 8.34 | 9.15 | 9.56 | 9.52 | 9.42 | 5.94 | 6.92 | 7.45 | 7.49 | 7.47 | 7.48 |
/// | 512  | 7.61 | 9.49 | 10.32 | 10.54 | 10.70 | 10.74 | 6.89 | 7.97 | 8.63 | 8.67 | 8.62 | 8.57 |
/// | 1028 | 7.67 | 9.79 | 10.41 | 10.59 | 10.30 | 9.12 | 7.00 | 8.04 | 8.90 | 8.80 | 9.04 | 8.75 |
/// | 2408 | 9.13 | 10.45 | 10.52 | 10.57 | 10.36 | 10.25 | 8.33 | 9.55 | 9.56 | 8.94 | 9.13 | 8.75 |
///
/// All lines of a row are prefetched, into the second-level cache (`prefetcht1`). In a separate loop with masked loads,
/// that gave 9.4 at 400 bytes a row and 10.9 at 2408. The first level gave 7.5 and 9.2; bypassing the second
/// (`prefetchnta`) gave 4.8 and 4.2. Both occupy the few buffers for lines in flight, which streamed stores need too.
/// Prefetching one line with each line stored, instead of a row at once, was the same within 3 %.
const AHEAD: usize = 48;

/// The copy method of a gather, for measurements and tests. By default, a gather chooses the method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RowCopy {
    /// The instruction set. It does not change the output bytes.
    ///
    /// Portable is the standard library's copy, with values widened one by one, and never streams. AVX2 moves 32 bytes
    /// at a time, AVX-512 a line. The table shows GB/s written, measured as for the prefetch distance (`AHEAD` in this
    /// file), here 48, with table and output on 2 MiB pages. Variants were interleaved, so cached stores do not find
    /// their output in a cache. Streamed columns have two figures; the second is from float16 rows of as many bytes,
    /// widened. The last column's first figures are of a second run, the others of one before the rotation:
    ///
    /// | bytes a row | portable, cached | avx2, cached | avx512, cached | avx2, streamed | avx512, streamed |
    /// |---|---|---|---|---|---|
    /// | 128 | 5.2 | 6.1 | 6.0 | 6.4, 9.8 | 7.3, 12.7 |
    /// | 400 | 5.4 | 5.7 | 5.1 | 7.7, 10.9 | 9.6, 13.2 |
    /// | 512 | 6.2 | 5.9 | 6.2 | 9.3, 12.3 | 11.4, 13.6 |
    /// | 1028 | 5.2 | 5.7 | 5.4 | 7.9, 10.2 | 10.4, 14.4 |
    /// | 2408 | 5.8 | 5.8 | 5.8 | 7.6, 10.0 | 10.5, 14.6 |
    pub vectors: Vectors,
    /// Whether stores bypass the caches; `None` decides by the size of the output.
    pub streamed: Option<bool>,
    /// Prefetch distance: rows between the one being copied and the one being prefetched; 0 disables prefetching.
    pub ahead: usize,
}

impl RowCopy {
    /// The default of a gather.
    pub fn best() -> Self {
        Self { vectors: Vectors::widest(), streamed: None, ahead: AHEAD }
    }
}

/// The type of rows, and their conversion.
#[derive(Clone, Copy, Debug)]
pub struct RowKind {
    /// Bytes of a row in the table.
    pub row_bytes: usize,
    /// The type of its values, if they are widened to float32.
    pub widened: Option<NarrowFloat>,
}

impl RowKind {
    /// Bytes of a row in the output.
    pub fn out_bytes(self) -> usize {
        match self.widened {
            None => self.row_bytes,
            Some(narrow) => self.row_bytes / narrow.bytes() * NarrowFloat::WIDENED_BYTES,
        }
    }
}

/// The copy method of one range of rows.
#[derive(Clone, Copy, Debug)]
pub struct CopyMethod {
    /// The instructions.
    pub vectors: Vectors,
    /// Whether stores bypass the caches.
    pub streamed: bool,
    /// Rows between the one being copied and the one being prefetched; 0 prefetches none.
    pub ahead: usize,
}

/// Writes row `ids[i]` to row `i` of `out`. Returns the number of rows that were in a cache.
///
/// # Safety
/// Every id is a row of the source, of `kind.row_bytes` bytes; `out.len() == ids.len() * kind.out_bytes()`.
pub unsafe fn copy_rows<S: RowAddresses>(
    way: CopyMethod,
    source: S,
    kind: RowKind,
    ids: &[i64],
    out: &mut [u8],
) -> u64 {
    debug_assert_eq!(out.len(), ids.len() * kind.out_bytes());
    match way.vectors.set() {
        // SAFETY: by our caller's promise, here and below. The processor has the instructions that `Vectors` names, and
        // the function uses no others.
        #[cfg(target_arch = "x86_64")]
        Set::Avx2 => return unsafe { with_avx2(way, source, kind, ids, out) },
        #[cfg(target_arch = "x86_64")]
        Set::Avx512 if fits_lanes(kind, out) => {
            // SAFETY: as above.
            return unsafe { with_avx512(way, source, kind, ids, out) };
        }
        #[cfg(target_arch = "x86_64")]
        Set::Avx512 => {}
        Set::Portable => {}
    }
    match kind.widened {
        // SAFETY: as above.
        None => unsafe { each_row(way, source, kind, ids, portable::Copied::new(out, kind.row_bytes)) },
        // SAFETY: as above.
        Some(narrow) => unsafe {
            let values = kind.row_bytes / narrow.bytes();
            each_row(way, source, kind, ids, portable::WideningSink::new(out, values, narrow))
        },
    }
}

/// Whether the lanes of the output's lines begin where its values do. A slot's always do.
#[cfg(target_arch = "x86_64")]
fn fits_lanes(kind: RowKind, out: &[u8]) -> bool {
    kind.widened.is_none() || out.as_ptr().addr().is_multiple_of(NarrowFloat::WIDENED_BYTES)
}

/// # Safety
/// As [`copy_rows`]; the processor has the features.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,f16c")]
unsafe fn with_avx2<S: RowAddresses>(
    way: CopyMethod,
    source: S,
    kind: RowKind,
    ids: &[i64],
    out: &mut [u8],
) -> u64 {
    use super::avx2::{BufferedSink, Bytes, Direct, FromBf16, FromE4m3, FromF16};
    macro_rules! each {
        ($values:ty, $row_values:expr) => {
            match way.streamed {
                // SAFETY: by our caller's promise.
                false => unsafe {
                    each_row(way, source, kind, ids, Direct::<$values>::new(out, $row_values))
                },
                // SAFETY: as above.
                true => unsafe {
                    each_row(way, source, kind, ids, BufferedSink::<$values>::new(out, $row_values))
                },
            }
        };
    }
    let bytes = kind.row_bytes;
    match kind.widened {
        None => each!(Bytes, bytes),
        Some(NarrowFloat::F16) => each!(FromF16, bytes / 2),
        Some(NarrowFloat::Bf16) => each!(FromBf16, bytes / 2),
        Some(NarrowFloat::E4m3) => each!(FromE4m3, bytes),
    }
}

/// # Safety
/// As [`copy_rows`]; the processor has the features, and the output [fits](fits_lanes).
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi")]
unsafe fn with_avx512<S: RowAddresses>(
    way: CopyMethod,
    source: S,
    kind: RowKind,
    ids: &[i64],
    out: &mut [u8],
) -> u64 {
    use super::avx512::{Bytes, FromBf16, FromE4m3, FromF16, Lines};
    macro_rules! each {
        ($lanes:ty, $row_lanes:expr) => {
            match way.streamed {
                // SAFETY: by our caller's promise.
                false => unsafe {
                    each_row(way, source, kind, ids, Lines::<$lanes, false>::new(out, $row_lanes))
                },
                // SAFETY: as above.
                true => unsafe {
                    each_row(way, source, kind, ids, Lines::<$lanes, true>::new(out, $row_lanes))
                },
            }
        };
    }
    let bytes = kind.row_bytes;
    match kind.widened {
        None => each!(Bytes, bytes),
        Some(NarrowFloat::F16) => each!(FromF16, bytes / 2),
        Some(NarrowFloat::Bf16) => each!(FromBf16, bytes / 2),
        Some(NarrowFloat::E4m3) => each!(FromE4m3, bytes),
    }
}

/// Passes each row to the sink, and prefetches the following ones. Inlined with the sink into a function that is
/// compiled for the sink's instructions.
///
/// # Safety
/// As [`copy_rows`]; the sink is for its output.
#[inline(always)]
unsafe fn each_row<S: RowAddresses, K: RowSink>(
    way: CopyMethod,
    source: S,
    kind: RowKind,
    ids: &[i64],
    mut sink: K,
) -> u64 {
    let ahead = way.ahead;
    let mut hits = 0;
    if ahead > 0 {
        // A map is read in random order like the rows: its entry is prefetched first, its row later.
        for &id in ids.iter().take(2 * ahead) {
            source.expect(id);
        }
        for &id in ids.iter().take(ahead) {
            // SAFETY: every id is a row, by our caller's promise; here and below.
            expect_row(unsafe { source.row(id) }.0, kind.row_bytes);
        }
    }
    for (position, &id) in ids.iter().enumerate() {
        if ahead > 0 {
            if let Some(&far) = ids.get(position + 2 * ahead) {
                source.expect(far);
            }
            if let Some(&next) = ids.get(position + ahead) {
                // SAFETY: as above.
                expect_row(unsafe { source.row(next) }.0, kind.row_bytes);
            }
        }
        // SAFETY: as above; the output has a row for each id.
        unsafe {
            let (from, hit) = source.row(id);
            hits += hit;
            sink.row(from);
        }
    }
    // SAFETY: as above.
    unsafe { sink.end() };
    hits
}

/// Prefetches all lines of a row into the second-level cache. Harmless at any address.
#[inline(always)]
fn expect_row(row: *const u8, row_bytes: usize) {
    let lines = (row.addr() % LINE + row_bytes).div_ceil(LINE);
    for line in 0..lines {
        prefetch(row.wrapping_add(line * LINE));
    }
}
