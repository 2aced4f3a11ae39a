//! Conversion of narrow floating-point values to float32, one at a time: the reference that vector instructions must
//! equal bit for bit.

use half::f16;

/// A floating-point type of 8 or 16 bits, of a table whose rows are delivered as float32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NarrowFloat {
    /// IEEE 754 half precision. A signalling NaN becomes quiet, as the processor's own conversion makes it, and keeps
    /// the rest of its payload.
    F16,
    /// The upper half of a float32: widening appends 16 zero bits to any bit pattern.
    Bf16,
    /// Four bits of exponent and three of fraction, without infinities (float8_e4m3fn; Micikevicius et al. 2022): at
    /// most 448, and one NaN of each sign, which becomes a quiet NaN without a payload.
    E4m3,
}

impl NarrowFloat {
    /// All types.
    pub const ALL: [Self; 3] = [Self::F16, Self::Bf16, Self::E4m3];

    /// Bytes of a value once it is float32.
    pub const WIDENED_BYTES: usize = 4;

    /// Bytes of a value.
    pub const fn bytes(self) -> usize {
        match self {
            Self::F16 | Self::Bf16 => 2,
            Self::E4m3 => 1,
        }
    }

    /// The float32, as bits, of the value whose bytes begin at `from`.
    ///
    /// # Safety
    /// The bytes can be read.
    #[inline(always)]
    pub(crate) unsafe fn widened_at(self, from: *const u8) -> u32 {
        // SAFETY: by our caller.
        let bits = unsafe {
            match self.bytes() {
                1 => u16::from(from.read()),
                _ => from.cast::<u16>().read_unaligned(),
            }
        };
        self.widened(bits)
    }

    /// The bits of the float32 that equals the value with these bits. Every value has one. Of a type of 8 bits the
    /// upper ones are zeros.
    pub const fn widened(self, bits: u16) -> u32 {
        match self {
            Self::F16 => f16::from_bits(bits).to_f32_const().to_bits(),
            Self::Bf16 => (bits as u32) << 16,
            Self::E4m3 => {
                let (sign, rest) = ((bits as u32 & 0x80) << 24, bits & 0x7f);
                // As half precision the same bits are the value over 2^8: that type's exponent is biased by 8 more.
                let scaled = f16::from_bits(rest << 7).to_f32_const();
                sign | if rest == 0x7f { f32::NAN.to_bits() } else { (scaled * 256.0).to_bits() }
            }
        }
    }
}

/// Runs `$body` with `$Type` named after the narrow type: of the types that `$types`, a set of instructions, widens.
#[cfg(target_arch = "x86_64")]
macro_rules! each_narrow {
    ($narrow:expr, $types:ident, $Type:ident => $body:block) => {
        match $narrow {
            $crate::rows::NarrowFloat::F16 => {
                type $Type = $types::FromF16;
                $body
            }
            $crate::rows::NarrowFloat::Bf16 => {
                type $Type = $types::FromBf16;
                $body
            }
            $crate::rows::NarrowFloat::E4m3 => {
                type $Type = $types::FromE4m3;
                $body
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
pub(crate) use each_narrow;
