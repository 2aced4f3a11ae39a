//! Where to gather, sample and train, as requested.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use uva_cuda::kernels::gather::Kernel;
use uva_cuda::memory::{IpcKind, PinPages, PreflightPolicy};
use uva_options::OptionPurpose::Speed;
use uva_options::{Field, OptionError, OptionValue, named, options};

const GPU: &str = "GPU";

options! {
    /// The requested backend. Each option is declared here and nowhere else ([`uva_options`]).
    pub struct BackendOptions {
        /// Device of training: auto, cpu, or cuda:I for GPU number I
        device: DeviceChoice = DeviceChoice::Auto
            => Field::text::<DeviceChoice>("DEVICE", "`auto`, `cpu`, `cuda:I`").of(GPU, &[Speed])
                .brief("auto, cpu, or cuda:I"),
        /// Method of copying feature rows to the GPU; auto takes the fastest of zero-copy, dma and split, as measured at the
        /// first start on this GPU
        gather: GatherChoice = GatherChoice::Auto => Field::choice::<GatherChoice>("GATHER").of(GPU, &[Speed]),
        /// Kernel that gathers rows, with zero-copy and split
        kernel: Kernel = Kernel::Wide => Field::choice::<Kernel>("KERNEL").of(GPU, &[Speed]),
        /// Device of sampling: the CPU, one sampler on the GPU, or the faster one on a few batches (auto)
        sampler: SamplerChoice = SamplerChoice::Cpu
            => Field::choice::<SamplerChoice>("SAMPLER").of(GPU, &[Speed])
                .unless_given("cpu; with `gpu_cache` on a GPU auto"),
        /// How the GPU is divided between producer and consumer; auto takes the first available of mps, green, grid
        partition: PartitionChoice = PartitionChoice::Auto
            => Field::choice::<PartitionChoice>("PARTITION").of(GPU, &[Speed]),
        /// Whether NVIDIA's multi-process service (MPS) divides the GPU. If no daemon is running, one is started, and stopped
        /// at the end
        mps: MpsChoice = MpsChoice::Auto => Field::choice::<MpsChoice>("MPS").of(GPU, &[Speed]),
        /// The producer's share of the multiprocessors in per cent, 1 to 99; auto takes the smallest share at full speed, as
        /// measured at the first start on this GPU
        mps_percentage: GpuShare = GpuShare::Auto
            => Field::text::<GpuShare>("auto|N", "`auto`, 1 to 99").of(GPU, &[Speed]),
        /// A GPU sampler's share of the multiprocessors in per cent
        mps_sampler_percentage: Option<u32> = None
            => Field::within("N", 1, 98).of(GPU, &[Speed]).unless_given("the producer's"),
        /// How the processes share GPU memory
        ipc: IpcKind = IpcKind::Auto => Field::choice::<IpcKind>("IPC").of(GPU, &[Speed]),
        /// How processes signal in GPU memory that a slot is ready or free
        ipc_signals: SignalKind = SignalKind::Auto => Field::choice::<SignalKind>("SIGNALS").of(GPU, &[Speed]),
        /// Size of feature slots in GPU memory, unless `slot_bytes` is given: of sampled batches, where a larger batch goes
        /// through host memory, or of the largest batch that `batch_size` and `fanouts` allow
        gpu_slots: GpuSlots = GpuSlots::Sampled => Field::choice::<GpuSlots>("ROOM").of(GPU, &[Speed]),
        /// Pages of the feature table that kernels read over the link: those of the mapped file, or of a copy; auto copies if
        /// a measurement shows a gain
        table_pages: TablePagesChoice = TablePagesChoice::Auto
            => Field::choice::<TablePagesChoice>("PAGES").of(GPU, &[Speed]),
        /// Repeat the measurements that auto chooses by, instead of reading those stored for this GPU
        remeasure: bool = false => Field::switch().of(GPU, &[Speed]),
        /// NVRTC, which compiles the kernels: the library or its folder
        nvrtc: Option<PathBuf> = None
            => Field::path("PATH").of(GPU, &[Speed])
                .unless_given("searched for in PyTorch's folder, in CUDA_HOME, and in the folder of scripts/setup/nvrtc.sh"),
        /// Check before tables are pinned that memory suffices: warn, refuse, or skip the check
        preflight: PreflightPolicy = PreflightPolicy::Warn
            => Field::choice::<PreflightPolicy>("PREFLIGHT").of(GPU, &[Speed]),
    }
}

