//! Rows put together to whole cache lines in a 512-bit register.
//!
//! A row seldom ends where a line does. The rest of it stays in the register until the next row has filled the line up,
//! so that every line of the output is written once, whole, aligned and in order. Only then can a store bypass the
//! caches at the speed of memory: a line that is streamed in two parts is written to memory twice.

use std::arch::x86_64::*;
use std::marker::PhantomData;

use super::copy::{LINE, Sink};

/// What a line of the output is made of.
pub(super) trait Lanes {
    /// Lanes of a line.
    const COUNT: usize;
    /// Bytes of a lane in the table; in the output it has `LINE / COUNT`.
    const FROM_BYTES: usize;

    /// A line from `COUNT` lanes at `from`.
    ///
    /// # Safety
    /// They can be read; the processor has AVX-512 F, BW and VL.
    unsafe fn load(from: *const u8) -> __m512i;

    /// `line` with those lanes replaced whose bit in `which` is set, by those at their places behind `from`.
    ///
    /// # Safety
    /// Those lanes can be read, the others need not exist; the processor has AVX-512 F, BW and VL.
    unsafe fn load_some(line: __m512i, which: u64, from: *const u8) -> __m512i;
}

/// Bytes as they are.
pub(super) struct Bytes;

impl Lanes for Bytes {
    const COUNT: usize = 64;
    const FROM_BYTES: usize = 1;

    #[inline(always)]
    unsafe fn load(from: *const u8) -> __m512i {
        // SAFETY: by our caller's promise.
        unsafe { _mm512_loadu_si512(from.cast()) }
    }

    #[inline(always)]
    unsafe fn load_some(line: __m512i, which: u64, from: *const u8) -> __m512i {
        // SAFETY: by our caller's promise; lanes that are masked out are not read and do not fault.
        unsafe { _mm512_mask_loadu_epi8(line, which, from.cast()) }
    }
}

/// IEEE 754 half precision to float32.
pub(super) struct FromF16;

impl Lanes for FromF16 {
    const COUNT: usize = 16;
    const FROM_BYTES: usize = 2;

    #[inline(always)]
    unsafe fn load(from: *const u8) -> __m512i {
        // SAFETY: by our caller's promise.
        unsafe { _mm512_castps_si512(_mm512_cvtph_ps(_mm256_loadu_si256(from.cast()))) }
    }

    #[inline(always)]
    unsafe fn load_some(line: __m512i, which: u64, from: *const u8) -> __m512i {
        let which = which as __mmask16;
        // SAFETY: by our caller's promise; lanes that are masked out are not read and do not fault.
        unsafe {
            let halves = _mm256_maskz_loadu_epi16(which, from.cast());
            _mm512_castps_si512(_mm512_mask_cvtph_ps(_mm512_castsi512_ps(line), which, halves))
        }
    }
}

/// bfloat16 to float32.
pub(super) struct FromBf16;

impl Lanes for FromBf16 {
    const COUNT: usize = 16;
    const FROM_BYTES: usize = 2;

    #[inline(always)]
    unsafe fn load(from: *const u8) -> __m512i {
        // SAFETY: by our caller's promise.
        unsafe { _mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(_mm256_loadu_si256(from.cast()))) }
    }

    #[inline(always)]
    unsafe fn load_some(line: __m512i, which: u64, from: *const u8) -> __m512i {
        let which = which as __mmask16;
        // SAFETY: by our caller's promise; lanes that are masked out are not read and do not fault.
        unsafe {
            let halves = _mm256_maskz_loadu_epi16(which, from.cast());
            _mm512_mask_slli_epi32::<16>(line, which, _mm512_cvtepu16_epi32(halves))
        }
    }
}

/// Writes rows one after another, in whole lines: past the caches where `STREAMED`.
pub(super) struct Lines<L, const STREAMED: bool> {
    /// The line of the output that is being filled. The first may begin before the output does.
    to: *mut u8,
    /// What is in it so far: the first `filled` lanes, but for the first `foreign`.
    line: __m512i,
    filled: usize,
    /// Lanes of that line before the output begins, which are somebody else's; 0 behind the first line.
    foreign: usize,
    row_lanes: usize,
    lanes: PhantomData<L>,
}

