//! Where to gather, sample and train, as requested.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use uva_cuda::kernels::gather::Kernel;
use uva_cuda::memory::{IpcKind, PreflightPolicy};

/// Where the model trains, as requested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DeviceChoice {
    /// The first GPU where one can be used, else the CPU.
    #[default]
    Auto,
    /// The CPU.
    Cpu,
    /// The GPU with this index.
    Cuda(u32),
}

/// How feature rows reach the GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GatherChoice {
    /// Kernels read them directly from pinned host memory.
    #[default]
    ZeroCopy,
    /// The CPU gathers them into pinned memory, and the copy engine moves them.
    Dma,
    /// Part of a batch's rows take each way, in the ratio that measures best.
    Split,
    /// The CPU gathers them into a slot in host memory, and the consumer copies.
    Cpu,
    /// The whole table is copied to the GPU first: for a table that fits, and to learn what the link costs.
    Device,
}

impl GatherChoice {
    /// Its name, as `--gather` takes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::ZeroCopy => "zero-copy",
            Self::Dma => "dma",
            Self::Split => "split",
            Self::Cpu => "cpu",
            Self::Device => "device",
        }
    }
}

/// Where neighbours are sampled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SamplerChoice {
    /// On the CPU, by as many samplers as there are.
    #[default]
    Cpu,
    /// On the GPU, by exactly one.
    Gpu,
    /// Where a few timed batches are faster.
    Auto,
}

impl SamplerChoice {
    /// Its name, as `--sampler` takes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Gpu => "gpu",
            Self::Auto => "auto",
        }
    }
}

/// Whether MPS limits producer and consumer to shares of the GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MpsChoice {
    /// No.
    Off,
    /// Where it is available.
    #[default]
    Auto,
    /// The run fails without it.
    Require,
}

/// How the GPU is divided between producer and consumer, as requested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PartitionChoice {
    /// The first available of MPS, a green context, and a bounded grid.
    #[default]
    Auto,
    /// Two processes under MPS.
    Mps,
    /// One process; the producer's work is limited to the multiprocessors of a green context.
    Green,
    /// One process; the producer's kernels launch few thread blocks.
    Grid,
    /// Two processes that take turns on the GPU: for measuring only.
    None,
}

/// The requested backend.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BackendOptions {
    /// Where the model trains.
    pub device: DeviceChoice,
    /// How feature rows reach it.
    pub gather: GatherChoice,
    /// Which gather kernel.
    pub kernel: Kernel,
    /// Where neighbours are sampled.
    pub sampler: SamplerChoice,
    /// A GPU sampler's share of the multiprocessors in per cent; `None`: the producer's.
    pub mps_sampler_percentage: Option<u32>,
    /// MPS or not.
    pub mps: MpsChoice,
    /// The producer's share of the multiprocessors in per cent; `None`: what the link needs.
    pub mps_percentage: Option<u32>,
    /// How the GPU is divided.
    pub partition: PartitionChoice,
    /// How its memory is shared between processes.
    pub ipc: IpcKind,
    /// The NVRTC library, or its folder.
    pub nvrtc: Option<PathBuf>,
    /// What to do where memory seems too short to pin.
    pub preflight: PreflightPolicy,
}

impl Default for BackendOptions {
    fn default() -> Self {
        Self {
            device: DeviceChoice::default(),
            gather: GatherChoice::default(),
            kernel: Kernel::Wide,
            sampler: SamplerChoice::default(),
            mps_sampler_percentage: None,
            mps: MpsChoice::default(),
            mps_percentage: None,
            partition: PartitionChoice::default(),
            ipc: IpcKind::default(),
            nvrtc: None,
            preflight: PreflightPolicy::default(),
        }
    }
}
