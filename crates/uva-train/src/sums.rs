//! Weighted sums of listed rows on the host: the loop that aggregates blocks and takes their gradients back.
//!
//! Every list is summed by one thread, column by column in the order of its edges, each addition a fused multiply-add
//! onto a sum that starts at zero. So the result is the same bit for bit with all vectors and for any number of threads.

#![allow(unsafe_code)]

use crate::borrowed::Number;
use crate::{TrainError, host};
use rayon::ThreadPool;
use rayon::prelude::*;
use std::mem::MaybeUninit;
use std::ops::Range;
use tch::Tensor;
use uva_ops::{Set, Vectors};

/// Prefetch distance in edges. Not yet tuned: on a machine kept busy by other jobs, distances of 4, 8, 16 and 24 could
/// not be distinguished. The example `aggregation` with 16384 × 10 edges, 110000 sources and width 128 took 13.4, 5.0,
/// 13.0 and 8.9 ms forward with weights. A mean, which is the same work, took 17.0, 12.5, 9.6 and 12.8 ms.
const AHEAD: usize = 8;

/// Lists that a thread takes at once.
const TASK_LISTS: usize = 128;

/// Edges × columns up to which the caller does all, as waking threads takes longer.
const ALONE: usize = 1 << 17;

/// A number that names a row: i32 or i64.
pub(crate) trait Id: Number + Sync {
    /// The number; one below zero becomes one that no table has.
    fn place(self) -> usize;
}

impl Id for i32 {
    fn place(self) -> usize {
        self as u32 as usize
    }
}

impl Id for i64 {
    fn place(self) -> usize {
        self as usize
    }
}

/// An element of rows.
pub(crate) trait Element: Number + Send + Sync {
    fn from_f64(value: f64) -> Self;

    /// As many lists of `job` as `out` has rows, from `first`, by those instructions where there is a loop for them.
    fn sums<I: Id>(job: &Job<'_, Self, I>, first: usize, out: &mut [MaybeUninit<Self>], vectors: Vectors);

    fn multiply_add(self, factor: Self, sum: Self) -> Self;
}

impl Element for f64 {
    fn from_f64(value: f64) -> Self {
        value
    }

    // Only gradient checks compute in f64.
    fn sums<I: Id>(job: &Job<'_, Self, I>, first: usize, out: &mut [MaybeUninit<Self>], _: Vectors) {
        portable(job, first, out);
    }

    fn multiply_add(self, factor: Self, sum: Self) -> Self {
        self.mul_add(factor, sum)
    }
}

impl Element for f32 {
    fn from_f64(value: f64) -> Self {
        value as f32
    }

    fn sums<I: Id>(job: &Job<'_, Self, I>, first: usize, out: &mut [MaybeUninit<Self>], vectors: Vectors) {
        match vectors.set() {
            // SAFETY: the processor has the instructions that `Vectors` names, and `Job::new` has checked all that the
            // loop reads. The loop writes all rows of `out`, which holds whole rows of existing lists.
            #[cfg(target_arch = "x86_64")]
            Set::Avx512 => unsafe { avx512::sums(job, first, out) },
            // SAFETY: the same.
            #[cfg(target_arch = "x86_64")]
            Set::Avx2 => unsafe { avx2::sums(job, first, out) },
            // A processor without fused multiply-add computes it in software.
            Set::Portable => portable(job, first, out),
        }
    }

    fn multiply_add(self, factor: Self, sum: Self) -> Self {
        self.mul_add(factor, sum)
    }
}

/// The factor of an edge's row.
#[derive(Clone, Copy)]
pub(crate) enum Weights<'a, T> {
    /// A number an edge.
    Each(&'a [T]),
    /// One over the number of edges in its list.
    Mean,
}

/// Lists over rows, checked: offsets never fall and end at the number of indices, each of which names a row.
pub(crate) struct Job<'a, T, I> {
    rows: &'a [T],
    width: usize,
    offsets: &'a [I],
    indices: &'a [I],
    weights: Weights<'a, T>,
}

impl<'a, T: Element, I: Id> Job<'a, T, I> {
    /// `rows` has rows of `width` elements; list v is `indices[offsets[v]..offsets[v + 1]]`.
    pub(crate) fn new(
        rows: &'a [T],
        width: usize,
        (offsets, indices): (&'a [I], &'a [I]),
        weights: Weights<'a, T>,
    ) -> Result<Self, TrainError> {
        let refuse = |problem: String| Err(TrainError::Input(problem));
        let count = rows.len().checked_div(width).unwrap_or(usize::MAX);
        let (Some(first), Some(last)) = (offsets.first(), offsets.last()) else {
            return refuse("lists without offsets".to_owned());
        };
        let falls = offsets.windows(2).fold(false, |falls, pair| falls | (pair[0].place() > pair[1].place()));
        if first.place() != 0 || last.place() != indices.len() || falls {
            return refuse(format!("offsets of lists that do not rise from 0 to {}", indices.len()));
        }
        // Branch-free, so that it runs at the speed of memory.
        if indices.iter().fold(false, |outside, index| outside | (index.place() >= count)) {
            return refuse(format!("an index of a row among {count} that is none"));
        }
        match weights {
            Weights::Each(weights) if weights.len() != indices.len() => {
                return refuse(format!("{} weights for {} edges", weights.len(), indices.len()));
            }
            _ => {}
        }
        Ok(Self { rows, width, offsets, indices, weights })
    }

    fn lists(&self) -> usize {
        self.offsets.len() - 1
    }

    /// The edges of list `v`.
    fn edges(&self, v: usize) -> Range<usize> {
        self.offsets[v].place()..self.offsets[v + 1].place()
    }

