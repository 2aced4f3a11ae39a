//! Primary contexts: one per device, retained and released by count, current by thread, lost with its first fault. A
//! green context is current as a view of its device's primary context.

use std::cell::Cell;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use crate::machine::codes::{Code, Outcome};
use crate::machine::device;
use crate::machine::registry::{Registry, give, lock, number, pointer};

/// A context. All objects created in it keep the value alive; a flag marks a destroyed context.
#[derive(Debug)]
pub struct Context {
    pub device: usize,
    /// The code of the fault by which it was lost; 0 while valid.
    lost: AtomicU32,
    destroyed: AtomicBool,
}

static CONTEXTS: Registry<Context> = Registry::new();

/// The green contexts as they can be made current: the handle of the primary context of each.
static VIEWS: Registry<u64> = Registry::new();

/// The primary context of each device that was retained: its count and its handle.
static PRIMARY: Mutex<Vec<Option<(usize, u64)>>> = Mutex::new(Vec::new());

thread_local! {
    static CURRENT: Cell<u64> = const { Cell::new(0) };
}

impl Context {
    /// Marks the context as lost. The first fault stays.
    pub fn poison(&self, code: Code) {
        let _ = self.lost.compare_exchange(0, code.0, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Checks that the context is valid.
    ///
    /// # Errors
    /// The fault by which it was lost; `CUDA_ERROR_CONTEXT_IS_DESTROYED`.
    pub fn check(&self) -> Outcome {
        if self.destroyed.load(Ordering::Acquire) {
            return Err(Code::CONTEXT_IS_DESTROYED);
        }
        match self.lost.load(Ordering::Acquire) {
            0 => Ok(()),
            code => Err(Code(code)),
        }
    }
}

/// Whether both are one context.
pub fn same(one: &Arc<Context>, other: &Arc<Context>) -> bool {
    Arc::ptr_eq(one, other)
}

/// The context current on this thread.
///
/// # Errors
/// `CUDA_ERROR_INVALID_CONTEXT` if there is none; `CUDA_ERROR_CONTEXT_IS_DESTROYED` if it was destroyed.
pub fn current() -> Result<Arc<Context>, Code> {
    match CURRENT.get() {
        0 => Err(Code::INVALID_CONTEXT),
        handle => by_handle(VIEWS.get(handle).map_or(handle, |primary| *primary)),
    }
}

/// The handle that is current on this thread: of a primary context, or of a green one.
pub fn current_handle() -> u64 {
    CURRENT.get()
}

/// Registers a green context of that primary one, and returns the handle under which it can be made current.
pub fn enter_view(primary: u64) -> u64 {
    VIEWS.insert(Arc::new(primary))
}

/// Undoes [`enter_view`]: the handle becomes invalid.
pub fn end_view(view: u64) {
    // It was registered once, so it exists.
    let _ = VIEWS.remove(view);
}

/// Resolves a context's handle.
///
/// # Errors
/// `CUDA_ERROR_CONTEXT_IS_DESTROYED` if it no longer exists.
pub fn by_handle(handle: u64) -> Result<Arc<Context>, Code> {
    CONTEXTS.get(handle).map_err(|_| Code::CONTEXT_IS_DESTROYED)
}

/// Checks that `context` is current.
///
/// # Errors
/// `CUDA_ERROR_INVALID_CONTEXT` unless `context` is the one current on this thread.
pub fn must_be_current(context: &Arc<Context>) -> Outcome {
    if same(context, &current()?) { Ok(()) } else { Err(Code::INVALID_CONTEXT) }
}

/// Retains the primary context of a device, and returns its handle.
pub fn retain_primary(ordinal: usize) -> u64 {
    let mut primary = lock(&PRIMARY);
    if primary.len() <= ordinal {
        primary.resize(ordinal + 1, None);
    }
    let (count, handle) = primary[ordinal].get_or_insert_with(|| {
        let context = Context { device: ordinal, lost: AtomicU32::new(0), destroyed: AtomicBool::new(false) };
        (0, CONTEXTS.insert(Arc::new(context)))
    });
    *count += 1;
    *handle
}

/// Releases one count; the last release destroys the context, which is returned.
///
/// # Errors
/// `CUDA_ERROR_INVALID_CONTEXT` if it is not retained.
pub fn give_back_primary(ordinal: usize) -> Result<Option<Arc<Context>>, Code> {
    let handle = {
        let mut primary = lock(&PRIMARY);
        let slot = primary.get_mut(ordinal).ok_or(Code::INVALID_CONTEXT)?;
        let (count, handle) = slot.as_mut().ok_or(Code::INVALID_CONTEXT)?;
        *count -= 1;
        if *count > 0 {
            return Ok(None);
        }
        let handle = *handle;
        *slot = None;
        handle
    };
    let context = CONTEXTS.remove(handle)?;
    context.destroyed.store(true, Ordering::Release);
    Ok(Some(context))
}

/// # Safety
/// `context` is null or writable.
pub unsafe fn primary_retain(context: *mut *mut c_void, device: i32) -> Outcome {
    let ordinal = device::ordinal(device)?;
    if context.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    // SAFETY: the caller's promise.
    unsafe { give(context, pointer(retain_primary(ordinal))) }
}

pub fn set_current(context: *mut c_void) -> Outcome {
    let handle = number(context);
    if handle != 0 && VIEWS.get(handle).is_err() {
        CONTEXTS.get(handle).map_err(|_| Code::INVALID_CONTEXT)?;
    }
    CURRENT.set(handle);
    Ok(())
}

/// # Safety
/// `context` is null or writable.
pub unsafe fn get_current(context: *mut *mut c_void) -> Outcome {
    // SAFETY: the caller's promise.
    unsafe { give(context, pointer(CURRENT.get())) }
}

/// # Safety
/// `device` is null or writable.
pub unsafe fn get_device(device: *mut i32) -> Outcome {
    let ordinal = current()?.device;
    // SAFETY: the caller's promise.
    unsafe { give(device, ordinal as i32) }
}
