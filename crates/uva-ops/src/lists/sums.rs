//! Weighted sums of listed rows: the loop that aggregates blocks and takes their gradients back.
//!
//! Every list is summed column by column in the order of its edges, each addition a fused multiply-add onto a sum that
//! starts at zero. So the result is the same bit for bit with all vectors and for any number of threads.

use super::checked::{Id, Lists, ListsError};
use super::tasks::by_list;
use crate::{Set, Vectors};
use rayon::ThreadPool;
use std::mem::MaybeUninit;
use std::ops::{Add, Div, Mul, Sub};

/// Prefetch distance in edges. Not yet tuned: on a machine kept busy by other jobs, distances of 4, 8, 16 and 24 could
/// not be distinguished. The example `aggregation` of uva-train with 16384 × 10 edges, 110000 sources and width 128
/// took 13.4, 5.0, 13.0 and 8.9 ms forward with weights. A mean, which is the same work, took 17.0, 12.5, 9.6 and 12.8
/// ms.
const AHEAD: usize = 8;

/// An element of rows: f32 or f64.
pub trait Element:
    Copy
    + Send
    + Sync
    + PartialOrd
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + 'static
{
    /// The nearest one.
    fn from_f64(value: f64) -> Self;

    /// `self × factor + sum`, rounded once.
    fn multiply_add(self, factor: Self, sum: Self) -> Self;

    /// e to the power of this.
    fn exp(self) -> Self;

    /// The scalar product, added up in an order of its own, the same with all vectors.
    fn dot(vectors: Vectors, left: &[Self], right: &[Self]) -> Self;

    /// As many lists of `sums` as `out` has rows, from `first`, by those instructions where there is a loop for them.
    #[doc(hidden)]
    fn sums<I: Id>(
        sums: &WeightedSums<'_, Self, I>,
        first: usize,
        out: &mut [MaybeUninit<Self>],
        vectors: Vectors,
    );
}

impl Element for f64 {
    fn from_f64(value: f64) -> Self {
        value
    }

    fn multiply_add(self, factor: Self, sum: Self) -> Self {
        self.mul_add(factor, sum)
    }

    fn exp(self) -> Self {
        self.exp()
    }

    fn dot(_: Vectors, left: &[Self], right: &[Self]) -> Self {
        left.iter().zip(right).fold(0.0, |sum, (left, &right)| left.mul_add(right, sum))
    }

    // Only gradient checks compute in f64.
    fn sums<I: Id>(
        sums: &WeightedSums<'_, Self, I>,
        first: usize,
        out: &mut [MaybeUninit<Self>],
        _: Vectors,
    ) {
        portable(sums, first, out);
    }
}

crate::vectorized! {
    fn dot(left: &[f32], right: &[f32]) -> f32 {
        // As many sums side by side as the widest vectors have lanes, whichever there are.
        let ((left, left_rest), (right, right_rest)) = (left.as_chunks::<16>(), right.as_chunks::<16>());
        let mut sums = [0.0_f32; 16];
        for (left, right) in left.iter().zip(right) {
            for lane in 0..16 {
                sums[lane] += left[lane] * right[lane];
            }
        }
        let rest: f32 = left_rest.iter().zip(right_rest).map(|(left, right)| left * right).sum();
        sums.iter().sum::<f32>() + rest
    }
}

impl Element for f32 {
    fn from_f64(value: f64) -> Self {
        value as f32
    }

    fn multiply_add(self, factor: Self, sum: Self) -> Self {
        self.mul_add(factor, sum)
    }

    fn exp(self) -> Self {
        self.exp()
    }

    fn dot(vectors: Vectors, left: &[Self], right: &[Self]) -> Self {
        dot(vectors, left, right)
    }

    fn sums<I: Id>(
        sums: &WeightedSums<'_, Self, I>,
        first: usize,
        out: &mut [MaybeUninit<Self>],
        vectors: Vectors,
    ) {
        match vectors.set() {
            // SAFETY: the processor has the instructions that `Vectors` names, and `WeightedSums::new` has checked all
            // that the loop reads. The loop writes all rows of `out`, which holds whole rows of existing lists.
            #[cfg(target_arch = "x86_64")]
            Set::Avx512 => unsafe { avx512::sums(sums, first, out) },
            // SAFETY: the same.
            #[cfg(target_arch = "x86_64")]
            Set::Avx2 => unsafe { avx2::sums(sums, first, out) },
            // A processor without fused multiply-add computes it in software.
            Set::Portable => portable(sums, first, out),
        }
    }
}

/// The factor of an edge's row.
#[derive(Clone, Copy)]
pub enum Weights<'a, T> {
    /// A number an edge.
    Each(&'a [T]),
    /// So many numbers an edge, each for an equal part of the row.
    Heads(&'a [T], usize),
    /// One over the number of edges in its list.
    Mean,
    /// One.
    One,
}

/// The sums of some lists, whose sizes have been checked.
pub struct WeightedSums<'a, T, I> {
    rows: &'a [T],
    width: usize,
    lists: Lists<'a, I>,
    weights: Weights<'a, T>,
}

