//! Virtual memory management: physical memory, address ranges, and mappings.
//!
//! Physical memory is counted while a handle or a mapping of the process that made it lives. Its pages live as long as
//! any process has a descriptor or a mapping of them.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_uint, c_ulonglong, c_void};
use std::os::fd::{AsFd, BorrowedFd, IntoRawFd};
use std::sync::{Arc, Mutex};

use rustix::mm::MprotectFlags;

use crate::device_memory::memory_file::{Mapping, MemoryFile, Purpose, map_at, unmap_at};
use crate::device_memory::ranges::{self, Kind};
use crate::device_memory::{registration, usage};
use crate::machine::codes::{Code, Outcome};
use crate::machine::device::{configured, ordinal};
use crate::machine::registry::{Registry, give, lock};
use crate::machine::settings::Feature;
use crate::machine::types::{
    ALLOCATION_PINNED, HANDLE_POSIX_FD, LOCATION_DEVICE, MemAccessDesc, MemAllocationProp,
};

/// The granularity of all sizes, that of an H100.
const GRANULARITY: usize = 2 << 20;

/// Physical memory.
struct Physical {
    file: MemoryFile,
    /// The device whose usage it counts for, if created here.
    charged: Option<usize>,
    exportable: bool,
}

impl Drop for Physical {
    fn drop(&mut self) {
        if let Some(device) = self.charged {
            usage::refund(device, self.file.bytes as u64);
        }
    }
}

/// A reserved range of addresses.
struct Reservation {
    bytes: usize,
    /// The mappings in it, by first address.
    mapped: BTreeMap<u64, (usize, Arc<Physical>)>,
    mapping: Mapping,
}

static PHYSICAL: Registry<Physical> = Registry::new();

static RESERVED: Mutex<BTreeMap<u64, Reservation>> = Mutex::new(BTreeMap::new());

fn whole(bytes: usize) -> bool {
    bytes > 0 && bytes.is_multiple_of(GRANULARITY)
}

/// Reads and checks allocation properties.
///
/// # Safety
/// `property` is null or readable.
unsafe fn checked(property: *const MemAllocationProp) -> Result<MemAllocationProp, Code> {
    configured()?.need(Feature::Vmm)?;
    if property.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    // SAFETY: not null, and readable by the caller's promise.
    let property = unsafe { property.read_unaligned() };
    let handles = property.requested_handle_types;
    if property.kind != ALLOCATION_PINNED || property.location.kind != LOCATION_DEVICE {
        return Err(Code::INVALID_VALUE);
    }
    if handles & !HANDLE_POSIX_FD != 0 {
        return Err(Code::NOT_SUPPORTED);
    }
    ordinal(property.location.id)?;
    Ok(property)
}

/// Returns the granularity of allocations.
///
/// # Safety
/// `granularity` is null or writable, `property` null or readable.
pub unsafe fn granularity(
    granularity: *mut usize,
    property: *const MemAllocationProp,
    option: c_uint,
) -> Outcome {
    // SAFETY: the caller's promise.
    unsafe { checked(property) }?;
    // CU_MEM_ALLOC_GRANULARITY_MINIMUM or RECOMMENDED.
    if option > 1 {
        return Err(Code::INVALID_VALUE);
    }
    // SAFETY: the caller's promise.
    unsafe { give(granularity, GRANULARITY) }
}

/// Creates physical memory.
///
/// # Safety
/// As [`granularity`].
pub unsafe fn create(
    handle: *mut c_ulonglong,
    bytes: usize,
    property: *const MemAllocationProp,
    flags: c_ulonglong,
) -> Outcome {
    // SAFETY: the caller's promise.
    let property = unsafe { checked(property) }?;
    if handle.is_null() || flags != 0 || !whole(bytes) {
        return Err(Code::INVALID_VALUE);
    }
    let device = ordinal(property.location.id)?;
    usage::charge(device, bytes as u64)?;
    let file =
        MemoryFile::create(Purpose::Physical, bytes).inspect_err(|_| usage::refund(device, bytes as u64))?;
    let exportable = property.requested_handle_types & HANDLE_POSIX_FD != 0;
    let made = PHYSICAL.insert(Arc::new(Physical { file, charged: Some(device), exportable }));
    // SAFETY: the caller's promise.
    unsafe { give(handle, made) }
}

