//! cuMemAlloc and cuMemHostAlloc: memory that this library owns.

use std::collections::HashMap;
use std::ffi::{c_uint, c_void};
use std::sync::{Arc, Mutex};

use crate::device_memory::memory_file::{Mapping, MemoryFile, PAGE, Purpose};
use crate::device_memory::ranges::{self, Kind};
use crate::device_memory::{held_kernels, registration, usage, vmm};
use crate::machine::codes::{Code, Outcome};
use crate::machine::context::{self, Context};
use crate::machine::device::configured;
use crate::machine::registry::{give, lock};

/// The content of the first bytes of fresh memory, instead of zeros: code must not rely on the content.
const POISON: u8 = 0xa5;
/// The number of such bytes, small enough to be cheap.
const POISONED_BYTES: usize = 64 << 10;

/// Memory of this library.
pub struct Owned {
    pub context: Arc<Context>,
    pub bytes: usize,
    pub what: What,
    mapping: Mapping,
}

/// Where owned memory came from.
pub enum What {
    Device(Arc<MemoryFile>),
    /// Opened from another process's handle that many times.
    Imported {
        inode: u64,
        opened: usize,
    },
    Pinned,
}

static OWNED: Mutex<Option<HashMap<u64, Owned>>> = Mutex::new(None);

/// Registers memory of this library in both tables, and returns its address.
pub fn own(context: Arc<Context>, bytes: usize, kind: Kind, what: What, mapping: Mapping) -> u64 {
    let start = mapping.address();
    // A fresh mapping overlaps only registered ranges whose pages the caller has unmapped in the meantime.
    if !ranges::insert(start, bytes as u64, kind, true, true) {
        registration::forget_overlapping(start, bytes as u64);
        ranges::insert(start, bytes as u64, kind, true, true);
    }
    lock(&OWNED).get_or_insert_default().insert(start, Owned { context, bytes, what, mapping });
    start
}

/// Calls `look` with the memory that begins at `start`.
pub fn with<T>(start: u64, look: impl FnOnce(&mut Owned) -> T) -> Option<T> {
    lock(&OWNED).as_mut()?.get_mut(&start).map(look)
}

/// Finds memory by a property, and returns its address.
pub fn find(is: impl Fn(&Owned) -> bool) -> Option<u64> {
    lock(&OWNED).as_ref()?.iter().find(|(_, owned)| is(owned)).map(|(start, _)| *start)
}

/// Removes the memory that begins at `start`, when no operation uses it.
///
/// # Errors
/// `CUDA_ERROR_INVALID_VALUE` if there is not such a memory that satisfies `is`.
pub fn disown(start: u64, is: impl FnOnce(&What) -> bool) -> Outcome {
    let owned = {
        let mut all = lock(&OWNED);
        let all = all.as_mut().ok_or(Code::INVALID_VALUE)?;
        all.get(&start).filter(|owned| is(&owned.what)).ok_or(Code::INVALID_VALUE)?;
        all.remove(&start)
    };
    let Some(owned) = owned else { return Err(Code::INVALID_VALUE) };
    if let Some(removed) = ranges::remove(start) {
        removed.wait();
    }
    settle(&owned);
    Ok(())
}

fn settle(owned: &Owned) {
    if matches!(owned.what, What::Device(_)) {
        usage::refund(owned.context.device, owned.bytes as u64);
    }
}

/// Removes the memory of a context that is being destroyed. Memory in use by an operation stays mapped.
pub fn end_all_of(context: &Arc<Context>) {
    registration::end_all_of(context);
    let gone: Vec<(u64, Owned)> = match lock(&OWNED).as_mut() {
        Some(all) => all.extract_if(|_, owned| context::same(&owned.context, context)).collect(),
        None => Vec::new(),
    };
    for (start, owned) in gone {
        let idle = ranges::remove(start).is_none_or(|removed| removed.is_idle());
        settle(&owned);
        if !idle {
            owned.mapping.leak();
        }
    }
}

fn poison(mapping: &Mapping, bytes: usize) {
    let place = mapping.address() as usize as *mut u8;
    // SAFETY: the mapping is at least `bytes` long, writable, and its address is not shared yet.
    unsafe { place.write_bytes(POISON, bytes.min(POISONED_BYTES)) };
}

