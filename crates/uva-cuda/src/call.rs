//! The one way from here into the driver.

/// Calls one function of the driver and turns its CUresult into a [`CudaError`](crate::CudaError) that names the call
/// and what it was for: `driver_call!(cuMemAlloc_v2(&mut address, bytes), "allocating {what}")`.
///
/// Expands to an unsafe call: the caller writes the `unsafe` block and argues why the arguments are what the function
/// wants. Only code that holds proof of a loaded driver (a [`Context`](crate::Context), or what was made from one) may
/// use it: without one it panics.
macro_rules! driver_call {
    ($function:ident($($argument:expr),* $(,)?), $($doing:tt)+) => {
        $crate::error::check(
            stringify!($function),
            ($crate::driver::loaded().$function)($($argument),*),
            || format!($($doing)+),
        )
    };
}
