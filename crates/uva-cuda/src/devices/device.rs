//! A device: its identity and its features. Queries do not create a context.

use std::ffi::{CStr, c_char, c_int};

use cudarc::driver::sys::{self, CUdevice_attribute};

use crate::devices::driver::Driver;
use crate::error::CudaError;

/// A feature that a device and its driver may support.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Feature {
    /// Memory made by cuMemCreate and exported as a POSIX file descriptor.
    SharedByFd,
    /// Memory made by cuMemAlloc and exported by cuIpcGetMemHandle. There is no attribute for it; the attribute used
    /// means that host and device share one address space, which the call requires.
    SharedByHandle,
    /// Events that processes share.
    InterprocessEvents,
    /// Streams that write a value of 64 bits to memory and wait for one.
    StreamMemoryOperations,
    /// cuMemHostRegister.
    HostRegister,
    /// cuMemHostRegister of memory that is mapped read-only.
    ReadOnlyHostRegister,
    /// Memory made by cuMemCreate that other devices write to, as GPUDirect Storage does.
    DirectAccess,
    /// Green contexts: work limited to some of the multiprocessors within one process. There is no attribute for it, so
    /// the driver is asked whether the multiprocessors can be split as a resource.
    GreenContexts,
}

impl Feature {
    /// Every feature.
    pub const ALL: [Self; 8] = [
        Self::SharedByFd,
        Self::SharedByHandle,
        Self::InterprocessEvents,
        Self::StreamMemoryOperations,
        Self::HostRegister,
        Self::ReadOnlyHostRegister,
        Self::DirectAccess,
        Self::GreenContexts,
    ];

    /// The attributes that must all be other than 0.
    fn attributes(self) -> &'static [CUdevice_attribute] {
        use CUdevice_attribute::*;
        match self {
            Self::SharedByFd => &[
                CU_DEVICE_ATTRIBUTE_VIRTUAL_ADDRESS_MANAGEMENT_SUPPORTED,
                CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
            ],
            Self::SharedByHandle => &[CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING],
            Self::InterprocessEvents => &[CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED],
            Self::StreamMemoryOperations => &[CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS],
            Self::HostRegister => &[CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED],
            Self::ReadOnlyHostRegister => &[CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED],
            Self::DirectAccess => &[CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED],
            Self::GreenContexts => &[],
        }
    }
}

/// A device visible to this process. A small value with constant properties only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    ordinal: usize,
    handle: sys::CUdevice,
    name: String,
    capability: (u32, u32),
    multiprocessors: u32,
    total_memory: u64,
    pci_bus_id: String,
    uuid: String,
    mps_enabled: bool,
}

impl Driver {
    /// Every device that this process sees, in the driver's order.
    ///
    /// # Errors
    /// [`CudaError::Call`].
    pub fn devices(&self) -> Result<Vec<Device>, CudaError> {
        (0..self.device_count()).map(|ordinal| Device::new(ordinal as usize)).collect()
    }
}

