//! Rows copied or widened by 256-bit vectors. Streamed rows pass through a buffer in the first-level cache.
//!
//! Without byte masks, a line that two rows share cannot be assembled in a register. So rows are written one after
//! another into a small buffer. Its whole lines are then streamed to the output, aligned and in order.

use std::arch::x86_64::*;
use std::marker::PhantomData;
use std::mem::MaybeUninit;

use super::portable::widen;
use super::sink::{LINE, RowSink};
use super::widening::NarrowFloat;

/// The conversion of a value during the copy.
pub(crate) trait ValueMove {
    /// Bytes of one in the table.
    const FROM_BYTES: usize;
    /// Bytes of one in the output.
    const TO_BYTES: usize;

    /// Writes `count` values at `from` to `to`, neither of them aligned.
    ///
    /// # Safety
    /// `from` can be read and `to` written for `count` values, and they do not overlap. The processor has AVX2 and
    /// F16C.
    unsafe fn move_all(from: *const u8, to: *mut u8, count: usize);
}

/// Unchanged bytes.
pub(super) struct Bytes;

impl ValueMove for Bytes {
    const FROM_BYTES: usize = 1;
    const TO_BYTES: usize = 1;

    #[inline(always)]
    unsafe fn move_all(from: *const u8, to: *mut u8, count: usize) {
        const STEP: usize = 32;
        // SAFETY: each vector ends within the `count` bytes, by our caller's promise.
        unsafe {
            if count < STEP {
                std::ptr::copy_nonoverlapping(from, to, count);
                return;
            }
            let move_at = |at: usize| {
                _mm256_storeu_si256(to.add(at).cast(), _mm256_loadu_si256(from.add(at).cast()));
            };
            let mut done = 0;
            while done + STEP <= count {
                move_at(done);
                done += STEP;
            }
            if done < count {
                // The last vector overlaps the previous one.
                move_at(count - STEP);
            }
        }
    }
}

/// IEEE 754 half precision to float32.
pub(crate) struct FromF16;

impl ValueMove for FromF16 {
    const FROM_BYTES: usize = NarrowFloat::F16.bytes();
    const TO_BYTES: usize = NarrowFloat::WIDENED_BYTES;

    #[inline(always)]
    unsafe fn move_all(from: *const u8, to: *mut u8, count: usize) {
        // SAFETY: by our caller's promise.
        unsafe {
            widen_eights(NarrowFloat::F16, from, to, count, |from| {
                _mm256_castps_si256(_mm256_cvtph_ps(_mm_loadu_si128(from.cast())))
            });
        }
    }
}

/// bfloat16 to float32.
pub(crate) struct FromBf16;

impl ValueMove for FromBf16 {
    const FROM_BYTES: usize = NarrowFloat::Bf16.bytes();
    const TO_BYTES: usize = NarrowFloat::WIDENED_BYTES;

    #[inline(always)]
    unsafe fn move_all(from: *const u8, to: *mut u8, count: usize) {
        // SAFETY: by our caller's promise.
        unsafe {
            widen_eights(NarrowFloat::Bf16, from, to, count, |from| {
                _mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(_mm_loadu_si128(from.cast())))
            });
        }
    }
}

/// float8_e4m3fn to float32, like [`NarrowFloat::widened`].
pub(crate) struct FromE4m3;

impl ValueMove for FromE4m3 {
    const FROM_BYTES: usize = NarrowFloat::E4m3.bytes();
    const TO_BYTES: usize = NarrowFloat::WIDENED_BYTES;

    #[inline(always)]
    unsafe fn move_all(from: *const u8, to: *mut u8, count: usize) {
        // SAFETY: by our caller's promise.
        unsafe {
            widen_eights(NarrowFloat::E4m3, from, to, count, |from| {
                let bits = _mm_cvtepu8_epi16(_mm_loadl_epi64(from.cast()));
                let (sign, rest) =
                    (_mm_and_si128(bits, _mm_set1_epi16(0x80)), _mm_and_si128(bits, _mm_set1_epi16(0x7f)));
                let is_nan = _mm_cmpeq_epi16(rest, _mm_set1_epi16(0x7f));
                let rest = _mm_blendv_epi8(_mm_slli_epi16::<7>(rest), _mm_set1_epi16(0x7e00), is_nan);
                let scaled = _mm256_cvtph_ps(_mm_or_si128(_mm_slli_epi16::<8>(sign), rest));
                _mm256_castps_si256(_mm256_mul_ps(scaled, _mm256_set1_ps(256.0)))
            });
        }
    }
}

/// Widens eight values at a time by `eight`, which gets their address; fewer than eight one by one.
///
/// # Safety
/// As [`ValueMove::move_all`]. `eight` reads exactly eight values.
#[inline(always)]
unsafe fn widen_eights(
    narrow: NarrowFloat,
    from: *const u8,
    to: *mut u8,
    count: usize,
    eight: impl Fn(*const u8) -> __m256i,
) {
    const STEP: usize = 8;
    // SAFETY: each vector ends within the `count` values, by our caller's promise.
    unsafe {
        if count < STEP {
            widen(narrow, from, to, count);
            return;
        }
        let widen_at = |at: usize| {
            let widened = eight(from.add(at * narrow.bytes()));
            _mm256_storeu_si256(to.add(at * NarrowFloat::WIDENED_BYTES).cast(), widened);
        };
        let mut done = 0;
        while done + STEP <= count {
            widen_at(done);
            done += STEP;
        }
        if done < count {
            // The last vector overlaps the previous one.
            widen_at(count - STEP);
        }
    }
}

