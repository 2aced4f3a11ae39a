//! The device of a trainer.

use crate::TrainError;
use tch::Device;
use uva_cuda::DeviceSlice;

/// The device of parameters, moments and activations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TrainDevice {
    /// The host.
    #[default]
    Cpu,
    /// The host as a stand-in for a CUDA device, for tests under the stand-in driver, whose device memory is host
    /// memory. It works like a device: batches in device memory, blocks by tensor operations, the fused optimiser,
    /// results read late. Dropout draws other numbers than on [`TrainDevice::Cpu`], as on a device.
    StandIn,
    /// The CUDA device of this number, counted as libtorch and the driver do: among the visible ones, from 0.
    Cuda(usize),
}

impl TrainDevice {
    /// Refuses memory of another device. On the stand-in device, any device's memory is the host's.
    pub(crate) fn check_slice(self, slice: &DeviceSlice<'_>, what: &str) -> Result<(), TrainError> {
        match self {
            Self::StandIn => Ok(()),
            Self::Cuda(device) if usize::try_from(slice.device()) == Ok(device) => Ok(()),
            Self::Cpu | Self::Cuda(_) => Err(TrainError::Input(format!(
                "{what} are on device {} for a trainer on {self}",
                slice.device()
            ))),
        }
    }

    /// libtorch's name for it.
    pub(crate) fn torch(self) -> Device {
        match self {
            Self::Cpu | Self::StandIn => Device::Cpu,
            Self::Cuda(ordinal) => Device::Cuda(ordinal),
        }
    }
}

impl std::fmt::Display for TrainDevice {
    /// The name on the command line: `cpu`, `cuda:0`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Cpu | Self::StandIn => f.write_str("cpu"),
            Self::Cuda(ordinal) => write!(f, "cuda:{ordinal}"),
        }
    }
}
