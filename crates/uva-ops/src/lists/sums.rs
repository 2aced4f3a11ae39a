//! Weighted sums of listed rows: the loop that aggregates blocks and propagates their gradients.
//!
//! Every list is summed column by column in the order of its edges, each addition a fused multiply-add onto a sum that
//! starts at zero. So the result is the same bit for bit with all vectors and for any number of threads. Rows may be
//! contiguous, or selected from a table ([`ListedRows`]): the sums are those of gathered rows. The same loop takes the
//! largest value of each column ([`column_maxima`](super::column_maxima)).

use super::checked_lists::{Id, Lists, ListsError};
use super::row_selection::{Dense, IndexedRows, ListedRows};
use super::tasks::by_list;
use crate::rows::{NarrowFloat, RowAddresses};
use crate::{Set, Vectors};
use rayon::ThreadPool;
use std::mem::MaybeUninit;
use std::ops::{Add, Div, Mul, Sub};

/// Prefetch distance in edges. All lines of a row are prefetched, into the second-level cache (`prefetcht1`).
///
/// Milliseconds of the outermost means of batches of 1000, rows of 100 values, AVX-512 on one core of a shared AMD
/// EPYC; medians of 40, of two interleaved rounds, on a quiet machine. Sums straight from a table, and of gathered
/// rows:
///
/// | lists | into the first level: 8 | 16 | 32 | 48 | into the second: 8 | 16 | 32 | 48 |
/// |---|---|---|---|---|---|---|---|---|
/// | power law, 10,10, table | 4.97 | 5.01 | 5.01 | 5.19 | 3.90 | 3.72 | 3.92 | 4.05 |
/// | gathered | 2.32 | 2.46 | 2.45 | 2.56 | 1.84 | 1.88 | 1.88 | 1.95 |
/// | the same, float16, table | 3.24 | 3.12 | 3.45 | 3.52 | 2.94 | 2.84 | 2.94 | 2.98 |
/// | power law, 15,10,5, table | 43.1 | 42.4 | 44.0 | 45.1 | 39.4 | 37.8 | 38.8 | 40.2 |
/// | citation, 10,10, table | 2.43 | 2.30 | 2.56 | 2.68 | 2.33 | 2.07 | 2.12 | 2.14 |
const AHEAD: usize = 16;

/// An element of rows: f32 or f64.
pub trait SumElement:
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
    /// The nearest value.
    fn from_f64(value: f64) -> Self;

    /// `self × factor + sum`, rounded once.
    fn multiply_add(self, factor: Self, sum: Self) -> Self;

    /// `self` if it is larger than `other` or NaN, else `other`.
    #[inline(always)]
    fn larger_than(self, other: Self) -> Self {
        if self > other || self.partial_cmp(&self).is_none() { self } else { other }
    }

    /// e to the power of `self`.
    fn exp(self) -> Self;

    /// The scalar product, added up in a fixed order, which is the same with all vectors.
    fn dot(vectors: Vectors, left: &[Self], right: &[Self]) -> Self;

    /// The value of this type whose bytes begin at `from`.
    ///
    /// # Safety
    /// The bytes can be read.
    #[doc(hidden)]
    unsafe fn widened(narrow: NarrowFloat, from: *const u8) -> Self;

    /// Computes as many lists of `sums` as `out` has rows, from `first`, with these instructions if there is a loop for
    /// them.
    #[doc(hidden)]
    fn sums<I: Id, R: ListedRows>(
        sums: &WeightedSums<'_, Self, I, R>,
        first: usize,
        out: &mut [MaybeUninit<Self>],
        vectors: Vectors,
    );
}

impl SumElement for f64 {
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

    unsafe fn widened(narrow: NarrowFloat, from: *const u8) -> Self {
        // SAFETY: by our caller.
        unsafe { f64::from(f32::widened(narrow, from)) }
    }

    // Only gradient checks compute in f64.
    fn sums<I: Id, R: ListedRows>(
        sums: &WeightedSums<'_, Self, I, R>,
        first: usize,
        out: &mut [MaybeUninit<Self>],
        _: Vectors,
    ) {
        portable::<false, Self, I, R>(sums, first, out);
    }
}