impl BackendOptions {
    /// Checks what can be checked without a machine.
    ///
    /// # Errors
    /// An option that contradicts another.
    pub fn check(&self) -> Result<(), OptionError> {
        let mps = |reason: String| Err(OptionError::new("mps", self.mps, reason));
        let requires = self.mps == MpsChoice::Require;
        match self.partition {
            PartitionChoice::Auto => {}
            PartitionChoice::Mps if self.mps == MpsChoice::Off => {
                return mps("not supported with `partition=mps`".to_owned());
            }
            PartitionChoice::Mps => {}
            other if requires => {
                return mps(format!("not supported with `partition={other}`: omit one of them"));
            }
            _ => {}
        }
        if self.gather == GatherChoice::Cpu && (requires || self.partition == PartitionChoice::Mps) {
            let given = if requires { "`mps=require`" } else { "`partition=mps`" };
            let reason =
                format!("not supported with {given}, since only the consumer uses the GPU: omit {given}");
            return Err(OptionError::new("gather", self.gather, reason));
        }
        if self.device == DeviceChoice::Cpu && requires {
            return mps("with `device=cpu` there is no GPU to divide".to_owned());
        }
        Ok(())
    }
}

/// The device of training, as requested.
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

impl FromStr for DeviceChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let index = || text.strip_prefix("cuda:").and_then(|index| index.parse().ok());
        match text {
            "auto" => Ok(Self::Auto),
            "cpu" => Ok(Self::Cpu),
            _ => index().map(Self::Cuda).ok_or_else(|| {
                format!("invalid device '{text}': expected auto, cpu, or cuda:0 for the first GPU")
            }),
        }
    }
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(index) => write!(f, "cuda:{index}"),
        }
    }
}

named! {
    /// How feature rows reach the GPU.
    pub enum GatherChoice = Auto {
        /// The fastest of zero-copy, dma and split, as measured on this GPU; zero-copy without a measurement, and with
        /// caches.
        Auto = "auto",
        /// Kernels read the rows from pinned host memory.
        ZeroCopy = "zero-copy",
        /// The CPU gathers the rows into pinned memory, and the copy engine moves them.
        Dma = "dma",
        /// Divides a batch's rows between zero-copy and dma, in the ratio that is measured as fastest.
        Split = "split",
        /// The CPU gathers the rows into host memory, and the consumer copies them.
        Cpu = "cpu",
        /// The whole table is copied to the GPU at the start: for tables that fit, and to measure the cost of the link.
        Device = "device",
    }
}

named! {
    /// Pages of the feature table that the GPU reads, as requested.
    pub enum TablePagesChoice = Auto {
        /// In place, unless a copy is measured as faster by more than 10 % and memory suffices.
        Auto = "auto",
        /// The pages of the mapped file: the page cache's, of 4 KiB.
        InPlace = "in-place",
        /// A copy on 4 KiB pages that the kernel merges to 2 MiB where it can.
        Thp = "thp",
        /// A copy on reserved pages of 2 MiB.
        Hugetlb = "hugetlb",
        /// A copy in memory that the driver allocates.
        HostAlloc = "hostalloc",
    }
}

impl TablePagesChoice {
    /// The pages, where they are named.
    pub fn named(self) -> Option<PinPages> {
        match self {
            Self::Auto => None,
            Self::InPlace => Some(PinPages::InPlace),
            Self::Thp => Some(PinPages::Thp),
            Self::Hugetlb => Some(PinPages::Hugetlb),
            Self::HostAlloc => Some(PinPages::HostAlloc),
        }
    }
}