impl Device {
    /// The device with this ordinal among those visible to this process.
    ///
    /// # Errors
    /// [`CudaError::Unavailable`] without a driver; [`CudaError::Refused`] if there is not such a device;
    /// [`CudaError::Call`].
    pub fn new(ordinal: usize) -> Result<Self, CudaError> {
        let driver = Driver::load()?;
        let number = c_int::try_from(ordinal)
            .ok()
            .filter(|_| ordinal < driver.device_count() as usize)
            .ok_or_else(|| {
                CudaError::Refused(format!(
                    "there is no CUDA device {ordinal}: this process sees {}, counted from 0",
                    driver.device_count()
                ))
            })?;
        let mut handle = 0;
        // SAFETY: writes one CUdevice; the ordinal is below the driver's count.
        unsafe { driver_call!(cuDeviceGet(&mut handle, number), "opening device {ordinal}") }?;
        let asked = |attribute| attribute_of(handle, ordinal, attribute);
        use CUdevice_attribute::*;
        let mut bytes = 0;
        // SAFETY: writes one size.
        unsafe {
            driver_call!(cuDeviceTotalMem_v2(&mut bytes, handle), "asking the memory of device {ordinal}")
        }?;
        let mut uuid = sys::CUuuid { bytes: [0; 16] };
        // SAFETY: writes 16 bytes.
        unsafe {
            driver_call!(cuDeviceGetUuid_v2(&mut uuid, handle), "asking the UUID of device {ordinal}")
        }?;
        Ok(Self {
            ordinal,
            handle,
            name: text(|buffer, length| {
                // SAFETY: `text` passes a buffer and its length; the driver writes at most that, zero included.
                unsafe {
                    driver_call!(
                        cuDeviceGetName(buffer, length, handle),
                        "asking the name of device {ordinal}"
                    )
                }
            })?,
            capability: (
                asked(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
                asked(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
            ),
            multiprocessors: asked(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
            total_memory: bytes as u64,
            pci_bus_id: text(|buffer, length| {
                // SAFETY: as above.
                unsafe {
                    driver_call!(
                        cuDeviceGetPCIBusId(buffer, length, handle),
                        "asking the PCI address of device {ordinal}"
                    )
                }
            })?,
            uuid: uuid_text(uuid.bytes.map(|byte| byte as u8)),
            mps_enabled: asked(CU_DEVICE_ATTRIBUTE_MPS_ENABLED)? != 0,
        })
    }

    /// Its number among the devices that this process sees.
    pub fn ordinal(&self) -> usize {
        self.ordinal
    }

    /// NVIDIA's product name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its compute capability, major and minor.
    pub fn capability(&self) -> (u32, u32) {
        self.capability
    }

    /// Multiprocessors that this process may use: with MPS, those of its share.
    pub fn multiprocessors(&self) -> u32 {
        self.multiprocessors
    }

    /// Bytes of its memory.
    pub fn total_memory(&self) -> u64 {
        self.total_memory
    }

    /// Its PCI address, `0000:17:00.0`.
    pub fn pci_bus_id(&self) -> &str {
        &self.pci_bus_id
    }

    /// Its UUID, `GPU-6a2b…`, as in nvidia-smi, MPS and CUDA_VISIBLE_DEVICES.
    pub fn uuid(&self) -> &str {
        &self.uuid
    }

    /// Whether this process is a client of an MPS server for this device. CUDA silently continues without MPS if it
    /// cannot reach the daemon, so code that requires MPS checks here.
    pub fn mps_enabled(&self) -> bool {
        self.mps_enabled
    }

    /// Whether its kernels can read the memory of the device with this [UUID](Self::uuid): its own, or another's over
    /// NVLink or PCIe. `None` if this process sees no such device.
    ///
    /// # Errors
    /// [`CudaError::Call`].
    pub fn can_read_memory_of(&self, uuid: &str) -> Result<Option<bool>, CudaError> {
        if uuid == self.uuid {
            return Ok(Some(true));
        }
        let Some(peer) = Driver::load()?.devices()?.into_iter().find(|device| device.uuid == uuid) else {
            return Ok(None);
        };
        let mut can = 0;
        // SAFETY: writes one int; both handles are from cuDeviceGet.
        unsafe {
            driver_call!(
                cuDeviceCanAccessPeer(&mut can, self.handle, peer.handle),
                "asking whether device {} can read the memory of device {}",
                self.ordinal,
                peer.ordinal
            )
        }?;
        Ok(Some(can != 0))
    }

    /// Whether it supports this feature.
    ///
    /// # Errors
    /// [`CudaError::Call`].
    pub fn supports(&self, feature: Feature) -> Result<bool, CudaError> {
        for attribute in feature.attributes() {
            if self.attribute(*attribute)? == 0 {
                return Ok(false);
            }
        }
        if feature == Feature::GreenContexts {
            return Ok(self.multiprocessors_can_be_split());
        }
        Ok(true)
    }

    fn multiprocessors_can_be_split(&self) -> bool {
        let mut resource = std::mem::MaybeUninit::<sys::CUdevResource>::zeroed();
        // SAFETY: writes one resource; the handle is from cuDeviceGet.
        unsafe {
            driver_call!(
                cuDeviceGetDevResource(
                    self.handle,
                    resource.as_mut_ptr(),
                    sys::CUdevResourceType::CU_DEV_RESOURCE_TYPE_SM
                ),
                "asking whether the multiprocessors of device {} can be split",
                self.ordinal
            )
        }
        .is_ok()
    }

    /// One attribute.
    ///
    /// # Errors
    /// [`CudaError::Call`].
    pub(crate) fn attribute(&self, attribute: CUdevice_attribute) -> Result<u32, CudaError> {
        attribute_of(self.handle, self.ordinal, attribute)
    }

    /// The driver's handle.
    pub(crate) fn handle(&self) -> sys::CUdevice {
        self.handle
    }
}

fn attribute_of(
    handle: sys::CUdevice,
    ordinal: usize,
    attribute: CUdevice_attribute,
) -> Result<u32, CudaError> {
    let mut value = 0;
    // SAFETY: writes one int; the handle is from cuDeviceGet.
    unsafe {
        driver_call!(
            cuDeviceGetAttribute(&mut value, attribute, handle),
            "asking {attribute:?} of device {ordinal}"
        )
    }?;
    // All attributes queried here are counts and flags, never negative.
    Ok(u32::try_from(value).unwrap_or(0))
}

/// A text that the driver writes into a buffer.
fn text(ask: impl FnOnce(*mut c_char, c_int) -> Result<(), CudaError>) -> Result<String, CudaError> {
    let mut buffer = [0u8; 256];
    ask(buffer.as_mut_ptr().cast(), buffer.len() as c_int)?;
    Ok(match CStr::from_bytes_until_nul(&buffer) {
        Ok(text) => text.to_string_lossy().trim().to_owned(),
        Err(_) => String::from_utf8_lossy(&buffer).into_owned(),
    })
}

/// 16 bytes as 8-4-4-4-12 hex digits.
fn uuid_text(bytes: [u8; 16]) -> String {
    let hex = |range: std::ops::Range<usize>| {
        bytes[range].iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    format!("GPU-{}-{}-{}-{}-{}", hex(0..4), hex(4..6), hex(6..8), hex(8..10), hex(10..16))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_reads_as_nvidia_smi_writes_it() {
        let bytes = std::array::from_fn(|index| 0xf0u8.wrapping_add(index as u8));
        assert_eq!(uuid_text(bytes), "GPU-f0f1f2f3-f4f5-f6f7-f8f9-fafbfcfdfeff");
    }
}
