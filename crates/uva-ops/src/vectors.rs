//! Sets of vector instructions, and detection of those that this processor has.

use std::fmt;

/// Whether this processor has instructions that multiply bfloat16 numbers.
#[must_use]
pub fn multiplies_bfloat16() -> bool {
    #[cfg(target_arch = "x86_64")]
    return is_x86_feature_detected!("avx512bf16");
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// Sets of instructions. Each includes the previous ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Set {
    /// The baseline of every processor of the architecture; on x86-64 that is SSE2.
    Portable,
    /// AVX2, FMA and F16C (Haswell, Zen and later): vectors of 32 bytes.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// In addition, AVX-512 F, BW, DQ, VL and VBMI (Ice Lake, Zen 4 and later): vectors of 64 bytes. Processors that
    /// have AVX-512 without VBMI (Skylake, Cascade Lake) are taken for the set before.
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

/// A set of instructions that this processor has, as detected.
///
/// Code may rely on that to call functions compiled for the set, which would otherwise be undefined behaviour.
// Invariant: the processor has the set. The field is private, and a value is made by `PORTABLE`, which holds anywhere,
// or out of what `widest` detected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Vectors(Set);

impl Vectors {
    /// Requires no vector extensions of the processor.
    pub const PORTABLE: Self = Self(Set::Portable);

    /// The widest set that this processor has. The processor is queried once; afterwards this costs a few loads.
    #[inline]
    pub fn widest() -> Self {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("f16c")
        {
            let avx512 = is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512vbmi");
            return Self(if avx512 { Set::Avx512 } else { Set::Avx2 });
        }
        Self::PORTABLE
    }

    /// All that this processor has, the narrowest first: for tests and measurements of each.
    pub fn available() -> impl DoubleEndedIterator<Item = Self> {
        let Self(widest) = Self::widest();
        // A processor that has a set also has the included sets.
        let sets = [
            Set::Portable,
            #[cfg(target_arch = "x86_64")]
            Set::Avx2,
            #[cfg(target_arch = "x86_64")]
            Set::Avx512,
        ];
        sets.into_iter().filter(move |&set| set <= widest).map(Self)
    }

    /// The set.
    #[inline]
    pub fn set(self) -> Set {
        self.0
    }

    /// The name in reports: `portable`, `avx2` or `avx512`.
    pub fn name(self) -> &'static str {
        match self.0 {
            Set::Portable => "portable",
            #[cfg(target_arch = "x86_64")]
            Set::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            Set::Avx512 => "avx512",
        }
    }
}

/// Formats the [name](Vectors::name).
impl fmt::Display for Vectors {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}
