//! Green contexts: the arithmetic of multiprocessors and the handles. Nothing runs on fewer multiprocessors, since
//! there are none.

use std::ffi::{c_int, c_uint, c_void};
use std::sync::Arc;

use crate::codes::{Code, Outcome};
use crate::context;
use crate::device::{configured, multiprocessors, ordinal};
use crate::lifetime;
use crate::registry::{Registry, give, number, pointer};
use crate::settings::Feature;
use crate::stream;
use crate::types::{DevResource, RESOURCE_SM, SmResource};

/// In a resource's internal part: it came from this library.
const MARK: [u8; 8] = *b"CUSIMRES";

struct Description {
    device: usize,
    multiprocessors: u32,
}

struct GreenContext {
    device: usize,
    /// The primary context's handle; retained once for as long as this lives.
    primary: u64,
    multiprocessors: u32,
}

static DESCRIPTIONS: Registry<Description> = Registry::new();
static GREEN: Registry<GreenContext> = Registry::new();

/// The smallest part and the step, by compute capability, as documented for the split by count.
fn steps() -> Result<(u32, u32), Code> {
    Ok(match configured()?.capability.0 {
        ..=6 => (1, 1),
        7 => (2, 2),
        8 => (4, 2),
        _ => (8, 8),
    })
}

fn resource(device: usize, count: u32) -> Result<DevResource, Code> {
    let (smallest, step) = steps()?;
    let mut internal_padding = [0; 92];
    internal_padding[..8].copy_from_slice(&MARK);
    internal_padding[8] = device as u8;
    let sm = SmResource { sm_count: count, min_sm_partition_size: smallest, sm_coscheduled_alignment: step };
    Ok(DevResource { kind: RESOURCE_SM, internal_padding, sm, oversize: [0; 36] })
}

/// # Safety
/// `place` is null or readable.
unsafe fn read(place: *const DevResource) -> Result<(usize, u32), Code> {
    if place.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    // SAFETY: not null, and readable by the caller's promise.
    let resource = unsafe { place.read_unaligned() };
    if resource.kind != RESOURCE_SM || resource.internal_padding[..8] != MARK {
        return Err(Code::INVALID_RESOURCE_TYPE);
    }
    Ok((resource.internal_padding[8].into(), resource.sm.sm_count))
}

/// # Safety
/// `place` is null or writable.
pub unsafe fn device_resource(device: c_int, place: *mut DevResource, kind: c_uint) -> Outcome {
    configured()?.need(Feature::Green)?;
    let ordinal = ordinal(device)?;
    if kind != RESOURCE_SM {
        return Err(Code::INVALID_RESOURCE_TYPE);
    }
    // SAFETY: the caller's promise.
    unsafe { give(place, resource(ordinal, multiprocessors()?)?) }
}

/// # Safety
/// `result` is null or writable for `*groups` entries, `groups` writable, `input` readable, `remaining` null or
/// writable.
pub unsafe fn split(
    result: *mut DevResource,
    groups: *mut c_uint,
    input: *const DevResource,
    remaining: *mut DevResource,
    flags: c_uint,
    least: c_uint,
) -> Outcome {
    configured()?.need(Feature::Green)?;
    // SAFETY: the caller's promise.
    let (device, count) = unsafe { read(input) }?;
    if groups.is_null() || flags > 3 {
        return Err(Code::INVALID_VALUE);
    }
    let (smallest, step) = if flags & 1 != 0 { (2, 2) } else { steps()? };
    let size = least.max(smallest).checked_next_multiple_of(step).ok_or(Code::INVALID_VALUE)?;
    let possible = count / size;
    if possible == 0 {
        return Err(Code::INVALID_RESOURCE_CONFIGURATION);
    }
    if result.is_null() {
        // Only the question how many there can be.
        // SAFETY: the caller's promise.
        return unsafe { give(groups, possible) };
    }
    // SAFETY: not null, and the caller's promise.
    let made = unsafe { groups.read() }.min(possible);
    for index in 0..made {
        // SAFETY: the result has room for as many as `groups` said, and `made` is no more.
        unsafe { result.add(index as usize).write_unaligned(resource(device, size)?) };
    }
    // SAFETY: the caller's promise.
    unsafe {
        if !remaining.is_null() {
            give(remaining, resource(device, count - made * size)?)?;
        }
        give(groups, made)
    }
}

/// # Safety
/// `description` is null or writable; `resources` is null or readable for `count` entries.
pub unsafe fn describe(description: *mut *mut c_void, resources: *mut DevResource, count: c_uint) -> Outcome {
    configured()?.need(Feature::Green)?;
    if description.is_null() || resources.is_null() || count == 0 {
        return Err(Code::INVALID_VALUE);
    }
    let mut all: Option<Description> = None;
    for index in 0..count as usize {
        // SAFETY: readable for `count` entries by the caller's promise.
        let (device, multiprocessors) = unsafe { read(resources.add(index)) }?;
        if multiprocessors == 0 || all.as_ref().is_some_and(|all| all.device != device) {
            return Err(Code::INVALID_RESOURCE_CONFIGURATION);
        }
        let before = all.map_or(0, |all| all.multiprocessors);
        all = Some(Description { device, multiprocessors: before + multiprocessors });
    }
    let made = DESCRIPTIONS.insert(Arc::new(all.ok_or(Code::INVALID_VALUE)?));
    // SAFETY: the caller's promise.
    unsafe { give(description, pointer(made)) }
}

/// # Safety
/// `green` is null or writable.
pub unsafe fn create(
    green: *mut *mut c_void,
    description: *mut c_void,
    device: c_int,
    flags: c_uint,
) -> Outcome {
    configured()?.need(Feature::Green)?;
    let ordinal = ordinal(device)?;
    let description = DESCRIPTIONS.get(number(description)).map_err(|_| Code::INVALID_VALUE)?;
    // CU_GREEN_CTX_DEFAULT_STREAM has to be given.
    if green.is_null() || flags != 1 || description.device != ordinal {
        return Err(Code::INVALID_VALUE);
    }
    let primary = context::retain_primary(ordinal);
    let made = GREEN.insert(Arc::new(GreenContext {
        device: ordinal,
        primary,
        multiprocessors: description.multiprocessors,
    }));
    // SAFETY: the caller's promise.
    unsafe { give(green, pointer(made)) }
}

/// # Safety
/// `stream` is null or writable.
pub unsafe fn create_stream(
    stream: *mut *mut c_void,
    green: *mut c_void,
    flags: c_uint,
    _priority: c_int,
) -> Outcome {
    let green = GREEN.get(number(green))?;
    // CU_STREAM_NON_BLOCKING has to be given.
    if stream.is_null() || flags != 1 {
        return Err(Code::INVALID_VALUE);
    }
    let made = stream::create_in(&context::by_handle(green.primary)?)?;
    // SAFETY: the caller's promise.
    unsafe { give(stream, pointer(made)) }
}

/// # Safety
/// `place` is null or writable.
pub unsafe fn context_resource(green: *mut c_void, place: *mut DevResource, kind: c_uint) -> Outcome {
    let green = GREEN.get(number(green))?;
    if kind != RESOURCE_SM {
        return Err(Code::INVALID_RESOURCE_TYPE);
    }
    // SAFETY: the caller's promise.
    unsafe { give(place, resource(green.device, green.multiprocessors)?) }
}

pub fn destroy(green: *mut c_void) -> Outcome {
    let green = GREEN.remove(number(green))?;
    lifetime::release_primary(green.device)
}
