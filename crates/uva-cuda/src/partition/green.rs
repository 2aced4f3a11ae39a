//! Green contexts: dedicated multiprocessors for the streams of a role, within one process.

use std::sync::Arc;

use cudarc::driver::sys::{CUdevResource, CUdevResourceType, CUgreenCtxCreate_flags, CUstream_flags};

use super::shares::ShareSteps;
use crate::devices::context::Context;
use crate::error::CudaError;
use crate::event::CudaEvent;
use crate::stream::CudaStream;

/// Dedicated multiprocessors for the work of some streams, within this process: a green context.
///
/// No other partition of the same split has them. Streams outside any partition may still use them. Under MPS with a
/// percentage, a partition's work may spread over more.
#[derive(Debug)]
pub struct GreenPartition {
    /// The green context. Destroyed when its last stream, its last event and this value are gone.
    context: Arc<Context>,
    asked: u32,
    multiprocessors: u32,
}

/// Disjoint partitions, and the multiprocessors that none of them has.
#[derive(Debug)]
pub struct GreenSplit {
    /// One partition for each requested number, in the same order.
    pub partitions: Vec<GreenPartition>,
    /// The remaining multiprocessors.
    pub rest: Option<RestOfSplit>,
}

/// Multiprocessors that a split left over. The driver guarantees less for them than for the groups, so a partition of
/// them is only created on request.
pub struct RestOfSplit(CUdevResource);

impl std::fmt::Debug for RestOfSplit {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("RestOfSplit").field(&self.multiprocessors()).finish()
    }
}

impl RestOfSplit {
    /// How many there are.
    pub fn multiprocessors(&self) -> u32 {
        multiprocessors_of(&self.0)
    }

    /// Creates a partition of the rest. `context` is the one that was split.
    ///
    /// # Errors
    /// [`CudaError::Call`].
    pub fn partition(mut self, context: &Arc<Context>) -> Result<GreenPartition, CudaError> {
        let count = self.multiprocessors();
        GreenPartition::of_groups(context, count, std::slice::from_mut(&mut self.0))
    }
}

impl GreenPartition {
    /// Reserves at least `wanted` multiprocessors of the device. The device rounds up: compute capability 9.0 gives at
    /// least 8, in multiples of 8.
    ///
    /// # Errors
    /// As [`GreenPartition::split`].
    pub fn new(context: &Arc<Context>, wanted: u32) -> Result<Self, CudaError> {
        let mut partitions = Self::split(context, &[wanted])?.partitions;
        partitions.pop().ok_or_else(|| CudaError::System("a split without a partition".to_owned()))
    }

    /// Reserves disjoint multiprocessors of the device for several roles, at least `wanted` for each. The driver splits
    /// once, into equal groups, and a role gets one or more of them: two splits would overlap, and a group cannot be
    /// split again.
    ///
    /// # Errors
    /// [`CudaError::Refused`] if a number is 0, or all together exceed the device's count; [`CudaError::Unsupported`]
    /// if the device does not support such groups; [`CudaError::Call`].
    pub fn split(context: &Arc<Context>, wanted: &[u32]) -> Result<GreenSplit, CudaError> {
        context.bind()?;
        let device = context.device();
        let mut all = empty();
        // SAFETY: writes one resource.
        unsafe {
            driver_call!(
                cuDeviceGetDevResource(device.handle(), &mut all, CUdevResourceType::CU_DEV_RESOURCE_TYPE_SM),
                "querying the multiprocessors of device {}",
                device.ordinal()
            )
        }?;
        let there_are = multiprocessors_of(&all);
        let sum = wanted.iter().fold(0_u32, |sum, wanted| sum.saturating_add(*wanted));
        let numbers = || wanted.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ");
        if wanted.contains(&0) || sum > there_are {
            return Err(CudaError::Refused(format!(
                "a partition of {} multiprocessors is not possible: device {} ({}) has {there_are}",
                numbers(),
                device.ordinal(),
                device.name()
            )));
        }
        let (size, counts) = steps_of(&all).groups(wanted);
        let needed: u32 = counts.iter().sum();
        let (mut groups, mut made, mut rest) = (vec![empty(); needed as usize], needed, empty());
        // SAFETY: space for the groups that are requested, and counted, and for the rest.
        unsafe {
            driver_call!(
                cuDevSmResourceSplitByCount(groups.as_mut_ptr(), &mut made, &all, &mut rest, 0, size),
                "reserving {} of {there_are} multiprocessors",
                numbers()
            )
        }?;
        if made < needed {
            return Err(CudaError::Unsupported(format!(
                "device {} ({}) makes {made} groups of {size} or more of its {there_are} multiprocessors, and {needed} are \
                 needed for partitions of {}",
                device.ordinal(),
                device.name(),
                numbers()
            )));
        }
        let mut groups = &mut groups[..];
        let mut partitions = Vec::with_capacity(wanted.len());
        for (wanted, count) in wanted.iter().zip(counts) {
            let (own, others) = groups.split_at_mut(count as usize);
            partitions.push(Self::of_groups(context, *wanted, own)?);
            groups = others;
        }
        let rest = (multiprocessors_of(&rest) > 0).then_some(RestOfSplit(rest));
        Ok(GreenSplit { partitions, rest })
    }

