//! Tables whose rows are trained: how they begin, rows of a batch, and sparse Adam.

use std::ops::Range;

use rayon::ThreadPool;
use rayon::prelude::*;
use thiserror::Error;
use uva_mem::mix;
use uva_ops::{RowAdamStep, Vectors, adam, prefetch};

/// Elements that a thread takes at once.
const TASK_ELEMENTS: usize = 1 << 14;

/// How many rows ahead a row is prefetched: its address is random, and the system prefetches none of these.
const AHEAD: usize = 8;

/// A table of rows and ids that do not fit together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TrainedError {
    /// An id outside the table.
    #[error("id {id} at position {position} is outside of the {rows} rows")]
    Id {
        /// The id.
        id: i64,
        /// Its position among the ids.
        position: usize,
        /// Rows of the table.
        rows: usize,
    },
    /// An array of another length.
    #[error("{found} elements, but {expected} are required")]
    Length {
        /// Its length.
        found: usize,
        /// The length that the others require.
        expected: usize,
    },
}

fn check_length(found: usize, expected: usize) -> Result<(), TrainedError> {
    if found == expected { Ok(()) } else { Err(TrainedError::Length { found, expected }) }
}

fn check_ids(ids: &[i64], rows: usize) -> Result<(), TrainedError> {
    match ids.iter().position(|&id| usize::try_from(id).map_or(true, |id| id >= rows)) {
        Some(position) => Err(TrainedError::Id { id: ids[position], position, rows }),
        None => Ok(()),
    }
}

/// Runs a closure in the pool, or without one in this thread.
fn run<T: Send>(pool: Option<&ThreadPool>, call: impl FnOnce() -> T + Send) -> T {
    match pool {
        Some(pool) => pool.install(call),
        None => call(),
    }
}

/// The distribution that the first values of a table are drawn from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InitialValues {
    /// Uniform in ±√(6 / (rows + width)), as Glorot and Bengio's ("xavier") initialisation.
    #[default]
    Xavier,
    /// Normal with mean 0 and variance 1.
    Normal,
}

/// The first values of a table, drawn for each row from the seed, the table's number and the row's own id: they depend
/// neither on threads nor on the order of rows.
#[derive(Clone, Copy, Debug)]
pub struct InitialRows<'i> {
    /// Their distribution.
    pub values: InitialValues,
    /// The seed of the run.
    pub seed: u64,
    /// The number of the node type.
    pub table: u16,
    /// The id that each row had before the dataset was reordered; `None`: its position.
    pub original: Option<&'i [i64]>,
}

impl InitialRows<'_> {
    /// Writes the rows of a table.
    ///
    /// # Errors
    /// If the lengths do not fit together.
    pub fn write(
        &self,
        table: &mut [f32],
        width: usize,
        pool: Option<&ThreadPool>,
    ) -> Result<(), TrainedError> {
        let rows = table.len() / width.max(1);
        check_length(table.len(), rows * width)?;
        if let Some(original) = self.original {
            check_length(original.len(), rows)?;
        }
        let bound = (6.0 / (rows + width) as f64).sqrt() as f32;
        let key = mix(self.seed.wrapping_add(1 << 63)).wrapping_add(u64::from(self.table) << 40);
        let rows_of_task = (TASK_ELEMENTS / width.max(1)).max(1);
        let write = |(task, part): (usize, &mut [f32])| {
            for (row, out) in (task * rows_of_task..).zip(part.chunks_exact_mut(width)) {
                let id = self.original.map_or(row as u64, |original| original[row] as u64);
                let key = mix(key.wrapping_add(id));
                match self.values {
                    InitialValues::Xavier => write_row(Vectors::widest(), out, key, bound),
                    InitialValues::Normal => write_normal_row(out, key),
                }
            }
        };
        if width > 0 {
            run(pool, || table.par_chunks_mut(rows_of_task * width).enumerate().for_each(write));
        }
        Ok(())
    }
}

