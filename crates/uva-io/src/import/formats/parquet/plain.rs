//! PLAIN-encoded text, checked before it is decoded: the decoder reads each length without a bounds check, and panics
//! at the end of a truncated page.

/// Whether `bytes` begin with this many texts: each a length of four bytes, and that many bytes.
pub(super) fn holds_texts(bytes: &[u8], count: usize) -> bool {
    let mut rest = bytes;
    for _ in 0..count {
        let Some((length, behind)) = rest.split_first_chunk::<4>() else { return false };
        let Some(next) = behind.get(u32::from_le_bytes(*length) as usize..) else { return false };
        rest = next;
    }
    true
}

/// The number of the first `values` definition levels that are the highest one, which marks a present value. `None` if
/// the levels are not the hybrid of run lengths and bit packing, or too few.
pub(super) fn count_present(mut levels: &[u8], highest: i16, values: usize) -> Option<usize> {
    let highest = u64::from(highest.unsigned_abs());
    let width = (u64::BITS - highest.leading_zeros()) as usize;
    let (mut seen, mut present) = (0, 0);
    while seen < values {
        let header = variable_length(&mut levels)?;
        let run = usize::try_from(header >> 1).ok()?;
        let left = values - seen;
        if header & 1 == 1 {
            // Groups of eight, `width` bits each, the lowest first.
            let (packed, behind) = levels.split_at_checked(run.checked_mul(width)?)?;
            let count = run.saturating_mul(8).min(left);
            present += (0..count).filter(|&at| bits(packed, at * width, width) == highest).count();
            (seen, levels) = (seen + count, behind);
        } else {
            let (value, behind) = levels.split_at_checked(width.div_ceil(8))?;
            let count = run.min(left);
            present += if bits(value, 0, width) == highest { count } else { 0 };
            (seen, levels) = (seen + count, behind);
        }
    }
    Some(present)
}

/// A variable-length number with seven bits per byte, the lowest first.
pub(super) fn variable_length(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..u64::BITS).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

/// `width` bits from the bit `at` on.
fn bits(bytes: &[u8], at: usize, width: usize) -> u64 {
    (0..width).map(|bit| u64::from(bytes[(at + bit) / 8] >> ((at + bit) % 8) & 1) << bit).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_there_as_far_as_their_lengths_reach() {
        let two = b"\x02\0\0\0ab\x00\0\0\0";
        assert!(holds_texts(two, 2) && holds_texts(two, 1) && holds_texts(&[], 0));
        assert!(!holds_texts(two, 3) && !holds_texts(&two[..9], 2) && !holds_texts(b"\x03\0\0\0ab", 1));
        assert!(!holds_texts(b"\xff\xff\xff\xffab", 1));
    }

    #[test]
    fn levels_in_runs_and_in_bits_are_counted() {
        // Five times 1, by run length.
        assert_eq!(count_present(&[5 << 1, 1], 1, 5), Some(5));
        assert_eq!(count_present(&[5 << 1, 0], 1, 5), Some(0));
        // Eight levels of one bit, of which three count, then a run of two.
        assert_eq!(count_present(&[0b11, 0b0001_0101, 2 << 1, 1], 1, 10), Some(5));
        // The last group is longer than there are values.
        assert_eq!(count_present(&[0b11, 0b1111_1111], 1, 6), Some(6));
        // Levels up to 2 take two bits: 2, 1, 2, 0, 0, 0, 0, 2.
        assert_eq!(count_present(&[0b11, 0b0010_0110, 0b1000_0000], 2, 8), Some(3));
        for cut in [&[][..], &[5 << 1], &[0b11], &[0, 1], &[2 << 1, 1], &[0x80; 12]] {
            assert_eq!(count_present(cut, 1, 5), None, "{cut:?}");
        }
    }
}
