//! The numbers of tensors in host memory as slices, for the loops of this crate, and the threads of these loops.

#![allow(unsafe_code)]

use crate::TrainError;
use crate::torch::borrowed::Number;
use rayon::ThreadPool;
use std::mem::MaybeUninit;
use std::sync::{Arc, Mutex, PoisonError};
use tch::{Device, Tensor};

/// The numbers of a contiguous tensor on the host.
///
/// The slice is valid while nothing writes to the storage. So callers keep it no longer than one loop, and meanwhile
/// call neither libtorch nor [`change`] on a tensor of the same storage.
pub(crate) fn values<T: Number>(tensor: &Tensor) -> Result<&[T], TrainError> {
    check::<T>(tensor)?;
    if tensor.numel() == 0 {
        return Ok(&[]);
    }
    // SAFETY: `check` has found the tensor on the host, contiguous and of T's kind. So `data_ptr` starts `numel`
    // consecutive initialised numbers. They are aligned for T: libtorch aligns storage, and `Borrowed` has checked
    // foreign memory. Every bit pattern is a T. The borrow of the tensor keeps the storage. Nothing writes meanwhile:
    // that is the rule above, and this crate's few callers keep it, as all of them read on the thread that owns the
    // batch.
    Ok(unsafe { std::slice::from_raw_parts(tensor.data_ptr().cast_const().cast(), tensor.numel()) })
}

/// Lets `write` change the numbers of a contiguous tensor on the host, whose storage must be libtorch's own and not
/// that of a [`crate::torch::borrowed::Borrowed`]. No slice of the same storage may be alive.
pub(crate) fn change<T: Number>(tensor: &mut Tensor, write: impl FnOnce(&mut [T])) -> Result<(), TrainError> {
    check::<T>(tensor)?;
    if tensor.numel() > 0 {
        // SAFETY: as in `values`. No other slice of the storage is alive, by the rule above: callers pass a result that
        // the same thread has just computed, and hold slices of other storages only.
        write(unsafe { std::slice::from_raw_parts_mut(tensor.data_ptr().cast(), tensor.numel()) });
    }
    Ok(())
}

/// A new tensor on the host. `write` gets its memory and must write every number of it.
///
/// # Safety
/// `write` has written all numbers when it returns.
pub(crate) unsafe fn filled<T: Number>(
    shape: &[i64],
    write: impl FnOnce(&mut [MaybeUninit<T>]),
) -> Result<Tensor, TrainError> {
    let tensor = Tensor::f_empty(shape, (T::KIND, Device::Cpu))?;
    if tensor.numel() > 0 {
        // SAFETY: a fresh contiguous tensor of `numel` numbers, not shared yet, aligned by libtorch's allocator. As
        // MaybeUninit they need not be initialised.
        write(unsafe { std::slice::from_raw_parts_mut(tensor.data_ptr().cast(), tensor.numel()) });
    }
    Ok(tensor)
}

fn check<T: Number>(tensor: &Tensor) -> Result<(), TrainError> {
    let kind = tensor.f_kind()?;
    if tensor.device() != Device::Cpu || kind != T::KIND || !tensor.is_contiguous() {
        return Err(TrainError::Input(format!(
            "a tensor of {kind:?} on {:?} where a contiguous one of {:?} on the host was expected",
            tensor.device(),
            T::KIND
        )));
    }
    Ok(())
}

/// The pool for the last requested number of threads: one process trains with one number.
static POOL: Mutex<Option<Arc<ThreadPool>>> = Mutex::new(None);

/// A pool for the loops of this crate, with as many threads as libtorch's operations use on the calling thread. `None`
/// for one thread, or if no thread can be spawned. Then the caller does all the work, with the same result.
pub(crate) fn threads() -> Option<Arc<ThreadPool>> {
    let wanted = usize::try_from(tch::get_num_threads()).unwrap_or(1);
    if wanted < 2 {
        return None;
    }
    let mut pool = POOL.lock().unwrap_or_else(PoisonError::into_inner);
    if pool.as_ref().is_none_or(|pool| pool.current_num_threads() != wanted) {
        *pool = rayon::ThreadPoolBuilder::new()
            .num_threads(wanted)
            .thread_name(|index| format!("train-{index}"))
            .build()
            .ok()
            .map(Arc::new);
    }
    pool.clone()
}
