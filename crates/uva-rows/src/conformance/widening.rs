//! Checks for backends that widen rows of narrow floating-point values: float32 of the same value, bit for bit.

use half::{bf16, f16};

use uva_ops::rows::NarrowFloat;

use super::check::{GUARD, LINE, check_against, table_bytes};
use super::plain::refusal;
use crate::error::GatherError;
use crate::host::HostSource;
use crate::source::RowSource;

/// Creates the backend under test over a table, for rows of the given size and value type. A cache, if any, has the
/// given rows.
pub type MakeWidening<'f> =
    dyn for<'t> Fn(&'t [u8], usize, NarrowFloat, &[i64]) -> Box<dyn HostSource + 't> + 'f;

/// Checks a backend that reads a table of narrow values as float32.
///
/// # Panics
/// If it breaks the contract of [`RowSource`], whose rows are the widened rows.
pub fn widening(make: &MakeWidening<'_>) {
    for narrow in NarrowFloat::ALL {
        every_value(make, narrow);
        every_number_of_values(make, narrow);
        bad_ids(make, narrow);
    }
}

/// A value as float32, from the definition and not from the backends' own conversion.
pub(super) fn widened(narrow: NarrowFloat, bits: u16) -> u32 {
    match narrow {
        NarrowFloat::Bf16 => u32::from(bits) << 16,
        NarrowFloat::E4m3 => {
            let (sign, exponent, fraction) =
                (u32::from(bits >> 7) << 31, bits >> 3 & 15, u32::from(bits & 7));
            sign | match exponent {
                // 2^-9 times a small integer.
                0 => (fraction as f32 * 2f32.powi(-9)).to_bits(),
                15 if fraction == 7 => 0x7fc0_0000,
                _ => (u32::from(exponent) + 127 - 7) << 23 | fraction << 20,
            }
        }
        NarrowFloat::F16 => {
            let (sign, exponent, fraction) =
                (u32::from(bits >> 15) << 31, bits >> 10 & 31, u32::from(bits & 1023));
            sign | match exponent {
                // 2^-24 times a small integer: exact in float32, and normal there.
                0 => (fraction as f32 * 2f32.powi(-24)).to_bits(),
                31 if fraction == 0 => f32::INFINITY.to_bits(),
                // Quiet, with its payload.
                31 => 0x7fc0_0000 | fraction << 13,
                _ => (u32::from(exponent) + 127 - 15) << 23 | fraction << 13,
            }
        }
    }
}

fn widened_rows(table: &[u8], row_bytes: usize, narrow: NarrowFloat, ids: &[i64]) -> Vec<u8> {
    let rows = ids.iter().map(|&id| &table[id as usize * row_bytes..][..row_bytes]);
    let values = rows.flat_map(|row| row.chunks_exact(narrow.bytes()));
    let bits = values.map(|value| value.iter().rev().fold(0, |bits, &byte| bits << 8 | u16::from(byte)));
    bits.flat_map(|bits| widened(narrow, bits).to_le_bytes()).collect()
}

/// Checks all values: denormals, both zeros, infinities and every NaN, at every place in a vector.
fn every_value(make: &MakeWidening<'_>, narrow: NarrowFloat) {
    // The definition above agrees with a widely used crate for all numbers.
    for bits in 0..=u16::MAX {
        let theirs = match narrow {
            NarrowFloat::F16 => f16::from_bits(bits).to_f32(),
            NarrowFloat::Bf16 => bf16::from_bits(bits).to_f32(),
            NarrowFloat::E4m3 => continue,
        };
        let ours = f32::from_bits(widened(narrow, bits));
        assert!(
            ours.to_bits() == theirs.to_bits() || ours.is_nan() && theirs.is_nan(),
            "{narrow:?} {bits:#06x}"
        );
    }
    let all = 1_usize << (8 * narrow.bytes());
    for values in [1, 64, 65, 100] {
        // Additional rows, so that the table is whole rows.
        let table: Vec<u8> = (0..all.next_multiple_of(values))
            .flat_map(|bits| (bits as u16).to_le_bytes().into_iter().take(narrow.bytes()))
            .collect();
        let row_bytes = values * narrow.bytes();
        let rows = table.len() / row_bytes;
        let ids: Vec<i64> = (0..rows as i64).rev().collect();
        let mut source = make(&table, row_bytes, narrow, &ids[..rows / 2]);
        let expected = widened_rows(&table, row_bytes, narrow, &ids);
        check_against(&mut *source, &expected, GUARD, &ids, &|| {
            format!("every {narrow:?}, {values} in a row")
        });
    }
}

/// Checks rows of 1 to 300 values, into outputs at any offset of a line, even unaligned to float32.
fn every_number_of_values(make: &MakeWidening<'_>, narrow: NarrowFloat) {
    const ROWS: usize = 70;
    for values in (1..=300).chain([1024, 1025, 5000]) {
        let row_bytes = values * narrow.bytes();
        // One byte off: a table's rows may begin at odd addresses.
        let bytes = table_bytes(1 + ROWS * row_bytes);
        for (skip, before) in [(0, values % LINE), (1, 4 * (values % 16))] {
            let table = &bytes[skip..][..ROWS * row_bytes];
            let mut source = make(table, row_bytes, narrow, &[3, 0, 69]);
            assert_eq!((source.rows(), source.row_bytes()), (ROWS, 4 * values));
            let ids: Vec<i64> = (0..2 * ROWS as i64 + 1).map(|i| i * 31 % ROWS as i64).collect();
            let expected = widened_rows(table, row_bytes, narrow, &ids);
            check_against(&mut *source, &expected, GUARD + before, &ids, &|| {
                format!("{narrow:?}, {values} in a row, {before} bytes after a line's beginning")
            });
        }
    }
}

fn bad_ids(make: &MakeWidening<'_>, narrow: NarrowFloat) {
    let row_bytes = 3 * narrow.bytes();
    let table = table_bytes(10 * row_bytes);
    let mut source = make(&table, row_bytes, narrow, &[1]);
    let mut out = vec![0x5a; 3 * 12];
    for id in [-1, 10, i64::MAX] {
        let expected = GatherError::IdOutOfRange { position: 1, id, rows: 10 };
        assert_eq!(refusal(&mut *source, &[5, id, -77], &mut out), expected);
    }
    // The rows of the output are the widened ones.
    let expected = GatherError::OutputLength { ids: 3, row_bytes: 12, length: 18 };
    assert_eq!(refusal(&mut *source, &[5; 3], &mut out[..18]), expected);
    assert!(out.iter().all(|&byte| byte == 0x5a), "an output was written although the ids were refused");
}
