//! A mini-batch in host memory or on a device.

use crate::device_input::DeviceBatch;
use crate::input::BatchInput;

/// A mini-batch, by where it lies.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Batch<'a> {
    /// In host memory. A trainer on a device copies it over.
    Host(BatchInput<'a>),
    /// In the memory of the trainer's device. A trainer on the host refuses it.
    Device(DeviceBatch<'a>),
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