    /// A partition of these groups of one split.
    fn of_groups(
        context: &Arc<Context>,
        asked: u32,
        groups: &mut [CUdevResource],
    ) -> Result<Self, CudaError> {
        let multiprocessors = groups.iter().map(multiprocessors_of).sum();
        let mut description = std::ptr::null_mut();
        // SAFETY: the resources are passed and counted, results of one split.
        unsafe {
            driver_call!(
                cuDevResourceGenerateDesc(&mut description, groups.as_mut_ptr(), groups.len() as u32),
                "describing a partition of {multiprocessors} multiprocessors"
            )
        }?;
        let mut green = std::ptr::null_mut();
        // SAFETY: writes one handle; the flag is mandatory.
        unsafe {
            driver_call!(
                cuGreenCtxCreate(
                    &mut green,
                    description,
                    context.device().handle(),
                    CUgreenCtxCreate_flags::CU_GREEN_CTX_DEFAULT_STREAM as u32
                ),
                "making a green context of {multiprocessors} multiprocessors"
            )
        }?;
        // SAFETY: just made on this device, and destroyed by us only.
        let context = unsafe { Context::of_green(context, green) }?;
        Ok(Self { context, asked, multiprocessors })
    }

    /// A stream whose work runs on the partition's multiprocessors. The stream keeps the partition alive.
    ///
    /// # Errors
    /// [`CudaError::Call`].
    pub fn stream(&self) -> Result<CudaStream, CudaError> {
        let Some(green) = self.context.green() else {
            return Err(CudaError::System("a partition without a green context".to_owned()));
        };
        self.context.primary_of().bind()?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: writes one handle; the green context lives, the flag must be given, priority 0 is the default.
        unsafe {
            driver_call!(
                cuGreenCtxStreamCreate(&mut raw, green, CUstream_flags::CU_STREAM_NON_BLOCKING as u32, 0),
                "making a stream in a green context"
            )
        }?;
        // SAFETY: just made in it, and destroyed by us only.
        Ok(unsafe { CudaStream::of_green(&self.context, raw) })
    }

    /// Tests the events of a pipeline: a stream outside waits for an event of a stream inside, and vice versa. Some
    /// drivers are reported to reject events across green contexts; detected here, the caller can use an alternative.
    ///
    /// # Errors
    /// [`CudaError::Call`]; [`CudaError::System`] when an event is not reached with its stream.
    pub fn check_events(&self) -> Result<(), CudaError> {
        let (inside, outside) = (self.stream()?, CudaStream::new(self.context.primary_of())?);
        let (before, behind) = (CudaEvent::local(inside.made_in())?, CudaEvent::local(outside.made_in())?);
        before.record(&inside)?;
        outside.wait(&before)?;
        behind.record(&outside)?;
        inside.wait(&behind)?;
        inside.synchronize()?;
        if before.query()? && behind.query()? {
            return Ok(());
        }
        Err(CudaError::System("an event of a green context is not reached although its stream is".to_owned()))
    }

    /// The green context, in which events are made for its streams.
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// The number of multiprocessors requested.
    pub fn asked(&self) -> u32 {
        self.asked
    }

    /// The number of multiprocessors it has.
    pub fn multiprocessors(&self) -> u32 {
        self.multiprocessors
    }
}

fn empty() -> CUdevResource {
    // SAFETY: a C struct of integers and bytes (and each of its types has a value 0): all zero is "no resource".
    unsafe { std::mem::zeroed() }
}

/// The number of multiprocessors in a resource of that type.
fn multiprocessors_of(resource: &CUdevResource) -> u32 {
    // SAFETY: the resource is of the type SM (queried or split from one), for which `sm` is the valid field. It's three
    // integers, and any bits are values of these.
    unsafe { resource.__bindgen_anon_1.sm.smCount }
}

/// The steps in which the driver splits a device's multiprocessors.
fn steps_of(all: &CUdevResource) -> ShareSteps {
    // SAFETY: as above.
    let sm = unsafe { all.__bindgen_anon_1.sm };
    ShareSteps { least: sm.minSmPartitionSize.max(1), step: sm.smCoscheduledAlignment.max(1) }
}