crate::vectorized! {
    fn dot(left: &[f32], right: &[f32]) -> f32 {
        // As many parallel sums as the widest vectors have lanes, for all vectors.
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

impl SumElement for f32 {
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

    unsafe fn widened(narrow: NarrowFloat, from: *const u8) -> Self {
        // SAFETY: by our caller.
        Self::from_bits(unsafe { narrow.widened_at(from) })
    }

    fn sums<I: Id, R: ListedRows>(
        sums: &WeightedSums<'_, Self, I, R>,
        first: usize,
        out: &mut [MaybeUninit<Self>],
        vectors: Vectors,
    ) {
        folded::<false, I, R>(sums, first, out, vectors);
    }
}

/// As many lists as `out` has rows, from `first`: their sums, or with `LARGEST` the largest value of each column, which
/// ignores weights.
pub(super) fn folded<const LARGEST: bool, I: Id, R: ListedRows>(
    job: &WeightedSums<'_, f32, I, R>,
    first: usize,
    out: &mut [MaybeUninit<f32>],
    vectors: Vectors,
) {
    match vectors.set() {
        // SAFETY: the processor has the instructions that `Vectors` names, and `WeightedSums` has checked all that the
        // loop reads. The loop writes all rows of `out`, which holds whole rows of existing lists.
        #[cfg(target_arch = "x86_64")]
        Set::Avx512 => unsafe {
            use crate::rows::avx512 as types;
            match job.rows.narrow() {
                None => avx512::folded::<LARGEST, I, R, avx512::Floats>(job, first, out),
                Some(narrow) => crate::rows::each_narrow!(narrow, types, L => {
                    avx512::folded::<LARGEST, I, R, avx512::Narrow<L>>(job, first, out)
                }),
            }
        },
        // SAFETY: the same.
        #[cfg(target_arch = "x86_64")]
        Set::Avx2 => unsafe {
            use crate::rows::avx2 as types;
            match job.rows.narrow() {
                None => avx2::folded::<LARGEST, I, R, avx2::Floats>(job, first, out),
                Some(narrow) => crate::rows::each_narrow!(narrow, types, V => {
                    avx2::folded::<LARGEST, I, R, avx2::Narrow<V>>(job, first, out)
                }),
            }
        },
        // A processor without fused multiply-add computes it in software.
        Set::Portable => portable::<LARGEST, f32, I, R>(job, first, out),
    }
}

/// The factor of an edge's row.
#[derive(Clone, Copy)]
pub enum Weights<'a, T> {
    /// One number per edge.
    Each(&'a [T]),
    /// This many numbers per edge, each for an equal part of the row.
    Heads(&'a [T], usize),
    /// One over the number of edges in its list.
    Mean,
    /// One.
    One,
}

/// The sums of some lists, whose sizes have been checked.
pub struct WeightedSums<'a, T, I, R = Dense<'a, T>> {
    pub(super) rows: R,
    pub(super) width: usize,
    pub(super) lists: Lists<'a, I>,
    weights: Weights<'a, T>,
    /// The weight of row `v`, which is added to the sum of list `v`; empty for none.
    own: &'a [T],
}

impl<'a, T: SumElement, I: Id> WeightedSums<'a, T, I> {
    /// Creates the sums of rows with `width` elements.
    ///
    /// # Errors
    /// If the rows or the weights do not fit the lists.
    pub fn new(
        rows: &'a [T],
        width: usize,
        lists: Lists<'a, I>,
        weights: Weights<'a, T>,
    ) -> Result<Self, ListsError> {
        lists.check_table(rows.len(), lists.rows(), width)?;
        Self::checked(Dense { rows, width }, width, lists, weights)
    }
}

impl<'a, I: Id, S: RowAddresses + Sync> WeightedSums<'a, f32, I, IndexedRows<'a, S>> {
    /// Creates the sums of rows with `width` values.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    ///
    /// # Safety
    /// Each row of the source has `width` values.
    pub unsafe fn of_table(
        rows: IndexedRows<'a, S>,
        width: usize,
        lists: Lists<'a, I>,
        weights: Weights<'a, f32>,
    ) -> Result<Self, ListsError> {
        lists.check_table(rows.ids.len(), lists.rows(), 1)?;
        Self::checked(rows, width, lists, weights)
    }
}

impl<'a, T: SumElement, I: Id, R: ListedRows> WeightedSums<'a, T, I, R> {
    fn checked(
        rows: R,
        width: usize,
        lists: Lists<'a, I>,
        weights: Weights<'a, T>,
    ) -> Result<Self, ListsError> {
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
            Some(wanted) if wanted == given => Ok(Self { rows, width, lists, weights, own: &[] }),
            _ => Err(ListsError::Weights { given, edges }),
        }
    }

    /// Adds row `v`, times `own[v]`, to the sum of list `v`, after the list's rows and in the same way. libtorch's
    /// `addcmul_` also rounds once, if the processor has such an instruction.
    ///
    /// # Errors
    /// If there is not one weight per list, or there are more lists than rows.
    pub fn with_own(self, own: &'a [T]) -> Result<Self, ListsError> {
        let (given, lists) = (own.len(), self.lists.len());
        if given != lists {
            return Err(ListsError::OwnWeights { given, lists });
        }
        if lists > self.lists.rows() {
            return Err(ListsError::Index(self.lists.rows()));
        }
        Ok(Self { own, ..self })
    }

    /// The number of parts of a row with separate weights.
    fn heads(&self) -> usize {
        if let Weights::Heads(_, heads) = self.weights { heads } else { 1 }
    }

    /// The weight of an edge; `mean` is the factor of its list for means.
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

    /// Writes one row per list, to every element of `out`.
    ///
    /// # Panics
    /// If `out` has another number of elements.
    pub fn write(&self, out: &mut [MaybeUninit<T>], vectors: Vectors, pool: Option<&ThreadPool>) {
        assert_eq!(out.len(), self.lists.len() * self.width, "one row a list");
        let work = (self.lists.indices().len() + self.lists.len()) * self.width;
        by_list(out, self.width, work, pool, |first, out| T::sums(self, first, out, vectors));
    }

    /// Writes the rows of as many lists as `out` has rows, from `first`: for a caller that divides the lists itself.
    ///
    /// # Panics
    /// If there are not as many lists, or `out` is not whole rows.
    pub fn write_some(&self, first: usize, out: &mut [T], vectors: Vectors) {
        // SAFETY: the loops write nothing that is uninitialized.
        T::sums(self, first, unsafe { self.room(first, out) }, vectors);
    }

    /// The output as memory for the rows of lists from `first` on.
    ///
    /// # Safety
    /// The caller writes nothing to it that is uninitialized.
    ///
    /// # Panics
    /// If there are not as many lists, or it is not whole rows.
    pub(super) unsafe fn room<'o>(&self, first: usize, out: &'o mut [T]) -> &'o mut [MaybeUninit<T>] {
        let lists = out.len().checked_div(self.width).unwrap_or(0);
        assert_eq!(out.len(), lists * self.width, "whole rows");
        assert!(first + lists <= self.lists.len(), "lists from {first} to {}", first + lists);
        // SAFETY: the layout is the same, and by our caller the elements stay initialized.
        unsafe { std::slice::from_raw_parts_mut(out.as_mut_ptr().cast(), out.len()) }
    }
}

