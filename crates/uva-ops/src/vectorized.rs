//! One body, compiled once for each set of instructions.

/// Turns a function into one that takes [`Vectors`](crate::Vectors) before its other arguments, and runs the variant of
/// its body compiled for them.
///
/// The body is plain Rust over slices or arrays, which the compiler vectorizes for the set. In the angle brackets it
/// may have one constant, the number of 32-bit lanes of a vector (4, 8 or 16); or one type with a bound; or nothing. A
/// called function is compiled for the set only if it is inlined: mark it `#[inline(always)]`. Within the body, `body`
/// names the body itself.
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
/// Results are the same bit for bit with every set, as long as they do not depend on the number of lanes. FMA does not
/// change results: the compiler fuses a product and a sum, which rounds once instead of twice, only where the program
/// says `mul_add`, and that rounds once with every set. Nor does it ever reorder additions.
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