impl<'a, T: Element, I: Id> WeightedSums<'a, T, I> {
    /// `rows` has rows of `width` elements.
    ///
    /// # Errors
    /// If the rows are not those of the lists, or the weights not those of their edges.
    pub fn new(
        rows: &'a [T],
        width: usize,
        lists: Lists<'a, I>,
        weights: Weights<'a, T>,
    ) -> Result<Self, ListsError> {
        lists.check_table(rows.len(), lists.rows(), width)?;
        let edges = lists.indices().len();
        let (given, heads) = match weights {
            Weights::Each(weights) => (weights.len(), 1),
            Weights::Heads(weights, heads) => (weights.len(), heads),
            Weights::Mean | Weights::One => (edges, 1),
        };
        if heads == 0 || !width.is_multiple_of(heads) {
            return Err(ListsError::Heads { width, heads });
        }
        match edges.checked_mul(heads) {
            Some(wanted) if wanted == given => Ok(Self { rows, width, lists, weights }),
            _ => Err(ListsError::Weights { given, edges }),
        }
    }

    /// Parts of a row that have weights of their own.
    fn heads(&self) -> usize {
        if let Weights::Heads(_, heads) = self.weights { heads } else { 1 }
    }

    /// The weight of an edge of a list whose mean has the factor `mean`.
    ///
    /// # Safety
    /// The edge is one of the lists', and `head` below [`heads`](Self::heads).
    #[inline(always)]
    unsafe fn weight(&self, edge: usize, head: usize, mean: T) -> T {
        match self.weights {
            // SAFETY: `new` has found a weight for each edge, and by our caller this is one.
            Weights::Each(weights) => unsafe { *weights.get_unchecked(edge) },
            // SAFETY: as above, for each edge and head.
            Weights::Heads(weights, heads) => unsafe { *weights.get_unchecked(edge * heads + head) },
            Weights::Mean => mean,
            Weights::One => T::from_f64(1.0),
        }
    }

    /// Writes one row a list, each element of `out`.
    ///
    /// # Panics
    /// If `out` has not as many elements as that is.
    pub fn write(&self, out: &mut [MaybeUninit<T>], vectors: Vectors, pool: Option<&ThreadPool>) {
        assert_eq!(out.len(), self.lists.len() * self.width, "one row a list");
        let work = (self.lists.indices().len() + self.lists.len()) * self.width;
        by_list(out, self.width, work, pool, |first, out| T::sums(self, first, out, vectors));
    }
}

fn portable<T: Element, I: Id>(job: &WeightedSums<'_, T, I>, first: usize, out: &mut [MaybeUninit<T>]) {
    let width = job.width;
    if width == 0 {
        return;
    }
    let part = width / job.heads();
    let mut sum = vec![T::from_f64(0.0); width];
    for (v, out) in (first..).zip(out.chunks_exact_mut(width)) {
        sum.fill(T::from_f64(0.0));
        let edges = job.lists.edges(v);
        let mean = T::from_f64(1.0 / edges.len() as f64);
        for edge in edges {
            let row = &job.rows[job.lists.row(edge) * width..][..width];
            let parts = sum.chunks_exact_mut(part).zip(row.chunks_exact(part));
            for (head, (sum, row)) in parts.enumerate() {
                // SAFETY: an edge of list v, and there are as many parts as heads.
                let weight = unsafe { job.weight(edge, head, mean) };
                for (sum, &element) in sum.iter_mut().zip(row) {
                    *sum = element.multiply_add(weight, *sum);
                }
            }
        }
        for (out, &sum) in out.iter_mut().zip(&sum) {
            out.write(sum);
        }
    }
}