uva_ops::vectorized! {
    fn write_row(row: &mut [f32], key: u64, bound: f32) {
        for (column, value) in row.iter_mut().enumerate() {
            // The upper 24 bits: k / 2²⁴ is exact, and so is twice that less one.
            let drawn = mix(key.wrapping_add(column as u64)) >> 40;
            *value = (drawn as f32 / (1_u32 << 23) as f32 - 1.0) * bound;
        }
    }
}

/// By Box and Muller (1958), in double precision.
fn write_normal_row(row: &mut [f32], key: u64) {
    for (column, value) in row.iter_mut().enumerate() {
        let drawn = mix(key.wrapping_add(column as u64));
        let [length, angle] = [drawn >> 32, drawn & 0xffff_ffff].map(|half| half as f64 / 2_f64.powi(32));
        *value = ((-2.0 * (1.0 - length).ln()).sqrt() * (std::f64::consts::TAU * angle).cos()) as f32;
    }
}

/// Copies the rows with these ids of a table into `out`, one after another.
///
/// # Errors
/// If an id is outside of the table, or lengths do not fit together.
pub fn read_rows(
    table: &[f32],
    width: usize,
    ids: &[i64],
    out: &mut [f32],
    pool: Option<&ThreadPool>,
) -> Result<(), TrainedError> {
    check_ids(ids, table.len() / width.max(1))?;
    check_length(out.len(), ids.len() * width)?;
    let rows_of_task = (TASK_ELEMENTS / width.max(1)).max(1);
    let copy = |(out, ids): (&mut [f32], &[i64])| {
        for (place, out) in out.chunks_exact_mut(width).enumerate() {
            if let Some(&next) = ids.get(place + AHEAD) {
                prefetch(&raw const table[next as usize * width]);
            }
            out.copy_from_slice(&table[ids[place] as usize * width..][..width]);
        }
    };
    if width > 0 {
        let tasks = out.par_chunks_mut(rows_of_task * width).zip(ids.par_chunks(rows_of_task));
        run(pool, || tasks.for_each(copy));
    }
    Ok(())
}

/// A table of trained rows with the two moments of Adam.
#[derive(Debug)]
pub struct TrainedRows<'t> {
    /// Elements of a row.
    pub width: usize,
    /// The rows.
    pub values: &'t mut [f32],
    /// Their first moments, initially zero.
    pub first: &'t mut [f32],
    /// Their second moments, initially zero.
    pub second: &'t mut [f32],
}

impl TrainedRows<'_> {
    /// One step of Adam for the rows with these ids; other rows and their moments keep their bits. `gradients` has a row
    /// for each id. Those of an id that repeats are added in their order.
    ///
    /// # Errors
    /// If an id is outside of the table, or lengths do not fit together. Then no row has changed.
    pub fn step(
        self,
        ids: &[i64],
        gradients: &[f32],
        step: RowAdamStep,
        pool: Option<&ThreadPool>,
    ) -> Result<(), TrainedError> {
        let width = self.width;
        check_ids(ids, self.values.len() / width.max(1))?;
        check_length(gradients.len(), ids.len() * width)?;
        check_length(self.first.len(), self.values.len())?;
        check_length(self.second.len(), self.values.len())?;
        if width == 0 || ids.is_empty() {
            return Ok(());
        }
        run(pool, || {
            let mut order: Vec<(i64, usize)> = ids.iter().copied().zip(0..).collect();
            order.par_sort_unstable();
            let mut tasks = Vec::new();
            let mut rest = self;
            let mut begin = 0;
            for part in parts(&order, (TASK_ELEMENTS / width).max(1)) {
                let part = &order[part];
                // Parts are in the order of ids, and none shares an id with the next.
                let end = part[part.len() - 1].0 as usize + 1;
                let (own, after) = rest.split_at(end - begin);
                tasks.push((begin, part, own));
                (rest, begin) = (after, end);
            }
            tasks
                .into_par_iter()
                .for_each(|(begin, part, own)| own.step_sorted(begin, part, gradients, step));
        });
        Ok(())
    }

    /// The first `rows` rows, and the others.
    fn split_at(self, rows: usize) -> (Self, Self) {
        let (values, other_values) = self.values.split_at_mut(rows * self.width);
        let (first, other_first) = self.first.split_at_mut(rows * self.width);
        let (second, other_second) = self.second.split_at_mut(rows * self.width);
        let width = self.width;
        (
            Self { width, values, first, second },
            Self { width, values: other_values, first: other_first, second: other_second },
        )
    }

    /// A step for ids in ascending order, each with the position of its gradient. `begin` is the id of the first row.
    fn step_sorted(self, begin: usize, order: &[(i64, usize)], gradients: &[f32], step: RowAdamStep) {
        let (vectors, width) = (Vectors::widest(), self.width);
        let gradient = |position: usize| &gradients[position * width..][..width];
        let mut sum = Vec::new();
        for equal in order.chunk_by(|one, next| one.0 == next.0) {
            let row = (equal[0].0 as usize - begin) * width..(equal[0].0 as usize - begin + 1) * width;
            let own = match equal {
                [(_, position)] => gradient(*position),
                [(_, position), others @ ..] => {
                    sum.clear();
                    sum.extend_from_slice(gradient(*position));
                    for &(_, position) in others {
                        sum.iter_mut().zip(gradient(position)).for_each(|(sum, &more)| *sum += more);
                    }
                    &sum
                }
                [] => continue,
            };
            let (values, first) = (&mut self.values[row.clone()], &mut self.first[row.clone()]);
            adam(vectors, values, first, &mut self.second[row], own, step);
        }
    }
}