pub fn release(handle: c_ulonglong) -> Outcome {
    PHYSICAL.remove(handle).map(|_| ()).map_err(|_| Code::INVALID_VALUE)
}

/// Reserves a range of addresses.
///
/// # Safety
/// `address` is null or writable.
pub unsafe fn reserve(
    address: *mut u64,
    bytes: usize,
    alignment: usize,
    _wished: u64,
    flags: c_ulonglong,
) -> Outcome {
    configured()?.need(Feature::Vmm)?;
    let aligned = alignment == 0 || alignment.is_power_of_two();
    if address.is_null() || flags != 0 || !aligned || !whole(bytes) {
        return Err(Code::INVALID_VALUE);
    }
    let mapping = Mapping::reserve(bytes, alignment.max(GRANULARITY))?;
    let start = mapping.address();
    lock(&RESERVED).insert(start, Reservation { bytes, mapped: BTreeMap::new(), mapping });
    // SAFETY: the caller's promise.
    unsafe { give(address, start) }
}

pub fn free_addresses(start: u64, bytes: usize) -> Outcome {
    let mut reserved = lock(&RESERVED);
    // Only a whole reservation without mappings can be freed.
    reserved.get(&start).filter(|r| r.bytes == bytes && r.mapped.is_empty()).ok_or(Code::INVALID_VALUE)?;
    drop(reserved.remove(&start).map(|reservation| reservation.mapping));
    Ok(())
}

/// The reservation that contains a whole range.
fn holding(
    reserved: &mut BTreeMap<u64, Reservation>,
    start: u64,
    bytes: usize,
) -> Result<&mut Reservation, Code> {
    let end = start.checked_add(bytes as u64).ok_or(Code::INVALID_VALUE)?;
    let (first, reservation) = reserved.range_mut(..=start).next_back().ok_or(Code::INVALID_VALUE)?;
    if end > first + reservation.bytes as u64 {
        return Err(Code::INVALID_VALUE);
    }
    Ok(reservation)
}

pub fn map(start: u64, bytes: usize, offset: usize, handle: c_ulonglong, flags: c_ulonglong) -> Outcome {
    let physical = PHYSICAL.get(handle).map_err(|_| Code::INVALID_VALUE)?;
    // The offset "currently must be zero"; memory is mapped from its start.
    if flags != 0
        || offset != 0
        || !whole(bytes)
        || bytes > physical.file.bytes
        || !start.is_multiple_of(GRANULARITY as u64)
    {
        return Err(Code::INVALID_VALUE);
    }
    let mut reserved = lock(&RESERVED);
    let reservation = holding(&mut reserved, start, bytes)?;
    // Not accessible before cuMemSetAccess.
    if !ranges::insert(start, bytes as u64, Kind::Virtual, false, false) {
        if reservation
            .mapped
            .range(..start + bytes as u64)
            .next_back()
            .is_some_and(|(at, (n, _))| at + *n as u64 > start)
        {
            return Err(Code::INVALID_VALUE);
        }
        registration::forget_overlapping(start, bytes as u64);
        ranges::insert(start, bytes as u64, Kind::Virtual, false, false);
    }
    // SAFETY: the range is in the reservation, and was not mapped.
    unsafe { map_at(start, bytes, &physical.file, rustix::mm::ProtFlags::empty()) }.inspect_err(|_| {
        ranges::remove(start);
    })?;
    reservation.mapped.insert(start, (bytes, physical));
    Ok(())
}

/// The mappings that make up a range exactly.
fn parts(reservation: &Reservation, start: u64, bytes: usize) -> Result<Vec<(u64, usize)>, Code> {
    let end = start + bytes as u64;
    let parts: Vec<(u64, usize)> =
        reservation.mapped.range(start..end).map(|(at, (n, _))| (*at, *n)).collect();
    let covered = parts.iter().map(|(_, n)| n).sum::<usize>();
    let joined = parts.first().is_some_and(|(first, _)| *first == start) && covered == bytes;
    if joined { Ok(parts) } else { Err(Code::INVALID_VALUE) }
}

pub fn unmap(start: u64, bytes: usize) -> Outcome {
    let mut taken = Vec::new();
    {
        let mut reserved = lock(&RESERVED);
        let reservation = holding(&mut reserved, start, bytes)?;
        for (at, n) in parts(reservation, start, bytes)? {
            if let Some((_, physical)) = reservation.mapped.remove(&at) {
                taken.push((at, n, ranges::remove(at), physical));
            }
        }
    }
    for (at, n, removed, physical) in taken {
        if let Some(removed) = removed {
            removed.wait();
        }
        // SAFETY: the range was a mapping in a reservation, it has left the table, and no operation uses it.
        unsafe { unmap_at(at, n) };
        drop(physical);
    }
    Ok(())
}