/// The same loop for one width of vectors. Up to eight registers hold the sums of a list while its rows are added, so
/// each sum is written once. Wider rows are processed in several panels.
#[cfg(target_arch = "x86_64")]
macro_rules! vectors {
    (
        $module:ident, $features:literal, $lanes:literal, mask: $mask:expr,
        $zero:ident, $splat:ident, $load:ident, $load_masked:expr, $fma:ident, $store:ident, $store_masked:expr
    ) => {
        mod $module {
            use super::{AHEAD, Id, WeightedSums};
            use std::arch::x86_64::*;
            use std::mem::MaybeUninit;
            use std::ops::Range;

            const LANES: usize = $lanes;
            const PANEL: usize = 8;

            /// # Safety
            /// The processor has the features. `job` is one that [`WeightedSums::new`] has checked, `out` whole rows of
            /// its lists from `first`, none beyond the last.
            #[target_feature(enable = $features)]
            pub(super) unsafe fn sums<I: Id>(
                job: &WeightedSums<'_, f32, I>,
                first: usize,
                out: &mut [MaybeUninit<f32>],
            ) {
                let width = job.width;
                if width == 0 {
                    return;
                }
                let part = width / job.heads();
                for (v, out) in (first..).zip(out.chunks_exact_mut(width)) {
                    let edges = job.lists.edges(v);
                    let mut column = 0;
                    while column < width {
                        // A panel has one weight an edge: it ends with its head's part of the row.
                        let head = column / part;
                        let columns = ((head + 1) * part - column).min(PANEL * LANES);
                        let out = out[column..column + columns].as_mut_ptr().cast();
                        let (edges, column_of) = (edges.clone(), (head, column));
                        // SAFETY: `columns` columns from `column` lie within the row, here and in `out`, and fill
                        // as many vectors as the panel has, the last at least by one lane.
                        unsafe {
                            match columns.div_ceil(LANES) {
                                1 => panel::<1, I>(job, edges, column_of, columns, out),
                                2 => panel::<2, I>(job, edges, column_of, columns, out),
                                3 => panel::<3, I>(job, edges, column_of, columns, out),
                                4 => panel::<4, I>(job, edges, column_of, columns, out),
                                5 => panel::<5, I>(job, edges, column_of, columns, out),
                                6 => panel::<6, I>(job, edges, column_of, columns, out),
                                7 => panel::<7, I>(job, edges, column_of, columns, out),
                                _ => panel::<8, I>(job, edges, column_of, columns, out),
                            }
                        }
                        column += columns;
                    }
                }
            }

            /// # Safety
            /// As for [`sums`]; (N − 1) × LANES < `columns` ≤ N × LANES, `column + columns` is at most the width, all
            /// of one head, and `out` has room for `columns` numbers.
            #[target_feature(enable = $features)]
            #[inline]
            unsafe fn panel<const N: usize, I: Id>(
                job: &WeightedSums<'_, f32, I>,
                edges: Range<usize>,
                (head, column): (usize, usize),
                columns: usize,
                out: *mut f32,
            ) {
                let mask = ($mask)(columns - (N - 1) * LANES);
                let mean = (1.0 / edges.len() as f64) as f32;
                let mut sums = [$zero(); N];
                let indices = job.lists.indices();
                let last = indices.len().saturating_sub(1);
                for edge in edges {
                    // SAFETY: `edge` is one of the lists', and every index is below the number of rows, so a row of
                    // `width` elements starts there. At most its first `column + columns` elements are read: whole
                    // vectors except the last, whose lanes beyond `columns` are masked out. A prefetch may name any
                    // address; this one is in a row or behind the last.
                    unsafe {
                        let row = |edge: usize| {
                            let index = indices.get_unchecked(edge).place();
                            job.rows.as_ptr().wrapping_add(index * job.width + column)
                        };
                        let ahead = row((edge + AHEAD).min(last));
                        for line in 0..(N * LANES).div_ceil(16) {
                            _mm_prefetch::<_MM_HINT_T0>(ahead.wrapping_add(line * 16).cast());
                        }
                        let weight = $splat(job.weight(edge, head, mean));
                        let row = row(edge);
                        for n in 0..N - 1 {
                            sums[n] = $fma($load(row.add(n * LANES)), weight, sums[n]);
                        }
                        let rest = ($load_masked)(row.add((N - 1) * LANES), mask);
                        sums[N - 1] = $fma(rest, weight, sums[N - 1]);
                    }
                }
                // SAFETY: `columns` numbers, the last vector masked as above.
                unsafe {
                    for n in 0..N - 1 {
                        $store(out.add(n * LANES), sums[n]);
                    }
                    ($store_masked)(out.add((N - 1) * LANES), mask, sums[N - 1]);
                }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
vectors!(
    avx512, "avx512f", 16, mask: |lanes: usize| (u32::MAX >> (32 - lanes)) as u16,
    _mm512_setzero_ps, _mm512_set1_ps, _mm512_loadu_ps, |row, mask| _mm512_maskz_loadu_ps(mask, row),
    _mm512_fmadd_ps, _mm512_storeu_ps, |out, mask, sums| _mm512_mask_storeu_ps(out, mask, sums)
);

#[cfg(target_arch = "x86_64")]
vectors!(
    avx2, "avx2,fma", 8,
    mask: |lanes: usize| _mm256_cmpgt_epi32(
        _mm256_set1_epi32(lanes as i32), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)
    ),
    _mm256_setzero_ps, _mm256_set1_ps, _mm256_loadu_ps, |row, mask| _mm256_maskload_ps(row, mask),
    _mm256_fmadd_ps, _mm256_storeu_ps, |out, mask, sums| _mm256_maskstore_ps(out, mask, sums)
);