named! {
    /// Where neighbours are sampled.
    pub enum SamplerChoice = Cpu {
        /// On the CPU, by `samplers` samplers.
        Cpu = "cpu",
        /// On the GPU, by one sampler.
        Gpu = "gpu",
        /// The faster one on a few batches.
        Auto = "auto",
    }
}

named! {
    /// How the GPU is divided between producer and consumer, as requested.
    pub enum PartitionChoice = Auto {
        /// The first available of mps, green and grid.
        Auto = "auto",
        /// MPS caps both processes.
        Mps = "mps",
        /// One process; the producer's work runs on the multiprocessors of a green context.
        Green = "green",
        /// One process; the producer's kernels have few blocks.
        Grid = "grid",
        /// Two processes in alternation on the GPU, undivided: for measurements only.
        None = "none",
    }
}

named! {
    /// How producer and consumer signal on the GPU that a slot is ready or free.
    pub enum SignalKind = Auto {
        /// Events if both processes can share them, else stamps.
        Auto = "auto",
        /// CUDA events, shared between processes by handle.
        Events = "events",
        /// Values in the slots' memory, which streams write and wait for.
        Stamps = "stamps",
    }
}

named! {
    /// The size of feature slots in a GPU's memory.
    pub enum GpuSlots = Sampled {
        /// The mean size of 20 batches that are sampled at the start, plus five standard deviations. A larger batch is
        /// copied through host memory.
        Sampled = "sampled",
        /// The largest batch that the options allow.
        Largest = "largest",
    }
}

named! {
    /// Whether MPS limits producer and consumer to shares of the GPU.
    pub enum MpsChoice = Auto {
        /// No MPS.
        Off = "off",
        /// MPS where it is available.
        Auto = "auto",
        /// MPS; without it, the run ends with an error.
        Require = "require",
    }
}

/// A share of the multiprocessors, as requested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GpuShare {
    /// The smallest share at full speed.
    #[default]
    Auto,
    /// A share in per cent, 1 to 99.
    Percent(u32),
}

impl FromStr for GpuShare {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            _ if text == "auto" => Ok(Self::Auto),
            Ok(percent @ 1..=99) => Ok(Self::Percent(percent)),
            _ => Err(format!("invalid share '{text}': expected auto, or 1 to 99 per cent")),
        }
    }
}

impl fmt::Display for GpuShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Percent(percent) => write!(f, "{percent}"),
        }
    }
}

macro_rules! written_values {
    ($($type:ty),*) => {$(
        impl OptionValue for $type {
            fn of_text(text: &str) -> Option<Self> {
                text.parse().ok()
            }
            fn text(&self) -> String {
                self.to_string()
            }
            fn json(&self) -> Value {
                serde_json::to_value(self).unwrap_or_default()
            }
            fn of_json(value: &Value) -> Option<Self> {
                Self::deserialize(value).ok()
            }
        }
    )*};
}
written_values!(DeviceChoice, GpuShare);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_auto_cpu_or_a_numbered_gpu() {
        assert_eq!("cuda:3".parse(), Ok(DeviceChoice::Cuda(3)));
        assert!("cuda".parse::<DeviceChoice>().unwrap_err().contains("cuda:0"));
        assert!("gpu".parse::<DeviceChoice>().is_err());
    }

    #[test]
    fn shares_are_auto_or_a_part_of_a_hundred_that_leaves_some() {
        assert_eq!("auto".parse(), Ok(GpuShare::Auto));
        assert_eq!("10".parse(), Ok(GpuShare::Percent(10)));
        for text in ["0", "100", "-1", "10%", ""] {
            assert!(text.parse::<GpuShare>().is_err(), "{text} was taken");
        }
    }
}
