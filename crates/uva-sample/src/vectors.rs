//! Which vector instructions this processor has, and functions compiled for each of them.
//!
//! The loops that count here are plain Rust over arrays of a fixed number of lanes. The compiler makes vector
//! instructions of them where it may assume them, which it may not in a program that is to run on every x86-64: so they
//! are compiled once for each set of instructions, and which one runs is decided when the program does. All give the
//! same: they are integer arithmetic.
#![allow(unsafe_code)]

/// A set of instructions that this processor was found to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Vectors(Set);

// Invariant: a value that names a set exists only where the processor has it (`available` is the only place that makes
// one), which is what lets `vectorized!` call what was compiled for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Set {
    /// What every processor of the kind has.
    Any,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Vectors {
    /// The widest that this processor has.
    pub(crate) fn widest() -> Self {
        // The standard library asks the processor once.
        Self::available().next_back().unwrap_or(Self(Set::Any))
    }

    /// All that this processor has, the widest last.
    pub(crate) fn available() -> impl DoubleEndedIterator<Item = Self> {
        #[cfg(target_arch = "x86_64")]
        let sets = {
            let avx2 = is_x86_feature_detected!("avx2");
            let avx512 = is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl");
            [Some(Set::Any), avx2.then_some(Set::Avx2), avx512.then_some(Set::Avx512)]
        };
        #[cfg(not(target_arch = "x86_64"))]
        let sets = [Some(Set::Any)];
        sets.into_iter().flatten().map(Self)
    }

    pub(crate) fn set(self) -> Set {
        self.0
    }
}

/// Asks for the cache line of `slice[at]`, which need not be in range. It reads nothing that a program could see.
#[inline(always)]
pub(crate) fn prefetch<T>(slice: &[T], at: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: a prefetch faults on no address.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(slice.as_ptr().wrapping_add(at).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (slice, at);
}

/// Makes of a function `body::<LANES>(…)`, which must be `#[inline(always)]`, a function that takes [`Vectors`] first
/// and runs what was compiled for them, with as many lanes of 32 bits as they hold.
macro_rules! vectorized {
    ($(#[$attribute:meta])* $visibility:vis fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $result:ty)? = $body:ident;) => {
        $(#[$attribute])*
        #[allow(unsafe_code)]
        $visibility fn $name(vectors: $crate::vectors::Vectors, $($argument: $type),*) $(-> $result)? {
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2")]
            fn avx2($($argument: $type),*) $(-> $result)? {
                $body::<8>($($argument),*)
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
            fn avx512($($argument: $type),*) $(-> $result)? {
                $body::<16>($($argument),*)
            }
            match vectors.set() {
                $crate::vectors::Set::Any => $body::<4>($($argument),*),
                // SAFETY: `Vectors` name only what the processor was found to have.
                #[cfg(target_arch = "x86_64")]
                $crate::vectors::Set::Avx2 => unsafe { avx2($($argument),*) },
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                $crate::vectors::Set::Avx512 => unsafe { avx512($($argument),*) },
            }
        }
    };
}

pub(crate) use vectorized;