/// Allocates device memory, like cuMemAlloc.
///
/// # Safety
/// `address` is null or writable.
pub unsafe fn allocate(address: *mut u64, bytes: usize) -> Outcome {
    if address.is_null() || bytes == 0 {
        return Err(Code::INVALID_VALUE);
    }
    held_kernels::watch("cuMemAlloc")?;
    let context = context::current()?;
    usage::charge(context.device, bytes as u64)?;
    let made = MemoryFile::create(Purpose::Allocation, bytes).and_then(|file| {
        let mapping = Mapping::of(&file)?;
        Ok((file, mapping))
    });
    let (file, mapping) = made.inspect_err(|_| usage::refund(context.device, bytes as u64))?;
    poison(&mapping, bytes);
    let start = own(context, bytes, Kind::Allocation, What::Device(Arc::new(file)), mapping);
    // SAFETY: the caller's promise.
    unsafe { give(address, start) }
}

pub fn free(address: u64) -> Outcome {
    // The driver accepts null, without effect.
    if address == 0 {
        return Ok(());
    }
    held_kernels::watch("cuMemFree")?;
    disown(address, |what| matches!(what, What::Device(_)))
}

/// Allocates pinned host memory, like cuMemHostAlloc.
///
/// # Safety
/// `place` is null or writable.
pub unsafe fn host_allocate(place: *mut *mut c_void, bytes: usize, flags: c_uint) -> Outcome {
    // PORTABLE, DEVICEMAP, WRITECOMBINED.
    if place.is_null() || bytes == 0 || flags > 7 {
        return Err(Code::INVALID_VALUE);
    }
    held_kernels::watch("cuMemHostAlloc")?;
    let context = context::current()?;
    let mapping = Mapping::of(&MemoryFile::create(Purpose::Pinned, bytes)?)?;
    poison(&mapping, bytes);
    let start = own(context, bytes.next_multiple_of(PAGE), Kind::Pinned, What::Pinned, mapping);
    // SAFETY: the caller's promise.
    unsafe { give(place, start as usize as *mut c_void) }
}

pub fn host_free(place: *mut c_void) -> Outcome {
    held_kernels::watch("cuMemFreeHost")?;
    disown(place as usize as u64, |what| matches!(what, What::Pinned))
}

/// Returns the device address of pinned host memory.
///
/// # Safety
/// `address` is null or writable.
pub unsafe fn host_device_pointer(address: *mut u64, place: *mut c_void, flags: c_uint) -> Outcome {
    let at = place as usize as u64;
    let known = ranges::around(at).is_some_and(|(_, kind)| !kind.is_device());
    if flags != 0 || !known {
        return Err(Code::INVALID_VALUE);
    }
    // SAFETY: the caller's promise. Both addresses are the same, by CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM.
    unsafe { give(address, at) }
}

/// Returns free and total device memory.
///
/// # Safety
/// `free` and `total` are null or writable.
pub unsafe fn info(free: *mut usize, total: *mut usize) -> Outcome {
    let device = context::current()?.device;
    let all = configured()?.memory;
    let used = usage::of(device);
    // SAFETY: the caller's promise.
    unsafe {
        give(free, (all - used) as usize)?;
        give(total, all as usize)
    }
}

/// Returns the allocation that contains an address.
///
/// # Safety
/// `base` and `bytes` are each null or writable.
pub unsafe fn address_range(base: *mut u64, bytes: *mut usize, address: u64) -> Outcome {
    let (start, kind) = ranges::around(address).ok_or(Code::NOT_FOUND)?;
    let length = match kind {
        Kind::Virtual => vmm::mapped_bytes(start),
        _ => with(start, |owned| owned.bytes),
    };
    let length = length.ok_or(Code::NOT_FOUND)?;
    // SAFETY: the caller's promise.
    unsafe {
        if !base.is_null() {
            give(base, start)?;
        }
        if !bytes.is_null() {
            give(bytes, length)?;
        }
    }
    Ok(())
}