    fn sums(&self, out: &mut [MaybeUninit<T>], vectors: Vectors, pool: Option<&ThreadPool>) {
        assert_eq!(out.len(), self.lists() * self.width, "one row a list");
        match pool {
            Some(pool) if (self.indices.len() + self.lists()) * self.width > ALONE => pool.install(|| {
                let tasks = out.par_chunks_mut(TASK_LISTS * self.width).enumerate();
                tasks.for_each(|(task, out)| T::sums(self, task * TASK_LISTS, out, vectors));
            }),
            _ => T::sums(self, 0, out, vectors),
        }
    }

    /// One row a list, as a tensor.
    pub(crate) fn tensor(&self, vectors: Vectors, pool: Option<&ThreadPool>) -> Result<Tensor, TrainError> {
        let shape = [self.lists() as i64, self.width as i64];
        // SAFETY: every loop writes each row of its lists whole, and the tasks are all lists.
        unsafe { host::filled(&shape, |out| self.sums(out, vectors, pool)) }
    }
}

/// [`Job::tensor`] by the threads and the instructions that are best.
pub(crate) fn weighted_sums<T: Element, I: Id>(
    rows: &Tensor,
    lists: (&[I], &[I]),
    weights: Weights<'_, T>,
) -> Result<Tensor, TrainError> {
    let (_, width) = rows.size2()?;
    let job = Job::new(host::values::<T>(rows)?, width as usize, lists, weights)?;
    job.tensor(Vectors::widest(), host::threads().as_deref())
}

fn portable<T: Element, I: Id>(job: &Job<'_, T, I>, first: usize, out: &mut [MaybeUninit<T>]) {
    let width = job.width;
    if width == 0 {
        return;
    }
    let mut sum = vec![T::from_f64(0.0); width];
    for (v, out) in (first..).zip(out.chunks_exact_mut(width)) {
        sum.fill(T::from_f64(0.0));
        let edges = job.edges(v);
        let mean = T::from_f64(1.0 / edges.len() as f64);
        for edge in edges {
            let weight = match job.weights {
                Weights::Each(weights) => weights[edge],
                Weights::Mean => mean,
            };
            let row = &job.rows[job.indices[edge].place() * width..][..width];
            for (sum, &element) in sum.iter_mut().zip(row) {
                *sum = element.multiply_add(weight, *sum);
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
            use super::{AHEAD, Id, Job, Weights};
            use std::arch::x86_64::*;
            use std::mem::MaybeUninit;
            use std::ops::Range;

            const LANES: usize = $lanes;
            const PANEL: usize = 8;

            /// # Safety
            /// The processor has the features. `job` is one that [`Job::new`] has checked, `out` whole rows of its
            /// lists from `first`, none beyond the last.
            #[target_feature(enable = $features)]
            pub(super) unsafe fn sums<I: Id>(
                job: &Job<'_, f32, I>,
                first: usize,
                out: &mut [MaybeUninit<f32>],
            ) {
                let width = job.width;
                if width == 0 {
                    return;
                }
                for (v, out) in (first..).zip(out.chunks_exact_mut(width)) {
                    let edges = job.edges(v);
                    let mut column = 0;
                    while column < width {
                        let columns = (width - column).min(PANEL * LANES);
                        let out = out[column..column + columns].as_mut_ptr().cast();
                        let edges = edges.clone();
                        // SAFETY: `columns` columns from `column` lie within the row, here and in `out`, and fill
                        // as many vectors as the panel has, the last at least by one lane.
                        unsafe {
                            match columns.div_ceil(LANES) {
                                1 => panel::<1, I>(job, edges, column, columns, out),
                                2 => panel::<2, I>(job, edges, column, columns, out),
                                3 => panel::<3, I>(job, edges, column, columns, out),
                                4 => panel::<4, I>(job, edges, column, columns, out),
                                5 => panel::<5, I>(job, edges, column, columns, out),
                                6 => panel::<6, I>(job, edges, column, columns, out),
                                7 => panel::<7, I>(job, edges, column, columns, out),
                                _ => panel::<8, I>(job, edges, column, columns, out),
                            }
                        }
                        column += columns;
                    }
                }
            }

            /// # Safety
            /// As for [`sums`]; (N − 1) × LANES < `columns` ≤ N × LANES, `column + columns` is at most the width, and
            /// `out` has room for `columns` numbers.
            #[target_feature(enable = $features)]
            #[inline]
            unsafe fn panel<const N: usize, I: Id>(
                job: &Job<'_, f32, I>,
                edges: Range<usize>,
                column: usize,
                columns: usize,
                out: *mut f32,
            ) {
                let mask = ($mask)(columns - (N - 1) * LANES);
                let mean = (1.0 / edges.len() as f64) as f32;
                let mut sums = [$zero(); N];
                let last = job.indices.len().saturating_sub(1);
                for edge in edges {
                    // SAFETY: `edge` is one of the lists', and every index is below the number of rows, so a row of
                    // `width` elements starts there. At most its first `column + columns` elements are read: whole
                    // vectors except the last, whose lanes beyond `columns` are masked out. A prefetch may name any
                    // address; this one is in a row or behind the last.
                    unsafe {
                        let row = |edge: usize| {
                            let index = job.indices.get_unchecked(edge).place();
                            job.rows.as_ptr().wrapping_add(index * job.width + column)
                        };
                        let ahead = row((edge + AHEAD).min(last));
                        for line in 0..(N * LANES).div_ceil(16) {
                            _mm_prefetch::<_MM_HINT_T0>(ahead.wrapping_add(line * 16).cast());
                        }
                        let weight = $splat(match job.weights {
                            Weights::Each(weights) => *weights.get_unchecked(edge),
                            Weights::Mean => mean,
                        });
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