/// Ranges of about `length` entries in ascending order of ids, of which no two share an id.
fn parts(order: &[(i64, usize)], length: usize) -> Vec<Range<usize>> {
    let mut parts = Vec::new();
    let mut begin = 0;
    while begin < order.len() {
        let mut end = (begin + length).min(order.len());
        while end < order.len() && order[end].0 == order[end - 1].0 {
            end += 1;
        }
        parts.push(begin..end);
        begin = end;
    }
    parts
}

#[cfg(test)]
mod tests {
    use uva_ops::RowAdam;

    use super::*;

    fn pool() -> ThreadPool {
        rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap()
    }

    #[test]
    fn rows_begin_with_the_values_that_the_formula_gives() {
        let (rows, width) = (5000, 9);
        let mut table = vec![0.0; rows * width];
        InitialRows { values: InitialValues::Xavier, seed: 7, table: 2, original: None }
            .write(&mut table, width, None)
            .unwrap();
        let (row, column) = (4321, 5);
        let id = mix(7_u64.wrapping_add(1 << 63)).wrapping_add(2 << 40).wrapping_add(row);
        let drawn = (mix(mix(id).wrapping_add(column)) >> 40) as f64 / 2_f64.powi(24);
        let expected = (2.0 * drawn - 1.0) * (6.0 / 5009.0_f64).sqrt();
        assert!((f64::from(table[4321 * width + 5]) - expected).abs() < 1e-9);
        let (mean, bound) = (table.iter().sum::<f32>() / table.len() as f32, (6.0 / 5009.0_f32).sqrt());
        assert!(mean.abs() < 1e-3 && table.iter().all(|value| value.abs() <= bound));
        let mut other = vec![0.0; table.len()];
        InitialRows { values: InitialValues::Xavier, seed: 7, table: 3, original: None }
            .write(&mut other, width, None)
            .unwrap();
        assert!(table.iter().zip(&other).filter(|(one, other)| one == other).count() < 10);
    }

    #[test]
    fn normal_rows_have_mean_0_and_variance_1() {
        let (rows, width) = (5000, 9);
        let mut table = vec![0.0; rows * width];
        let draws = InitialRows { values: InitialValues::Normal, seed: 7, table: 2, original: None };
        draws.write(&mut table, width, Some(&pool())).unwrap();
        let mean = |power: i32| {
            table.iter().map(|&value| f64::from(value).powi(power)).sum::<f64>() / table.len() as f64
        };
        let expected = [(1, 0.0), (2, 1.0), (3, 0.0), (4, 3.0)];
        assert!(expected.iter().all(|&(power, value)| (mean(power) - value).abs() < 0.1));
        assert!(table.iter().all(|value| value.is_finite()));
    }

