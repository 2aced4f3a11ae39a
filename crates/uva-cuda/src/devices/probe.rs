//! Reports the CUDA installation of this machine, and never fails: for `doctor`, for the first lines of a run, for
//! `auto` options.

use serde::{Deserialize, Serialize};

use crate::devices::device::{Device, Feature};
use crate::devices::driver::Driver;
use crate::error::CudaError;

/// The result of a probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeReport {
    /// The CUDA version that the driver serves, `13.0`; absent without a usable driver.
    pub driver: Option<String>,
    /// Whether the driver is the simulator of the tests.
    pub simulator: bool,
    /// The devices that this process sees; empty if `unavailable` gives a reason.
    pub devices: Vec<DeviceReport>,
    /// Why CUDA is unavailable.
    pub unavailable: Option<String>,
}

/// A device in a [`ProbeReport`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceReport {
    /// Its number among those that this process sees.
    pub ordinal: usize,
    /// NVIDIA's product name.
    pub name: String,
    /// Compute capability, major and minor.
    pub capability: (u32, u32),
    /// Multiprocessors that this process may use; under MPS, those of its share.
    pub multiprocessors: u32,
    /// Bytes of its memory.
    pub total_memory: u64,
    /// Its PCI address.
    pub pci_bus_id: String,
    /// Its UUID, `GPU-…`.
    pub uuid: String,
    /// Whether this process is a client of an MPS server for it.
    pub mps_enabled: bool,
    /// Its features.
    pub supports: Supports,
}

/// The features of a device: see [`Feature`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "each is the feature of that name")]
pub struct Supports {
    pub shared_by_fd: bool,
    pub shared_by_handle: bool,
    pub interprocess_events: bool,
    pub host_register: bool,
    pub read_only_host_register: bool,
    pub green_contexts: bool,
}

impl ProbeReport {
    /// Whether there is a usable device.
    pub fn available(&self) -> bool {
        self.unavailable.is_none()
    }
}

/// Probes the CUDA installation. Loads and initialises the driver if there is one, so a process that only launches
/// others must not call it. Does not create a context. Never fails: the report names missing components.
pub fn probe() -> ProbeReport {
    let mut report = ProbeReport { driver: None, simulator: false, devices: Vec::new(), unavailable: None };
    let driver = match Driver::load() {
        Ok(driver) => driver,
        Err(reason) => {
            report.unavailable = Some(reason.to_string());
            return report;
        }
    };
    let (major, minor) = driver.version();
    report.driver = Some(format!("{major}.{minor}"));
    report.simulator = driver.device_memory_is_host_memory();
    match driver.devices().and_then(|devices| devices.iter().map(describe).collect()) {
        Ok(devices) => report.devices = devices,
        Err(error) => report.unavailable = Some(error.to_string()),
    }
    report
}

fn describe(device: &Device) -> Result<DeviceReport, CudaError> {
    Ok(DeviceReport {
        ordinal: device.ordinal(),
        name: device.name().to_owned(),
        capability: device.capability(),
        multiprocessors: device.multiprocessors(),
        total_memory: device.total_memory(),
        pci_bus_id: device.pci_bus_id().to_owned(),
        uuid: device.uuid().to_owned(),
        mps_enabled: device.mps_enabled(),
        supports: Supports {
            shared_by_fd: device.supports(Feature::SharedByFd)?,
            shared_by_handle: device.supports(Feature::SharedByHandle)?,
            interprocess_events: device.supports(Feature::InterprocessEvents)?,
            host_register: device.supports(Feature::HostRegister)?,
            read_only_host_register: device.supports(Feature::ReadOnlyHostRegister)?,
            green_contexts: device.supports(Feature::GreenContexts)?,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All steps on a machine without a driver, where most tests run.
    #[test]
    fn without_a_driver_everything_says_so_and_nothing_panics() {
        let Err(reason) = Driver::load() else { return };
        assert!(!reason.to_string().is_empty());
        assert_eq!(crate::Context::primary(0).unwrap_err(), CudaError::Unavailable(reason.clone()));
        assert_eq!(Device::new(0).unwrap_err().kind(), crate::ErrorKind::Missing);
        let report = probe();
        assert!(!report.available());
        assert_eq!(report.unavailable, Some(reason.to_string()));
        assert!(report.devices.is_empty());
        // SAFETY: never read.
        let slice = unsafe { crate::DeviceSlice::from_raw(4096, 10, 0) };
        // SAFETY: nothing writes there.
        assert_eq!(unsafe { slice.as_host() }, None);
    }
}
