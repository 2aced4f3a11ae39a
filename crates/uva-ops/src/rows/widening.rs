//! Half-precision values made float32, one at a time: what the vector instructions have to equal bit for bit.

use half::f16;

/// A 16-bit floating-point type of a table whose rows are delivered as float32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HalfFloat {
    /// IEEE 754 half precision. A signalling NaN becomes quiet, as the processor's own conversion makes it, and keeps
    /// the rest of its payload.
    F16,
    /// The upper half of a float32: widening appends 16 zero bits to any bit pattern.
    Bf16,
}

impl HalfFloat {
    /// Both.
    pub const ALL: [Self; 2] = [Self::F16, Self::Bf16];

    /// Bytes of a value.
    pub const BYTES: usize = 2;

    /// Bytes of a value once it is float32.
    pub const WIDENED_BYTES: usize = 4;

    /// The same of the value whose bytes begin at `from`.
    ///
    /// # Safety
    /// They can be read.
    #[inline(always)]
    pub(crate) unsafe fn widened_at(self, from: *const u8) -> u32 {
        // SAFETY: by our caller.
        self.widened(unsafe { from.cast::<u16>().read_unaligned() })
    }

    /// The float32 that the value with these bits is, as bits: every 16-bit value has one, exactly.
    pub const fn widened(self, bits: u16) -> u32 {
        match self {
            Self::F16 => f16::from_bits(bits).to_f32_const().to_bits(),
            Self::Bf16 => (bits as u32) << 16,
        }
    }
}

/// Runs `$body` with `$Type` named after the narrow type: of the types that `$types`, a set of instructions, widens.
#[cfg(target_arch = "x86_64")]
macro_rules! each_narrow {
    ($narrow:expr, $types:ident, $Type:ident => $body:block) => {
        match $narrow {
            $crate::rows::HalfFloat::F16 => {
                type $Type = $types::FromF16;
                $body
            }
            $crate::rows::HalfFloat::Bf16 => {
                type $Type = $types::FromBf16;
                $body
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
pub(crate) use each_narrow;