impl<L: Lanes, const STREAMED: bool> Lines<L, STREAMED> {
    /// Bytes of a lane in the output, whose address has to be a multiple of it.
    pub const LANE_BYTES: usize = LINE / L::COUNT;

    /// For rows of so many lanes.
    ///
    /// # Safety
    /// The processor has AVX-512 F, BW and VL. `out` begins on a multiple of [`Self::LANE_BYTES`].
    #[inline(always)]
    pub unsafe fn new(out: &mut [u8], row_lanes: usize) -> Self {
        let before = out.as_ptr() as usize % LINE;
        let foreign = before / Self::LANE_BYTES;
        Self {
            to: out.as_mut_ptr().wrapping_sub(before),
            // SAFETY: by our caller's promise.
            line: unsafe { _mm512_setzero_si512() },
            filled: foreign,
            foreign,
            row_lanes,
            lanes: PhantomData,
        }
    }

    /// Bits of the bytes of a line that the lanes from `from` up to `to` take, which are at most all.
    #[inline(always)]
    fn bytes_of(from: usize, to: usize) -> u64 {
        lowest(to * Self::LANE_BYTES) & !lowest(from * Self::LANE_BYTES)
    }

    /// Writes a line that is full.
    ///
    /// # Safety
    /// The output reaches to the end of the line at `to`.
    #[inline(always)]
    unsafe fn write(&mut self, line: __m512i) {
        // SAFETY: `to` is a multiple of the line's size, and the line is part of the output but for the foreign lanes,
        // which are written by nobody here. It points one past the end at most afterwards.
        unsafe {
            if self.foreign != 0 {
                _mm512_mask_storeu_epi8(self.to.cast(), Self::bytes_of(self.foreign, L::COUNT), line);
                self.foreign = 0;
            } else if STREAMED {
                _mm512_stream_si512(self.to.cast(), line);
            } else {
                _mm512_store_si512(self.to.cast(), line);
            }
            self.to = self.to.wrapping_add(LINE);
        }
    }
}

/// The lowest `count` bits, of at most 64.
#[inline(always)]
fn lowest(count: usize) -> u64 {
    if count == 0 { 0 } else { u64::MAX >> (64 - count) }
}

impl<L: Lanes, const STREAMED: bool> Sink for Lines<L, STREAMED> {
    #[inline(always)]
    unsafe fn row(&mut self, from: *const u8) {
        let (filled, lanes) = (self.filled, self.row_lanes);
        // Where the row would begin for its lanes to stand at their places in the line.
        let at_line = from.wrapping_sub(filled * L::FROM_BYTES);
        // SAFETY: all lanes that are read are the row's: those from `filled` on of what begins `filled` lanes before it,
        // and later those below `lanes`. The output has room for the row, so every line that the row fills is in it.
        unsafe {
            if filled + lanes < L::COUNT {
                self.line = L::load_some(self.line, lowest(lanes) << filled, at_line);
                self.filled = filled + lanes;
                return;
            }
            let line = L::load_some(self.line, u64::MAX << filled, at_line);
            self.write(line);
            let mut done = L::COUNT - filled;
            while done + L::COUNT <= lanes {
                let line = L::load(from.add(done * L::FROM_BYTES));
                self.write(line);
                done += L::COUNT;
            }
            self.filled = lanes - done;
            if self.filled != 0 {
                let zeros = _mm512_setzero_si512();
                self.line = L::load_some(zeros, lowest(self.filled), from.add(done * L::FROM_BYTES));
            }
        }
    }

    #[inline(always)]
    unsafe fn end(self) {
        // SAFETY: the lanes that are written are the output's last, not streamed: what shares their line may be written
        // by another thread. The fence orders what was streamed before whatever makes the output known to others, for
        // which a release store would not do.
        unsafe {
            if self.filled > self.foreign {
                _mm512_mask_storeu_epi8(self.to.cast(), Self::bytes_of(self.foreign, self.filled), self.line);
            }
            if STREAMED {
                _mm_sfence();
            }
        }
    }
}
