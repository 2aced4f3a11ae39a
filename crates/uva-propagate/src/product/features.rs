//! Columns of the feature table as float32, normalised if requested.

use std::ops::Range;

use half::{bf16, f16};
use rayon::prelude::*;
use uva_graph::{ElementType, FeatureTable};
use uva_model::FeatureNorm;
use uva_ops::rows::NarrowFloat;

use crate::product::sums::NodeSequence;

/// Rows per task of a thread.
const TASK_ROWS: usize = 512;

/// A feature table whose values are read as float32.
pub(crate) struct FloatFeatures<'a> {
    table: FeatureTable<'a>,
    /// The divisor of each row; empty without normalisation.
    divisors: Vec<f64>,
}

impl<'a> FloatFeatures<'a> {
    /// Reads the whole table once if rows are normalised. Uses the current rayon pool.
    pub(crate) fn new(table: FeatureTable<'a>, norm: FeatureNorm) -> FloatFeatures<'a> {
        let mut features = FloatFeatures { table, divisors: Vec::new() };
        if norm == FeatureNorm::Row {
            let divisor = |row: usize| {
                let values = (0..table.dim).map(|column| f64::from(features.value(row, column)).abs());
                match values.sum() {
                    0.0 => 1.0,
                    sum => sum,
                }
            };
            features.divisors = (0..table.rows).into_par_iter().map(divisor).collect();
        }
        features
    }

    /// Bytes in memory, for each row of the table.
    pub(crate) fn bytes_a_row(norm: FeatureNorm) -> u64 {
        if norm == FeatureNorm::Row { 8 } else { 0 }
    }

    /// Writes these columns of each of these rows, one row after the other. Uses the current rayon pool.
    pub(crate) fn write(
        &self,
        rows: &(impl NodeSequence + Sync + ?Sized),
        columns: &Range<usize>,
        out: &mut [f32],
    ) {
        let width = columns.len();
        out.par_chunks_mut(TASK_ROWS * width).enumerate().for_each(|(task, out)| {
            for (place, out) in (task * TASK_ROWS..).zip(out.chunks_exact_mut(width)) {
                let row = rows.node(place);
                self.widen(row, columns, out);
                if let Some(divisor) = self.divisors.get(row) {
                    out.iter_mut().for_each(|value| *value = (f64::from(*value) / divisor) as f32);
                }
            }
        });
    }

    fn widen(&self, row: usize, columns: &Range<usize>, out: &mut [f32]) {
        match self.table.element {
            ElementType::F32 => {
                let (values, _) = self.bytes(row, columns).as_chunks::<4>();
                for (out, value) in out.iter_mut().zip(values) {
                    *out = f32::from_le_bytes(*value);
                }
            }
            _ => {
                for (out, column) in out.iter_mut().zip(columns.clone()) {
                    *out = self.value(row, column);
                }
            }
        }
    }

    fn bytes(&self, row: usize, columns: &Range<usize>) -> &'a [u8] {
        let (size, first) = (self.table.element.bytes(), row * self.table.row_bytes());
        &self.table.bytes[first + columns.start * size..first + columns.end * size]
    }

    fn value(&self, row: usize, column: usize) -> f32 {
        let bytes = self.bytes(row, &(column..column + 1));
        match self.table.element {
            ElementType::F32 => f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]),
            ElementType::F16 => f16::from_le_bytes([bytes[0], bytes[1]]).to_f32(),
            ElementType::Bf16 => bf16::from_le_bytes([bytes[0], bytes[1]]).to_f32(),
            ElementType::E4m3 => f32::from_bits(NarrowFloat::E4m3.widened(u16::from(bytes[0]))),
            ElementType::U8 => f32::from(bytes[0]),
            ElementType::I8 => f32::from(bytes[0].cast_signed()),
        }
    }
}
