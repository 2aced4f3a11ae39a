//! cuMemHostRegister: memory of the caller, registered with the device.

use std::collections::HashMap;
use std::ffi::{c_uint, c_void};
use std::sync::{Arc, Mutex};

use crate::device_memory::held_kernels;
use crate::device_memory::memory_file::PAGE;
use crate::device_memory::ranges::{self, Kind};
use crate::machine::codes::{Code, Outcome};
use crate::machine::context::{self, Context};
use crate::machine::device::configured;
use crate::machine::registry::lock;
use crate::machine::settings::Feature;

const READ_ONLY: c_uint = 8;

struct Registration {
    context: Arc<Context>,
    bytes: u64,
}

static REGISTERED: Mutex<Option<HashMap<u64, Registration>>> = Mutex::new(None);

/// Whether all of a range is mapped in this process and readable, and whether all of it is writable; `None` if a part
/// is not mapped.
fn protection(start: u64, end: u64) -> Option<(bool, bool)> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let (mut at, mut readable, mut writable) = (start, true, true);
    for line in maps.lines() {
        let (range, rest) = line.split_once(' ')?;
        let (first, last) = range.split_once('-')?;
        let (first, last) = (u64::from_str_radix(first, 16).ok()?, u64::from_str_radix(last, 16).ok()?);
        if last <= at {
            continue;
        }
        if first > at {
            return None;
        }
        readable &= rest.starts_with('r');
        writable &= rest.as_bytes().get(1) == Some(&b'w');
        at = last;
        if at >= end {
            return Some((readable, writable));
        }
    }
    None
}

pub fn register(place: *mut c_void, bytes: usize, flags: c_uint) -> Outcome {
    let settings = configured()?;
    held_kernels::watch("cuMemHostRegister")?;
    settings.need(Feature::HostRegister)?;
    let start = place as usize as u64;
    // PORTABLE, DEVICEMAP and READ_ONLY; IOMEMORY is for other devices' memory.
    if start == 0 || bytes == 0 || flags & !11 != 0 || !start.is_multiple_of(PAGE as u64) {
        return Err(Code::INVALID_VALUE);
    }
    let read_only = flags & READ_ONLY != 0;
    if read_only {
        settings.need(Feature::ReadOnlyRegister)?;
    }
    // Whole pages are pinned.
    let length = (bytes as u64).checked_next_multiple_of(PAGE as u64).ok_or(Code::INVALID_VALUE)?;
    let end = start.checked_add(length).ok_or(Code::INVALID_VALUE)?;
    if ranges::overlaps(start, length) {
        return Err(Code::HOST_MEMORY_ALREADY_REGISTERED);
    }
    match protection(start, end) {
        Some((true, true)) => {}
        Some((true, false)) if read_only => {}
        _ => return Err(Code::INVALID_VALUE),
    }
    let context = context::current()?;
    if !ranges::insert(start, length, Kind::Registered, true, !read_only) {
        return Err(Code::HOST_MEMORY_ALREADY_REGISTERED);
    }
    lock(&REGISTERED).get_or_insert_default().insert(start, Registration { context, bytes: length });
    Ok(())
}

pub fn unregister(place: *mut c_void) -> Outcome {
    held_kernels::watch("cuMemHostUnregister")?;
    let start = place as usize as u64;
    lock(&REGISTERED).as_mut().and_then(|all| all.remove(&start)).ok_or(Code::HOST_MEMORY_NOT_REGISTERED)?;
    if let Some(removed) = ranges::remove(start) {
        removed.wait();
    }
    Ok(())
}

/// Removes registrations of pages that the caller has unmapped without deregistering: the kernel has just reused their
/// addresses.
pub fn forget_overlapping(start: u64, bytes: u64) {
    let end = start.saturating_add(bytes);
    if let Some(all) = lock(&REGISTERED).as_mut() {
        all.retain(|&first, registration| {
            let stays = first >= end || first + registration.bytes <= start;
            if !stays {
                ranges::remove(first);
            }
            stays
        });
    }
}

/// Removes the registrations of a context that is being destroyed.
pub fn end_all_of(context: &Arc<Context>) {
    if let Some(all) = lock(&REGISTERED).as_mut() {
        all.retain(|&first, registration| {
            let stays = !context::same(&registration.context, context);
            if !stays {
                ranges::remove(first);
            }
            stays
        });
    }
}
