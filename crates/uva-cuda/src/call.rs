//! The only path from this crate into the driver.

/// Calls one function of the driver and turns its CUresult into a [`CudaError`](crate::CudaError). The error names the
/// call and its purpose: `driver_call!(cuMemAlloc_v2(&mut address, bytes), "allocating {what}")`.
///
/// Expands to an unsafe call: the caller writes the `unsafe` block and argues that the arguments meet the function's
/// contract. Only code with proof of a loaded driver may use it: a [`Context`](crate::Context), or a value made from
/// one. Panics without a driver.
macro_rules! driver_call {
    ($function:ident($($argument:expr),* $(,)?), $($doing:tt)+) => {
        $crate::error::check(
            stringify!($function),
            ($crate::devices::driver::loaded().$function)($($argument),*),
            || format!($($doing)+),
        )
    };
}
