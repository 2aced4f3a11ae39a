//! A mini-batch in host memory or on a device.

use crate::device_input::{DeviceBatch, DeviceProof};
use crate::hop_batch::{DeviceHopBatch, HopBatch};
use crate::input::BatchInput;

/// A mini-batch, by where it lies.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Batch<'a> {
    /// In host memory. A trainer on a device copies it over.
    Host(BatchInput<'a>),
    /// In the memory of the trainer's device. A trainer on the host refuses it.
    Device(DeviceBatch<'a>),
    /// Of a hop set, in host memory. A trainer on a device copies it over.
    Hops(HopBatch<'a>),
    /// Of a hop set, in the memory of the trainer's device. A trainer on the host refuses it.
    DeviceHops(DeviceHopBatch<'a>),
}

impl<'a> Batch<'a> {
    /// Seeds, and how many of them are padding.
    pub(crate) fn seeds(&self) -> (usize, usize) {
        match self {
            Self::Host(input) => (input.seeds(), input.padding),
            Self::Device(input) => (input.seeds(), input.padding),
            Self::Hops(input) => (input.seeds, input.padding),
            Self::DeviceHops(input) => (input.seeds, input.padding),
        }
    }

    /// What shows on the device that it was whole.
    pub(crate) fn proof(&self) -> Option<DeviceProof<'a>> {
        match self {
            Self::Host(_) | Self::Hops(_) => None,
            Self::Device(input) => input.proof,
            Self::DeviceHops(input) => input.proof,
        }
    }

    /// Whether it is of a hop set, and not of sampled blocks.
    pub(crate) fn is_of_hops(&self) -> bool {
        matches!(self, Self::Hops(_) | Self::DeviceHops(_))
    }
}

impl<'a> From<&DeviceBatch<'a>> for Batch<'a> {
    fn from(input: &DeviceBatch<'a>) -> Self {
        Self::Device(*input)
    }
}

impl<'a> From<&BatchInput<'a>> for Batch<'a> {
    fn from(input: &BatchInput<'a>) -> Self {
        Self::Host(*input)
    }
}

impl<'a> From<&HopBatch<'a>> for Batch<'a> {
    fn from(input: &HopBatch<'a>) -> Self {
        Self::Hops(*input)
    }
}

impl<'a> From<&DeviceHopBatch<'a>> for Batch<'a> {
    fn from(input: &DeviceHopBatch<'a>) -> Self {
        Self::DeviceHops(*input)
    }
}
