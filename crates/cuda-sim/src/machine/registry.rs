//! Handles: what the driver calls pointers to its own structures are numbers here, so that a stale or invalid one is
//! detected and never dereferenced.

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::machine::codes::Code;

/// Numbers are never used twice in a process, across all kinds: a handle of one kind is never valid for another.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// All live objects of one kind.
pub struct Registry<T> {
    objects: Mutex<Option<HashMap<u64, Arc<T>>>>,
}

impl<T> Registry<T> {
    pub const fn new() -> Self {
        Self { objects: Mutex::new(None) }
    }

    /// Registers an object and returns its handle, which is not an address of this process and not 0.
    pub fn insert(&self, object: Arc<T>) -> u64 {
        // Above what user space maps, and odd, so that dereferencing it faults immediately.
        let handle = 0xc0da_0000_0000_0001 | (NEXT.fetch_add(1, Ordering::Relaxed) << 4);
        lock(&self.objects).get_or_insert_default().insert(handle, object);
        handle
    }

    /// Resolves a handle.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_HANDLE` if there is not such a object.
    pub fn get(&self, handle: u64) -> Result<Arc<T>, Code> {
        lock(&self.objects).as_ref().and_then(|all| all.get(&handle).cloned()).ok_or(Code::INVALID_HANDLE)
    }

    /// Removes an object.
    ///
    /// # Errors
    /// As [`Registry::get`].
    pub fn remove(&self, handle: u64) -> Result<Arc<T>, Code> {
        lock(&self.objects).as_mut().and_then(|all| all.remove(&handle)).ok_or(Code::INVALID_HANDLE)
    }

    /// Removes every object that does not satisfy `keep`, and returns the removed objects.
    pub fn retain(&self, keep: impl Fn(&T) -> bool) -> Vec<Arc<T>> {
        let mut guard = lock(&self.objects);
        let Some(all) = guard.as_mut() else { return Vec::new() };
        let gone: Vec<u64> =
            all.iter().filter(|(_, object)| !keep(object)).map(|(handle, _)| *handle).collect();
        gone.iter().filter_map(|handle| all.remove(handle)).collect()
    }

    /// Every live object.
    pub fn all(&self) -> Vec<Arc<T>> {
        lock(&self.objects).iter().flat_map(|all| all.values().cloned()).collect()
    }
}

/// Takes a lock even if it is poisoned: a panic is converted to a CUresult at the boundary, and guarded state is
/// consistent after every statement.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Stores a result at the caller's address.
///
/// # Safety
/// `place` is null or valid for a write of `T`, by the driver's documentation.
///
/// # Errors
/// `CUDA_ERROR_INVALID_VALUE` if it is null.
pub unsafe fn give<T>(place: *mut T, value: T) -> Result<(), Code> {
    if place.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    // SAFETY: not null, and the caller promises the rest. C code may have packed structures, so the write is unaligned.
    unsafe { place.write_unaligned(value) };
    Ok(())
}

/// The number in a handle that came as a pointer.
pub fn number(handle: *mut c_void) -> u64 {
    handle as usize as u64
}

/// Converts a number to the pointer type of the driver's handles.
pub fn pointer(handle: u64) -> *mut c_void {
    handle as usize as *mut c_void
}