/// A sink that writes rows directly to the output.
pub(super) struct Direct<V> {
    /// The address of the next row.
    to: *mut u8,
    row_values: usize,
    values: PhantomData<V>,
}

impl<V: ValueMove> Direct<V> {
    /// Creates a sink for rows of `row_values` values.
    pub fn new(out: &mut [u8], row_values: usize) -> Self {
        Self { to: out.as_mut_ptr(), row_values, values: PhantomData }
    }
}

impl<V: ValueMove> RowSink for Direct<V> {
    #[inline(always)]
    unsafe fn row(&mut self, from: *const u8) {
        // SAFETY: `from` is a row, and one more fits into the output, by our caller's promise.
        unsafe {
            V::move_all(from, self.to, self.row_values);
            self.to = self.to.add(self.row_values * V::TO_BYTES);
        }
    }

    #[inline(always)]
    unsafe fn end(self) {}
}

/// Bytes at which the buffer is flushed. It holds several rows, so that loads and streamed stores each come in a run. 8
/// KiB was 7 % slower at 400 bytes a row and 10 % at 1028.
const EMPTIED_AT: usize = 2048;

/// A longer row passes through the buffer in parts of this many bytes.
const PART_BYTES: usize = 2048;

#[repr(C, align(64))]
struct Buffer(MaybeUninit<[u8; EMPTIED_AT + PART_BYTES + LINE]>);

/// A sink that writes consecutive rows through the buffer, bypassing the caches.
pub(super) struct BufferedSink<V> {
    buffer: Buffer,
    /// The used bytes of the buffer, to be written from `to` on.
    held: usize,
    /// The address of the buffer's first byte in the output: the start of a line, which may be before the output.
    to: *mut u8,
    /// Bytes of the buffer before the output begins, which must not be written; 0 after the first flush.
    foreign: usize,
    row_values: usize,
    values: PhantomData<V>,
}

impl<V: ValueMove> BufferedSink<V> {
    /// Creates a sink for rows of `row_values` values.
    #[inline(always)]
    pub fn new(out: &mut [u8], row_values: usize) -> Self {
        let foreign = out.as_ptr() as usize % LINE;
        Self {
            buffer: Buffer(MaybeUninit::uninit()),
            held: foreign,
            to: out.as_mut_ptr().wrapping_sub(foreign),
            foreign,
            row_values,
            values: PhantomData,
        }
    }

    fn start(&mut self) -> *mut u8 {
        self.buffer.0.as_mut_ptr().cast()
    }

    /// Streams the buffer's whole lines (at least one) and keeps the rest.
    ///
    /// # Safety
    /// The output has space for all held bytes; the processor has AVX.
    #[inline(always)]
    unsafe fn empty(&mut self) {
        let whole = self.held / LINE * LINE;
        let (start, to) = (self.start(), self.to);
        let mut done = 0;
        // SAFETY: every byte from `foreign` to `held` has been written, and belongs to the same offset from `to` in the
        // output. `to` and the buffer begin on a line, so vectors are aligned. The rest is shorter than a line, and is
        // after the first, so that they do not overlap; the buffer has a line more than is ever held.
        unsafe {
            if self.foreign != 0 {
                self.write_first(LINE);
                done = LINE;
            }
            while done < whole {
                for half in [done, done + LINE / 2] {
                    _mm256_stream_si256(
                        to.wrapping_add(half).cast(),
                        _mm256_load_si256(start.add(half).cast()),
                    );
                }
                done += LINE;
            }
            std::ptr::copy_nonoverlapping(start.add(whole), start, self.held - whole);
        }
        self.to = to.wrapping_add(whole);
        self.held -= whole;
    }

    /// Writes the held part of the first `end` bytes with ordinary stores, for a line that is shared with other code.
    ///
    /// # Safety
    /// The output has space for it; `end` is at most `held`.
    unsafe fn write_first(&mut self, end: usize) {
        let foreign = std::mem::take(&mut self.foreign);
        // SAFETY: as in `empty`, for the bytes from `foreign` to `end`.
        unsafe {
            let from = self.start().add(foreign);
            std::ptr::copy_nonoverlapping(from, self.to.wrapping_add(foreign), end - foreign);
        }
    }
}

impl<V: ValueMove> RowSink for BufferedSink<V> {
    #[inline(always)]
    unsafe fn row(&mut self, from: *const u8) {
        let part = PART_BYTES / V::TO_BYTES;
        let mut done = 0;
        while done < self.row_values {
            let count = part.min(self.row_values - done);
            // SAFETY: these are values of the row. Less than `EMPTIED_AT` bytes are held, and a part is at most
            // `PART_BYTES`, so they fit. The output has room for the row.
            unsafe {
                let to = self.start().add(self.held);
                V::move_all(from.add(done * V::FROM_BYTES), to, count);
                self.held += count * V::TO_BYTES;
                if self.held >= EMPTIED_AT {
                    self.empty();
                }
            }
            done += count;
        }
    }

    #[inline(always)]
    unsafe fn end(mut self) {
        // SAFETY: as in `row`. An incomplete last line is not streamed: another thread may write the rest of it. The
        // fence orders the streamed stores before any store that publishes the output; a release store would not
        // suffice.
        unsafe {
            if self.held >= LINE {
                self.empty();
            }
            if self.held > self.foreign {
                self.write_first(self.held);
            }
            _mm_sfence();
        }
    }
}