    #[test]
    fn first_rows_depend_on_original_ids_and_not_on_threads() {
        let (rows, width, values) = (5000, 9, InitialValues::Xavier);
        let mut table = vec![0.0; rows * width];
        InitialRows { values, seed: 1, table: 0, original: None }.write(&mut table, width, None).unwrap();
        let original: Vec<i64> = (0..rows as i64).map(|row| (row * 7 + 3) % rows as i64).collect();
        let mut reordered = vec![0.0; rows * width];
        let draws = InitialRows { values, seed: 1, table: 0, original: Some(&original) };
        draws.write(&mut reordered, width, Some(&pool())).unwrap();
        let mut read = vec![0.0; rows * width];
        read_rows(&table, width, &original, &mut read, Some(&pool())).unwrap();
        assert_eq!(reordered, read);
    }

    #[test]
    fn a_step_changes_the_rows_of_its_ids_alone_for_any_number_of_threads() {
        let (rows, width, count) = (3000_usize, 33, 5000_usize);
        let ids: Vec<i64> =
            (0..count).map(|place| (mix(place as u64) % rows as u64) as i64 / 2 * 2).collect();
        let gradients: Vec<f32> =
            (0..count * width).map(|place| (mix(place as u64) >> 40) as f32 / 1e7 - 0.8).collect();
        let step = RowAdam::default().step(1, 0.1);
        let run = |pool: Option<&ThreadPool>| {
            let (mut values, mut first, mut second) =
                (vec![1.0; rows * width], vec![0.0; rows * width], vec![0.0; rows * width]);
            let table = TrainedRows { width, values: &mut values, first: &mut first, second: &mut second };
            table.step(&ids, &gradients, step, pool).unwrap();
            (values, first, second)
        };
        let found = run(None);
        assert_eq!(found, run(Some(&pool())));
        for row in 0..rows {
            let own = row * width..(row + 1) * width;
            let mut sum = vec![0.0_f32; width];
            let of_row = ids.iter().enumerate().filter(|&(_, &id)| id == row as i64);
            for (place, _) in of_row.clone() {
                sum.iter_mut().zip(&gradients[place * width..]).for_each(|(sum, more)| *sum += more);
            }
            let (mut values, mut first, mut second) = (vec![1.0; width], vec![0.0; width], vec![0.0; width]);
            if of_row.count() > 0 {
                adam(Vectors::widest(), &mut values, &mut first, &mut second, &sum, step);
            }
            assert_eq!(found.0[own.clone()], values, "row {row}");
            assert!(found.1[own.clone()] == first && found.2[own] == second, "row {row}");
        }
    }

    #[test]
    fn ids_and_lengths_that_do_not_fit_change_nothing() {
        let mut tables = [vec![1.0; 6], vec![0.0; 6], vec![0.0; 6]];
        let step = RowAdam::default().step(1, 0.1);
        let mut call = |ids: &[i64], gradients: &[f32]| {
            let [values, first, second] = &mut tables;
            let result = TrainedRows { width: 2, values, first, second }.step(ids, gradients, step, None);
            assert!(values.iter().all(|&value| value == 1.0));
            result.unwrap_err()
        };
        assert_eq!(call(&[0, 3], &[1.0; 4]), TrainedError::Id { id: 3, position: 1, rows: 3 });
        assert_eq!(call(&[-1], &[1.0; 2]), TrainedError::Id { id: -1, position: 0, rows: 3 });
        assert_eq!(call(&[0, 1], &[1.0; 3]), TrainedError::Length { found: 3, expected: 4 });
        let mut out = [0.0; 2];
        assert_eq!(
            read_rows(&tables[0], 2, &[5], &mut out, None).unwrap_err().to_string(),
            "id 5 at position 0 is outside of the 3 rows"
        );
    }
}
