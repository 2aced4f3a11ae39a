//! A range of device memory that may be read.

use std::marker::PhantomData;
use std::ops::Range;

use crate::devices::driver::Driver;
use crate::error::CudaError;

/// Bytes that a device can read, for as long as `'a`: device memory, or pinned host memory at its device address.
///
/// It describes an address range, not its current content. The reader orders its read after the write, on a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceSlice<'a> {
    address: u64,
    bytes: usize,
    device: i32,
    owner: PhantomData<&'a [u8]>,
}

impl<'a> DeviceSlice<'a> {
    /// The bytes at a device address.
    ///
    /// # Safety
    /// The device with that ordinal can read `address .. address + bytes` for all of `'a`.
    pub unsafe fn from_raw(address: u64, bytes: usize, device: i32) -> Self {
        Self { address, bytes, device, owner: PhantomData }
    }

    /// Its device address.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Its length in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The ordinal of the device that can read it.
    pub fn device(&self) -> i32 {
        self.device
    }

    /// A part of the slice, as a byte range.
    ///
    /// # Errors
    /// [`CudaError::Refused`] if the range is reversed or reaches beyond the end.
    pub fn sub(&self, range: Range<usize>) -> Result<Self, CudaError> {
        if range.start > range.end || range.end > self.bytes {
            return Err(CudaError::Refused(format!(
                "bytes {}..{} are not within a device slice of {} bytes",
                range.start, range.end, self.bytes
            )));
        }
        Ok(Self { address: self.address + range.start as u64, bytes: range.end - range.start, ..*self })
    }

    /// The bytes themselves, if device memory is host memory, which is only so in the simulator.
    ///
    /// # Safety
    /// The bytes are not written while the slice is used: work enqueued to write them has run, and the caller has
    /// waited for it.
    pub unsafe fn as_host(&self) -> Option<&'a [u8]> {
        if !Driver::load().is_ok_and(Driver::device_memory_is_host_memory) {
            return None;
        }
        if self.bytes == 0 {
            return Some(&[]);
        }
        // SAFETY: `from_raw` was promised that the device can read these bytes for 'a. The simulator's device addresses
        // are host addresses. The caller promises that nothing writes to them.
        Some(unsafe { std::slice::from_raw_parts(self.address as *const u8, self.bytes) })
    }
}
