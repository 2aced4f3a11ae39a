//! float32 to float8 with four bits of exponent (float8_e4m3fn; Micikevicius et al. 2022).

/// The largest value.
pub(crate) const LARGEST: f32 = 448.0;

/// The smallest value whose leading bit is one; below it values lie 2⁻⁹ apart.
const SMALLEST_NORMAL: f32 = 1.0 / 64.0;

/// The nearest value's bits, an even fraction where two are as near. Larger values become [`LARGEST`]. `value` must not
/// be NaN.
pub(crate) fn from_f32(value: f32) -> u8 {
    let (sign, size) = ((value.to_bits() >> 24) as u8 & 0x80, value.abs());
    let rest = if size >= LARGEST {
        0x7e
    } else if size < SMALLEST_NORMAL {
        (size * 512.0).round_ties_even() as u8
    } else {
        // Three bits of float32's fraction remain; a carry from rounding goes into the exponent. Its bias is 120 more.
        let bits = size.to_bits();
        let rounded = (bits + 0x7_ffff + (bits >> 20 & 1)) >> 20;
        (rounded - (120 << 3)) as u8
    };
    sign | rest
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A value by its definition.
    fn value(bits: u8) -> f32 {
        let (exponent, fraction) = (i32::from(bits >> 3 & 15), f32::from(bits & 7));
        let size = match exponent {
            0 => fraction / 8.0 * 2f32.powi(-6),
            _ => (1.0 + fraction / 8.0) * 2f32.powi(exponent - 7),
        };
        if bits & 0x80 == 0 { size } else { -size }
    }

    #[test]
    fn every_value_is_itself() {
        for bits in (0..0x7f).chain(0x80..0xff) {
            assert_eq!(from_f32(value(bits)), bits, "{}", value(bits));
        }
        assert_eq!(value(0x7e), LARGEST);
        assert_eq!(value(0x08), SMALLEST_NORMAL);
    }

    #[test]
    fn values_round_to_the_nearest_and_ties_to_even() {
        for bits in 0..0x7e_u8 {
            let (below, above) = (value(bits), value(bits + 1));
            // Exact: both have few bits.
            let middle = (below + above) / 2.0;
            let even = if bits.is_multiple_of(2) { bits } else { bits + 1 };
            for sign in [1.0, -1.0] {
                let of = |size: f32| from_f32(sign * size) & 0x7f;
                assert_eq!(of(middle.next_down()), bits, "{middle}");
                assert_eq!(of(middle), even, "{middle}");
                assert_eq!(of(middle.next_up()), bits + 1, "{middle}");
            }
        }
    }

    #[test]
    fn what_is_too_large_becomes_the_largest() {
        for size in [448.0_f32.next_up(), 464.0, 500.0, f32::MAX, f32::INFINITY] {
            assert_eq!((from_f32(size), from_f32(-size)), (0x7e, 0xfe), "{size}");
        }
    }
}
