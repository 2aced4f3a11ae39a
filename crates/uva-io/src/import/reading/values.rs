//! Converts array elements of any type to the few types that importers use.

use uva_graph::npy::NpyType;

/// An unsigned integer too large for a signed 64-bit integer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooLarge {
    pub(crate) position: usize,
    pub(crate) value: u64,
}

/// Whether elements of this type are integers.
pub(crate) fn is_integer(kind: NpyType) -> bool {
    !matches!(kind, NpyType::Bool | NpyType::F16 | NpyType::F32 | NpyType::F64)
}

fn each<T, const SIZE: usize>(bytes: &[u8], decode: impl Fn([u8; SIZE]) -> T) -> Vec<T> {
    bytes.as_chunks::<SIZE>().0.iter().map(|&bytes| decode(bytes)).collect()
}

/// Elements of an integer type, as [`is_integer`] has it.
pub(crate) fn integers(kind: NpyType, bytes: &[u8]) -> Result<Vec<i64>, TooLarge> {
    Ok(match kind {
        NpyType::I8 => each(bytes, |bytes| i8::from_le_bytes(bytes).into()),
        NpyType::U8 => each(bytes, |bytes| u8::from_le_bytes(bytes).into()),
        NpyType::I16 => each(bytes, |bytes| i16::from_le_bytes(bytes).into()),
        NpyType::U16 => each(bytes, |bytes| u16::from_le_bytes(bytes).into()),
        NpyType::I32 => each(bytes, |bytes| i32::from_le_bytes(bytes).into()),
        NpyType::U32 => each(bytes, |bytes| u32::from_le_bytes(bytes).into()),
        NpyType::I64 => each(bytes, i64::from_le_bytes),
        NpyType::U64 => {
            let values = each(bytes, |bytes| u64::from_le_bytes(bytes).cast_signed());
            if let Some(position) = values.iter().position(|&value| value < 0) {
                return Err(TooLarge { position, value: values[position].cast_unsigned() });
            }
            values
        }
        // Callers check first; other types have no integers.
        NpyType::Bool | NpyType::F16 | NpyType::F32 | NpyType::F64 => Vec::new(),
    })
}

/// Elements as doubles, for any number type.
pub(crate) fn floats(kind: NpyType, bytes: &[u8]) -> Vec<f64> {
    match kind {
        NpyType::Bool | NpyType::U8 => each(bytes, |bytes| u8::from_le_bytes(bytes).into()),
        NpyType::I8 => each(bytes, |bytes| i8::from_le_bytes(bytes).into()),
        NpyType::I16 => each(bytes, |bytes| i16::from_le_bytes(bytes).into()),
        NpyType::U16 => each(bytes, |bytes| u16::from_le_bytes(bytes).into()),
        NpyType::I32 => each(bytes, |bytes| i32::from_le_bytes(bytes).into()),
        NpyType::U32 => each(bytes, |bytes| u32::from_le_bytes(bytes).into()),
        NpyType::I64 => each(bytes, |bytes| i64::from_le_bytes(bytes) as f64),
        NpyType::U64 => each(bytes, |bytes| u64::from_le_bytes(bytes) as f64),
        NpyType::F16 => each(bytes, |bytes| half::f16::from_le_bytes(bytes).to_f64()),
        NpyType::F32 => each(bytes, |bytes| f32::from_le_bytes(bytes).into()),
        NpyType::F64 => each(bytes, f64::from_le_bytes),
    }
}

/// Whether float32 changes a number written as `text`: a whole number is rounded, or a small number becomes 0. `value`
/// is the text as float32.
pub(crate) fn is_rounded(text: &[u8], value: f32) -> bool {
    // Whole numbers up to here are exact.
    if value != 0.0 && value.abs() < 16_777_216.0 {
        return false;
    }
    let number = |text: &str| text.trim().parse::<f64>().ok();
    let written = std::str::from_utf8(text).ok().and_then(number);
    // The shortest text of a float32 is that number, although float64 reads another.
    let rounded = |written: f64| Some(written) != number(&value.to_string());
    written.is_some_and(|written| rounded(written) && (value == 0.0 || written.fract() == 0.0))
}

/// Whether float32 holds all values of the type.
pub(crate) fn fits_float32(kind: NpyType) -> bool {
    !matches!(kind, NpyType::I32 | NpyType::U32 | NpyType::I64 | NpyType::U64 | NpyType::F64)
}

/// The class of a label that may be stored as a float: −1 for NaN, nothing for an invalid class.
pub(crate) fn class(value: f64) -> Option<i64> {
    if value.is_nan() {
        Some(-1)
    } else if value.fract() == 0.0 && value >= -1.0 && value < f64::from(u32::MAX) {
        Some(value as i64)
    } else {
        None
    }
}