fn portable<const LARGEST: bool, T: SumElement, I: Id, R: ListedRows>(
    job: &WeightedSums<'_, T, I, R>,
    first: usize,
    out: &mut [MaybeUninit<T>],
) {
    let width = job.width;
    if width == 0 {
        return;
    }
    let part = width / job.heads();
    let mut sum = vec![T::from_f64(0.0); width];
    for (v, out) in (first..).zip(out.chunks_exact_mut(width)) {
        let edges = job.lists.edges(v);
        sum.fill(T::from_f64(if LARGEST && !edges.is_empty() { f64::NEG_INFINITY } else { 0.0 }));
        let mean = T::from_f64(1.0 / edges.len() as f64);
        for edge in edges {
            let place = job.lists.row(edge);
            if LARGEST {
                add_row(job, &mut sum, place, 0, T::larger_than);
                continue;
            }
            for (head, sum) in sum.chunks_exact_mut(part).enumerate() {
                // SAFETY: an edge of list v, and there are as many parts as heads.
                let weight = unsafe { job.weight(edge, head, mean) };
                add_row(job, sum, place, head * part, |element, sum| element.multiply_add(weight, sum));
            }
        }
        if let Some(&own) = job.own.get(v) {
            add_row(job, &mut sum, v, 0, |element, sum| element.multiply_add(own, sum));
        }
        for (out, &sum) in out.iter_mut().zip(&sum) {
            out.write(sum);
        }
    }
}

