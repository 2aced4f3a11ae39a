//! Loops compiled for more than the oldest processor that a build is for.

/// The body of a loop compiled for the vectors that processors may have, and a function that takes the best of them.
macro_rules! for_each_processor {
    (fn $name:ident $(<$T:ident: $Bound:ident>)? ($($argument:ident: $type:ty),*) $body:block) => {
        fn $name $(<$T: $Bound>)? ($($argument: $type),*) {
            #[inline(always)]
            fn body $(<$T: $Bound>)? ($($argument: $type),*) $body

            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq")]
                fn avx512 $(<$T: $Bound>)? ($($argument: $type),*) {
                    body($($argument),*);
                }

                #[target_feature(enable = "avx2")]
                fn avx2 $(<$T: $Bound>)? ($($argument: $type),*) {
                    body($($argument),*);
                }

                if is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512dq")
                {
                    // SAFETY: the processor has the features; avx512vl includes avx512f.
                    return unsafe { avx512($($argument),*) };
                }
                if is_x86_feature_detected!("avx2") {
                    // SAFETY: the processor has the feature.
                    return unsafe { avx2($($argument),*) };
                }
            }
            body($($argument),*);
        }
    };
}

pub(crate) use for_each_processor;