/// Sets the access rights of a mapped range.
///
/// # Safety
/// `descriptions` is null or readable for `count` entries.
pub unsafe fn set_access(
    start: u64,
    bytes: usize,
    descriptions: *const MemAccessDesc,
    count: usize,
) -> Outcome {
    if descriptions.is_null() || count == 0 {
        return Err(Code::INVALID_VALUE);
    }
    let mut strongest = 0;
    for index in 0..count {
        // SAFETY: readable for `count` entries by the caller's promise.
        let description = unsafe { descriptions.add(index).read_unaligned() };
        if description.location.kind != LOCATION_DEVICE {
            return Err(Code::NOT_SUPPORTED);
        }
        ordinal(description.location.id)?;
        // PROT_NONE, PROT_READ, PROT_READWRITE.
        if !matches!(description.flags, 0 | 1 | 3) {
            return Err(Code::INVALID_VALUE);
        }
        strongest |= description.flags;
    }
    let (readable, writable) = (strongest & 1 != 0, strongest & 2 != 0);
    let mut flags = MprotectFlags::empty();
    if readable {
        flags |= MprotectFlags::READ;
    }
    if writable {
        flags |= MprotectFlags::WRITE;
    }
    let mut reserved = lock(&RESERVED);
    let reservation = holding(&mut reserved, start, bytes)?;
    for (at, n) in parts(reservation, start, bytes)? {
        // SAFETY: the range is a mapping of this library; a read after its access was removed is a bug of the reader.
        unsafe { rustix::mm::mprotect(at as usize as *mut c_void, n, flags) }
            .map_err(|_| Code::OUT_OF_MEMORY)?;
        ranges::protect(at, readable, writable);
    }
    Ok(())
}

/// Bytes of the mapping that begins at `start`.
pub fn mapped_bytes(start: u64) -> Option<usize> {
    let mut reserved = lock(&RESERVED);
    holding(&mut reserved, start, 1).ok()?.mapped.get(&start).map(|(bytes, _)| *bytes)
}

/// Exports physical memory as a descriptor.
///
/// # Safety
/// `place` is null or writable for an `int`.
pub unsafe fn export(place: *mut c_void, handle: c_ulonglong, kind: c_uint, flags: c_ulonglong) -> Outcome {
    configured()?.need(Feature::Vmm)?;
    let physical = PHYSICAL.get(handle).map_err(|_| Code::INVALID_VALUE)?;
    if place.is_null() || flags != 0 || kind != HANDLE_POSIX_FD || !physical.exportable {
        return Err(Code::INVALID_VALUE);
    }
    let fd =
        rustix::io::fcntl_dupfd_cloexec(physical.file.fd.as_fd(), 0).map_err(|_| Code::OPERATING_SYSTEM)?;
    // SAFETY: the caller's promise. The descriptor is the caller's from here on.
    unsafe { give(place.cast::<c_int>(), fd.into_raw_fd()) }
}

/// Imports physical memory from a descriptor.
///
/// # Safety
/// `handle` is null or writable; `descriptor` is a descriptor as a number, like in the driver.
pub unsafe fn import(handle: *mut c_ulonglong, descriptor: *mut c_void, kind: c_uint) -> Outcome {
    configured()?.need(Feature::Vmm)?;
    let number = c_int::try_from(descriptor as usize).map_err(|_| Code::INVALID_VALUE)?;
    if handle.is_null() || kind != HANDLE_POSIX_FD || number < 0 {
        return Err(Code::INVALID_VALUE);
    }
    // SAFETY: the caller owns that descriptor and keeps it open during the call; it is duplicated immediately.
    let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
    let fd = rustix::io::fcntl_dupfd_cloexec(borrowed, 0).map_err(|_| Code::INVALID_VALUE)?;
    let file = MemoryFile::from_fd(Purpose::Physical, fd).ok_or(Code::INVALID_VALUE)?;
    let made = PHYSICAL.insert(Arc::new(Physical { file, charged: None, exportable: true }));
    // SAFETY: the caller's promise.
    unsafe { give(handle, made) }
}
