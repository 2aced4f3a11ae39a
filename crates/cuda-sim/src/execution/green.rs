//! Green contexts: the division and ownership of multiprocessors, and handles. Work is not limited to them, since there
//! are no real multiprocessors.

use std::ffi::{c_int, c_uint, c_void};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::execution::lifetime;
use crate::execution::stream;
use crate::machine::codes::{Code, Outcome};
use crate::machine::context;
use crate::machine::device::{configured, multiprocessors, ordinal};
use crate::machine::registry::{Registry, give, number, pointer};
use crate::machine::settings::{Feature, Strictness};
use crate::machine::types::{DevResource, RESOURCE_SM, SmResource};

/// The mark of this library in a resource's internal part.
const MARK: [u8; 8] = *b"CUSIMRES";

struct Description {
    device: usize,
    multiprocessors: Vec<Range<u32>>,
}

struct GreenContext {
    device: usize,
    /// The primary context's handle; retained once for as long as this lives.
    primary: u64,
    /// The handle under which it can be made current.
    view: u64,
    multiprocessors: Vec<Range<u32>>,
}

/// The content of a resource's internal part.
struct Resource {
    device: usize,
    multiprocessors: Range<u32>,
    /// The number of the split that made it; 0 for a resource of the driver, the only one that may be split.
    split: u32,
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

impl Resource {
    fn write(&self) -> Result<DevResource, Code> {
        let (smallest, step) = steps()?;
        let mut internal_padding = [0; 92];
        internal_padding[..8].copy_from_slice(&MARK);
        internal_padding[8] = self.device as u8;
        internal_padding[12..16].copy_from_slice(&self.multiprocessors.start.to_ne_bytes());
        internal_padding[16..20].copy_from_slice(&self.split.to_ne_bytes());
        let sm = SmResource {
            sm_count: self.multiprocessors.end - self.multiprocessors.start,
            min_sm_partition_size: smallest,
            sm_coscheduled_alignment: step,
        };
        Ok(DevResource { kind: RESOURCE_SM, internal_padding, sm, oversize: [0; 36] })
    }
}

/// Reads a resource.
///
/// # Safety
/// `place` is null or readable.
unsafe fn read(place: *const DevResource) -> Result<Resource, Code> {
    if place.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    // SAFETY: not null, and readable by the caller's promise.
    let resource = unsafe { place.read_unaligned() };
    if resource.kind != RESOURCE_SM || resource.internal_padding[..8] != MARK {
        return Err(Code::INVALID_RESOURCE_TYPE);
    }
    let internal = &resource.internal_padding;
    let word = |at: usize| u32::from_ne_bytes([0, 1, 2, 3].map(|byte| internal[at + byte]));
    let (first, count) = (word(12), resource.sm.sm_count);
    Ok(Resource { device: internal[8].into(), multiprocessors: first..first + count, split: word(16) })
}

/// Returns the multiprocessors of a device.
///
/// # Safety
/// `place` is null or writable.
pub unsafe fn device_resource(device: c_int, place: *mut DevResource, kind: c_uint) -> Outcome {
    configured()?.need(Feature::Green)?;
    let ordinal = ordinal(device)?;
    if kind != RESOURCE_SM {
        return Err(Code::INVALID_RESOURCE_TYPE);
    }
    // SAFETY: the caller's promise.
    unsafe {
        give(place, Resource { device: ordinal, multiprocessors: 0..multiprocessors()?, split: 0 }.write()?)
    }
}

/// Splits multiprocessors into groups.
///
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
    let Resource { device, multiprocessors: Range { start, end }, split } = unsafe { read(input) }?;
    if groups.is_null() || flags > 3 {
        return Err(Code::INVALID_VALUE);
    }
    // "The output results cannot be split again."
    if split != 0 {
        return Err(Code::INVALID_RESOURCE_CONFIGURATION);
    }
    let (smallest, step) = if flags & 1 != 0 { (2, 2) } else { steps()? };
    let size = least.max(smallest).checked_next_multiple_of(step).ok_or(Code::INVALID_VALUE)?;
    let possible = (end - start) / size;
    if possible == 0 {
        return Err(Code::INVALID_RESOURCE_CONFIGURATION);
    }
    if result.is_null() {
        // A query of the possible number of groups. SAFETY: the caller's promise.
        return unsafe { give(groups, possible) };
    }
    // SAFETY: not null, and the caller's promise.
    let made = unsafe { groups.read() }.min(possible);
    static SPLITS: AtomicU32 = AtomicU32::new(1);
    let split = SPLITS.fetch_add(1, Ordering::Relaxed);
    for index in 0..made {
        let first = start + index * size;
        let group = Resource { device, multiprocessors: first..first + size, split };
        // SAFETY: the result has space for as many as `groups` specified, and `made` is at most that.
        unsafe { result.add(index as usize).write_unaligned(group.write()?) };
    }
    // SAFETY: the caller's promise.
    unsafe {
        if !remaining.is_null() {
            give(remaining, Resource { device, multiprocessors: start + made * size..end, split }.write()?)?;
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
    let mut all: Vec<Resource> = Vec::new();
    for index in 0..count as usize {
        // SAFETY: readable for `count` entries by the caller's promise.
        let part = unsafe { read(resources.add(index)) }?;
        // Several resources must be distinct parts of one split.
        let beside = |other: &Resource| {
            other.device == part.device
                && (other.split, part.split) != (0, 0)
                && other.split == part.split
                && !overlap(&other.multiprocessors, &part.multiprocessors)
        };
        if part.multiprocessors.is_empty() || !all.iter().all(beside) {
            return Err(Code::INVALID_RESOURCE_CONFIGURATION);
        }
        all.push(part);
    }
    let device = all.first().ok_or(Code::INVALID_VALUE)?.device;
    let multiprocessors = all.into_iter().map(|part| part.multiprocessors).collect();
    let made = DESCRIPTIONS.insert(Arc::new(Description { device, multiprocessors }));
    // SAFETY: the caller's promise.
    unsafe { give(description, pointer(made)) }
}

fn overlap(one: &Range<u32>, other: &Range<u32>) -> bool {
    one.start < other.end && other.start < one.end
}

/// Checks that no green context of this process has a multiprocessor of this one. A driver allows two splits of one
/// device to overlap without an error: two roles then share multiprocessors.
///
/// # Errors
/// `CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION`.
fn disjoint(description: &Description) -> Outcome {
    let others = GREEN.all().into_iter().filter(|other| other.device == description.device);
    for theirs in others.flat_map(|other| other.multiprocessors.clone()) {
        if let Some(ours) = description.multiprocessors.iter().find(|ours| overlap(ours, &theirs)) {
            eprintln!(
                "cuda-sim: a green context of the multiprocessors {ours:?}, where another has {theirs:?}: groups that \
                 share none come from one split"
            );
            return Err(Code::INVALID_RESOURCE_CONFIGURATION);
        }
    }
    Ok(())
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
    if configured()?.is_strict(Strictness::GreenGroups) {
        disjoint(&description)?;
    }
    let primary = context::retain_primary(ordinal);
    let made = GREEN.insert(Arc::new(GreenContext {
        device: ordinal,
        primary,
        view: context::enter_view(primary),
        multiprocessors: description.multiprocessors.clone(),
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
    let made = stream::create_in(&context::by_handle(green.primary)?, green.view)?;
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
    unsafe {
        give(
            place,
            Resource { device: green.device, multiprocessors: green.multiprocessors[0].clone(), split: 0 }
                .write()?,
        )
    }
}

/// # Safety
/// `context` is null or writable.
pub unsafe fn as_context(context: *mut *mut c_void, green: *mut c_void) -> Outcome {
    let green = GREEN.get(number(green)).map_err(|_| Code::INVALID_CONTEXT)?;
    // SAFETY: the caller's promise.
    unsafe { give(context, pointer(green.view)) }
}

pub fn destroy(green: *mut c_void) -> Outcome {
    let green = GREEN.remove(number(green))?;
    context::end_view(green.view);
    lifetime::release_primary(green.device)
}
