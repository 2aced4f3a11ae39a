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

    /// The float32 that the value with these bits is, as bits: every 16-bit value has one, exactly.
    pub const fn widened(self, bits: u16) -> u32 {
        match self {
            Self::F16 => f16::from_bits(bits).to_f32_const().to_bits(),
            Self::Bf16 => (bits as u32) << 16,
        }
    }
}
