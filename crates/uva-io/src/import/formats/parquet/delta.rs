//! Values in the encodings DELTA, as PLAIN-encoded ones.
//!
//! A few bytes may claim any number of values and any length of text, so the caller limits the number of values and
//! bytes.

use parquet::basic::Type;

use super::plain::variable_length;

/// The maximum number of values of a block: writers have some hundreds.
const LONGEST_BLOCK: u64 = 1 << 20;

/// Why values cannot be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DeltaProblem {
    Malformed,
    /// They take more bytes than the caller allows.
    TooLong,
    /// The column has another type.
    Type,
}

/// The encodings by their numbers in Parquet.
pub(super) fn name(encoding: i64) -> &'static str {
    match encoding {
        5 => "DELTA_BINARY_PACKED",
        6 => "DELTA_LENGTH_BYTE_ARRAY",
        _ => "DELTA_BYTE_ARRAY",
    }
}

/// The `count` values of a page in one of the encodings 5 to 7, as PLAIN has them, in at most `most` bytes.
pub(super) fn to_plain(
    encoding: i64,
    kind: Type,
    mut bytes: &[u8],
    count: usize,
    most: u64,
) -> Result<Vec<u8>, DeltaProblem> {
    let bytes = &mut bytes;
    match (encoding, kind) {
        (5, Type::INT32) => {
            let values = integers(bytes, count, most)?;
            Ok(values.into_iter().flat_map(|value| (value as i32).to_le_bytes()).collect())
        }
        (5, Type::INT64) => {
            Ok(integers(bytes, count, most)?.into_iter().flat_map(i64::to_le_bytes).collect())
        }
        (6, Type::BYTE_ARRAY) => texts(vec![0; count], bytes, count, most),
        (7, Type::BYTE_ARRAY) => texts(integers(bytes, count, most)?, bytes, count, most),
        _ => Err(DeltaProblem::Type),
    }
}

/// Decodes texts, each of which begins with `shared` bytes of the previous one.
fn texts(shared: Vec<i64>, bytes: &mut &[u8], count: usize, most: u64) -> Result<Vec<u8>, DeltaProblem> {
    let own = integers(bytes, count, most)?;
    let (mut total, mut before) = (0_u64, 0_u64);
    for (&shared, &own) in shared.iter().zip(&own) {
        let (Ok(shared), Ok(own)) = (u64::try_from(shared), u64::try_from(own)) else {
            return Err(DeltaProblem::Malformed);
        };
        if shared > before || own > bytes.len() as u64 {
            return Err(DeltaProblem::Malformed);
        }
        before = shared + own;
        total += 4 + before;
        if total > most {
            return Err(DeltaProblem::TooLong);
        }
    }
    let mut plain: Vec<u8> = Vec::with_capacity(total as usize);
    // The position of the previous text.
    let mut last = 0;
    for (shared, own) in shared.into_iter().zip(own) {
        let (shared, own) = (shared as usize, own as usize);
        let (text, rest) = bytes.split_at_checked(own).ok_or(DeltaProblem::Malformed)?;
        *bytes = rest;
        plain.extend(((shared + own) as u32).to_le_bytes());
        let start = plain.len();
        plain.extend_from_within(last..last + shared);
        plain.extend_from_slice(text);
        last = start;
    }
    Ok(plain)
}

/// `count` integers in DELTA_BINARY_PACKED: blocks of differences to the least one, packed in bits. `bytes` then holds
/// the remaining bytes.
fn integers(bytes: &mut &[u8], count: usize, most: u64) -> Result<Vec<i64>, DeltaProblem> {
    if count as u64 > most / 8 {
        return Err(DeltaProblem::TooLong);
    }
    packed(bytes, count).ok_or(DeltaProblem::Malformed)
}

fn packed(bytes: &mut &[u8], count: usize) -> Option<Vec<i64>> {
    // Some writers omit the header if there are no values.
    if count == 0 && bytes.is_empty() {
        return Some(Vec::new());
    }
    let (block, pieces, said) = (variable_length(bytes)?, variable_length(bytes)?, variable_length(bytes)?);
    let first = zigzag(bytes)?;
    let fits = (1..=LONGEST_BLOCK).contains(&block) && pieces > 0 && block.is_multiple_of(pieces);
    // A piece ends with a byte.
    let piece = block.checked_div(pieces).filter(|piece| fits && piece.is_multiple_of(8))? as usize;
    if said != count as u64 {
        return None;
    }
    let mut values = Vec::with_capacity(count);
    if count > 0 {
        values.push(first);
    }
    let mut last = first;
    while values.len() < count {
        let least = zigzag(bytes)?;
        let (widths, rest) = bytes.split_at_checked(pieces as usize)?;
        *bytes = rest;
        for &width in widths {
            // Pieces after the last value are absent.
            if values.len() == count {
                break;
            }
            let width = usize::from(width);
            if width > 64 {
                return None;
            }
            let (packed, rest) = bytes.split_at_checked(piece / 8 * width)?;
            *bytes = rest;
            for at in 0..piece.min(count - values.len()) {
                last = last.wrapping_add(least).wrapping_add(bits(packed, at * width, width).cast_signed());
                values.push(last);
            }
        }
    }
    Some(values)
}

/// `width` bits from the bit `at` on, the lowest first; at most 64.
fn bits(bytes: &[u8], at: usize, width: usize) -> u64 {
    let (first, shift) = (at / 8, at % 8);
    let mut window = [0; 16];
    let end = (at + width).div_ceil(8);
    window[..end - first].copy_from_slice(&bytes[first..end]);
    let mask = if width == 64 { u64::MAX } else { (1 << width) - 1 };
    (u128::from_le_bytes(window) >> shift) as u64 & mask
}

fn zigzag(bytes: &mut &[u8]) -> Option<i64> {
    let value = variable_length(bytes)?;
    Some((value >> 1).cast_signed() ^ -((value & 1).cast_signed()))
}
