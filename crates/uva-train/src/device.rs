//! Where a trainer computes.

use tch::Device;

/// Where parameters, moments and activations lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TrainDevice {
    /// The host.
    #[default]
    Cpu,
    /// The host in place of a CUDA device, for tests. Dropout draws other numbers than on [`TrainDevice::Cpu`], as it
    /// does on a device; all else is equal.
    StandIn,
    /// The CUDA device of this number, counted as libtorch and the driver do: among the visible ones, from 0.
    Cuda(usize),
}

impl TrainDevice {
    /// libtorch's name for it.
    pub(crate) fn torch(self) -> Device {
        match self {
            Self::Cpu | Self::StandIn => Device::Cpu,
            Self::Cuda(ordinal) => Device::Cuda(ordinal),
        }
    }
}

impl std::fmt::Display for TrainDevice {
    /// As on the command line: `cpu`, `cuda:0`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Cpu | Self::StandIn => f.write_str("cpu"),
            Self::Cuda(ordinal) => write!(f, "cuda:{ordinal}"),
        }
    }
}
