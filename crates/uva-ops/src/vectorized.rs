//! One body, compiled once for each set of instructions.

/// Makes of a function one that takes [`Vectors`](crate::Vectors) before its other arguments, and runs what its body
/// was compiled to for them.
///
/// The body is plain Rust over slices or arrays, of which the compiler makes vector instructions where it may assume
/// them. It may have a constant, the first and only one in the angle brackets, that is how many lanes of 32 bits the
/// vectors hold (4, 8 or 16); or else a type with a bound; or neither. What it calls is compiled for the set only if it
/// is inlined: mark it `#[inline(always)]`. Within it `body` names the body itself.
///
/// ```
/// uva_ops::vectorized! {
///     /// Sums as many numbers side by side as there are lanes.
///     pub fn sum<const LANES: usize>(values: &[u32]) -> u32 {
///         let (chunks, rest) = values.as_chunks::<LANES>();
///         let mut sums = [0_u32; LANES];
///         for chunk in chunks {
///             for lane in 0..LANES {
///                 sums[lane] = sums[lane].wrapping_add(chunk[lane]);
///             }
///         }
///         sums.iter().chain(rest).copied().fold(0, u32::wrapping_add)
///     }
/// }
/// assert_eq!(sum(uva_ops::Vectors::widest(), &[1; 100]), 100);
/// ```
///
/// # Floating point
///
/// What is computed is the same bit for bit with every set, as long as it does not depend on the number of lanes.
/// That a set has FMA changes nothing: the compiler makes one instruction of a product and a sum, which would round
/// once instead of twice, only where the program says `mul_add`, and that rounds once with every set. Nor does it ever
/// change the order of additions.
#[macro_export]
macro_rules! vectorized {
    (
        $(#[$attribute:meta])*
        $visibility:vis fn $name:ident<const $lanes:ident: usize>($($argument:ident: $type:ty),* $(,)?)
        $(-> $result:ty)? $body:block
    ) => {
        $(#[$attribute])*
        $visibility fn $name(vectors: $crate::Vectors, $($argument: $type),*) $(-> $result)? {
            #[inline(always)]
            fn body<const $lanes: usize>($($argument: $type),*) $(-> $result)? $body

            $crate::vectorized! {
                @choose vectors, [], ($($argument: $type),*), [$($result)?], [body::<4>, body::<8>, body::<16>]
            }
        }
    };
    (
        $(#[$attribute:meta])*
        $visibility:vis fn $name:ident$(<$T:ident: $Bound:path>)?($($argument:ident: $type:ty),* $(,)?)
        $(-> $result:ty)? $body:block
    ) => {
        $(#[$attribute])*
        $visibility fn $name$(<$T: $Bound>)?(vectors: $crate::Vectors, $($argument: $type),*) $(-> $result)? {
            #[inline(always)]
            fn body$(<$T: $Bound>)?($($argument: $type),*) $(-> $result)? $body

            $crate::vectorized! {
                @choose vectors, [$($T: $Bound)?], ($($argument: $type),*), [$($result)?], [body, body, body]
            }
        }
    };
    (
        @choose $vectors:ident, [$($T:ident: $Bound:path)?], ($($argument:ident: $type:ty),*), [$($result:ty)?],
        [$portable:expr, $avx2:expr, $avx512:expr]
    ) => {{
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2,fma,f16c")]
        fn avx2$(<$T: $Bound>)?($($argument: $type),*) $(-> $result)? {
            $avx2($($argument),*)
        }
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi")]
        fn avx512$(<$T: $Bound>)?($($argument: $type),*) $(-> $result)? {
            $avx512($($argument),*)
        }
        match $vectors.set() {
            $crate::Set::Portable => $portable($($argument),*),
            // SAFETY: `Vectors` name only a set that the processor was found to have; these are its features.
            #[cfg(target_arch = "x86_64")]
            $crate::Set::Avx2 => unsafe { avx2($($argument),*) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            $crate::Set::Avx512 => unsafe { avx512($($argument),*) },
        }
    }};
}