/// Calls `add` with each value of the row at this place, from `column`, and its sum.
#[inline(always)]
fn add_row<T: SumElement, I: Id, R: ListedRows>(
    job: &WeightedSums<'_, T, I, R>,
    sum: &mut [T],
    place: usize,
    column: usize,
    add: impl Fn(T, T) -> T,
) {
    // SAFETY: every index names a row, as has been checked, and so does every list with a row of its own. A row has
    // `width` values, of the narrow type or of the type of the sums, and the columns of a sum are among them.
    unsafe {
        let row = job.rows.row(place);
        match job.rows.narrow() {
            None => {
                let row = row.cast::<T>().add(column);
                for (at, sum) in sum.iter_mut().enumerate() {
                    *sum = add(row.add(at).read_unaligned(), *sum);
                }
            }
            Some(narrow) => {
                let row = row.add(column * narrow.bytes());
                for (at, sum) in sum.iter_mut().enumerate() {
                    *sum = add(T::widened(narrow, row.add(at * narrow.bytes())), *sum);
                }
            }
        }
    }
}

/// Defines the loop for one width of vectors. `$larger` is [`SumElement::larger_than`] of each lane. Up to eight
/// registers hold the sums of a list while its rows are added, so each sum is written once. Wider rows are processed in
/// several panels.
#[cfg(target_arch = "x86_64")]
macro_rules! vectors {
    (
        $module:ident, $features:literal, $lanes:literal, $vector:ty, mask: $mask:ty = $mask_of:expr,
        $zero:ident, $splat:ident, $load:ident, $load_masked:expr, $fma:ident, $larger:expr, $store:ident,
        $store_masked:expr, narrow: $types:ident::$trait:ident, $narrow:expr, $narrow_masked:expr
    ) => {
        mod $module {
            use super::{AHEAD, Id, ListedRows, WeightedSums};
            use crate::rows::$types::$trait;
            use std::arch::x86_64::*;
            use std::marker::PhantomData;
            use std::mem::MaybeUninit;
            use std::ops::Range;

            const LANES: usize = $lanes;
            const PANEL: usize = 8;

            /// Values of rows as vectors of float32.
            pub(super) trait Load {
                /// Bytes of a value.
                const BYTES: usize;

                /// Loads as many values as a vector has lanes.
                ///
                /// # Safety
                /// The values can be read, and the processor has the features.
                unsafe fn whole(from: *const u8) -> $vector;

                /// Loads the first `lanes` values, which are those of the mask, and zeros.
                ///
                /// # Safety
                /// As [`whole`](Self::whole), for the values that are read.
                unsafe fn some(from: *const u8, mask: $mask, lanes: usize) -> $vector;
            }

            /// Unchanged float32.
            pub(super) struct Floats;

            impl Load for Floats {
                const BYTES: usize = size_of::<f32>();

                #[inline(always)]
                unsafe fn whole(from: *const u8) -> $vector {
                    // SAFETY: by our caller.
                    unsafe { $load(from.cast()) }
                }

                #[inline(always)]
                unsafe fn some(from: *const u8, mask: $mask, _: usize) -> $vector {
                    // SAFETY: by our caller; lanes that are masked out are not read.
                    unsafe { ($load_masked)(from.cast(), mask) }
                }
            }

            /// Narrower values, widened as the copy of rows widens them.
            pub(super) struct Narrow<V>(PhantomData<V>);

            impl<V: $trait> Load for Narrow<V> {
                const BYTES: usize = V::FROM_BYTES;

                #[inline(always)]
                unsafe fn whole(from: *const u8) -> $vector {
                    // SAFETY: by our caller.
                    unsafe { ($narrow)(PhantomData::<V>, from) }
                }

                #[inline(always)]
                unsafe fn some(from: *const u8, mask: $mask, lanes: usize) -> $vector {
                    // SAFETY: by our caller.
                    unsafe { ($narrow_masked)(PhantomData::<V>, from, mask, lanes) }
                }
            }

            /// # Safety
            /// The processor has the features. `job` is checked, its rows are of `L`'s values, and `out` is whole rows of
            /// its lists from `first`, none beyond the last.
            #[target_feature(enable = $features)]
            pub(super) unsafe fn folded<const LARGEST: bool, I: Id, R: ListedRows, L: Load>(
                job: &WeightedSums<'_, f32, I, R>,
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
                        // A panel has one weight per edge: it ends with its head's part of the row.
                        let head = column / part;
                        let columns = ((head + 1) * part - column).min(PANEL * LANES);
                        let out = out[column..column + columns].as_mut_ptr().cast();
                        let (list, column_of) = ((v, edges.clone()), (head, column));
                        // SAFETY: `columns` columns from `column` lie within the row, here and in `out`, and fill
                        // as many vectors as the panel has, the last at least by one lane.
                        unsafe {
                            match columns.div_ceil(LANES) {
                                1 => panel::<LARGEST, 1, I, R, L>(job, list, column_of, columns, out),
                                2 => panel::<LARGEST, 2, I, R, L>(job, list, column_of, columns, out),
                                3 => panel::<LARGEST, 3, I, R, L>(job, list, column_of, columns, out),
                                4 => panel::<LARGEST, 4, I, R, L>(job, list, column_of, columns, out),
                                5 => panel::<LARGEST, 5, I, R, L>(job, list, column_of, columns, out),
                                6 => panel::<LARGEST, 6, I, R, L>(job, list, column_of, columns, out),
                                7 => panel::<LARGEST, 7, I, R, L>(job, list, column_of, columns, out),
                                _ => panel::<LARGEST, 8, I, R, L>(job, list, column_of, columns, out),
                            }
                        }
                        column += columns;
                    }
                }
            }

            /// # Safety
            /// As for [`folded`]; (N − 1) × LANES < `columns` ≤ N × LANES, `column + columns` is at most the width, all
            /// of one head, and `out` has room for `columns` numbers.
            #[target_feature(enable = $features)]
            #[inline]
            unsafe fn panel<const LARGEST: bool, const N: usize, I: Id, R: ListedRows, L: Load>(
                job: &WeightedSums<'_, f32, I, R>,
                (v, edges): (usize, Range<usize>),
                (head, column): (usize, usize),
                columns: usize,
                out: *mut f32,
            ) {
                let lanes = columns - (N - 1) * LANES;
                let mask = ($mask_of)(lanes);
                let mean = (1.0 / edges.len() as f64) as f32;
                let empty = edges.is_empty();
                let mut sums = [if LARGEST && !empty { $splat(f32::NEG_INFINITY) } else { $zero() }; N];
                let indices = job.lists.indices();
                let last = indices.len().saturating_sub(1);
                for edge in edges {
                    // SAFETY: `edge` is one of the lists', and every index is a place of a row of `width` values. At
                    // most its first `column + columns` values are read: whole vectors except the last, whose lanes
                    // beyond `columns` are masked out. A prefetch may name any address; this one is in a row or after
                    // the last.
                    unsafe {
                        let place = |edge: usize| indices.get_unchecked(edge).place();
                        let row = |edge| job.rows.row(place(edge)).wrapping_add(column * L::BYTES);
                        job.rows.expect(place((edge + 2 * AHEAD).min(last)));
                        let ahead = row((edge + AHEAD).min(last));
                        for line in 0..(N * LANES * L::BYTES).div_ceil(64) {
                            _mm_prefetch::<_MM_HINT_T1>(ahead.wrapping_add(line * 64).cast());
                        }
                        if R::SCATTERED {
                            // A row that does not begin on a line ends on one more.
                            _mm_prefetch::<_MM_HINT_T1>(ahead.wrapping_add(columns * L::BYTES - 1).cast());
                        }
                        let row = row(edge);
                        if LARGEST {
                            for n in 0..N - 1 {
                                sums[n] = ($larger)(L::whole(row.add(n * LANES * L::BYTES)), sums[n]);
                            }
                            let rest = L::some(row.add((N - 1) * LANES * L::BYTES), mask, lanes);
                            sums[N - 1] = ($larger)(rest, sums[N - 1]);
                            continue;
                        }
                        let weight = $splat(job.weight(edge, head, mean));
                        for n in 0..N - 1 {
                            sums[n] = $fma(L::whole(row.add(n * LANES * L::BYTES)), weight, sums[n]);
                        }
                        let rest = L::some(row.add((N - 1) * LANES * L::BYTES), mask, lanes);
                        sums[N - 1] = $fma(rest, weight, sums[N - 1]);
                    }
                }
                if let Some(&own) = job.own.get(v) {
                    // SAFETY: with weights of own rows, every list has a row, and it is read as above.
                    unsafe {
                        let row = job.rows.row(v).wrapping_add(column * L::BYTES);
                        let weight = $splat(own);
                        for n in 0..N - 1 {
                            sums[n] = $fma(L::whole(row.add(n * LANES * L::BYTES)), weight, sums[n]);
                        }
                        let rest = L::some(row.add((N - 1) * LANES * L::BYTES), mask, lanes);
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
    avx512, "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,f16c", 16, __m512,
    mask: u16 = |lanes: usize| (u32::MAX >> (32 - lanes)) as u16,
    _mm512_setzero_ps, _mm512_set1_ps, _mm512_loadu_ps, |row, mask| _mm512_maskz_loadu_ps(mask, row),
    _mm512_fmadd_ps,
    |row, so_far| {
        let larger = _mm512_cmp_ps_mask::<_CMP_GT_OQ>(row, so_far) | _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(row, row);
        _mm512_mask_mov_ps(so_far, larger, row)
    },
    _mm512_storeu_ps,
    |out, mask, sums| _mm512_mask_storeu_ps(out, mask, sums),
    narrow: avx512::Lanes, |_: PhantomData<V>, from| _mm512_castsi512_ps(V::load(from)),
    |_: PhantomData<V>, from, mask, _| _mm512_castsi512_ps(V::load_some(u64::from(mask), from))
);

#[cfg(target_arch = "x86_64")]
vectors!(
    avx2, "avx2,fma,f16c", 8, __m256,
    mask: __m256i = |lanes: usize| _mm256_cmpgt_epi32(
        _mm256_set1_epi32(lanes as i32), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)
    ),
    _mm256_setzero_ps, _mm256_set1_ps, _mm256_loadu_ps, |row, mask| _mm256_maskload_ps(row, mask),
    _mm256_fmadd_ps,
    |row, so_far| {
        let (larger, nan) = (_mm256_cmp_ps::<_CMP_GT_OQ>(row, so_far), _mm256_cmp_ps::<_CMP_UNORD_Q>(row, row));
        _mm256_blendv_ps(so_far, row, _mm256_or_ps(larger, nan))
    },
    _mm256_storeu_ps,
    |out, mask, sums| _mm256_maskstore_ps(out, mask, sums),
    // Through memory of the stack, which the compiler keeps in a register where all eight are widened.
    narrow: avx2::ValueMove, |_: PhantomData<V>, from| {
        let mut widened = [0.0_f32; LANES];
        V::move_all(from, widened.as_mut_ptr().cast(), LANES);
        _mm256_loadu_ps(widened.as_ptr())
    },
    |_: PhantomData<V>, from, _, lanes| {
        let mut widened = [0.0_f32; LANES];
        V::move_all(from, widened.as_mut_ptr().cast(), lanes);
        _mm256_loadu_ps(widened.as_ptr())
    }
);
