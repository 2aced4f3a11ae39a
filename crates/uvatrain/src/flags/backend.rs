//! The options that say where features are gathered and batches used.

use std::path::PathBuf;
use std::str::FromStr;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use uva_runtime::backend::{
    BackendOptions, DeviceChoice, GatherChoice, IpcKind, Kernel, MpsChoice, PartitionChoice, PreflightPolicy,
    SamplerChoice,
};

use super::within::within;
use crate::exit;

const GPU: &str = "GPU";

/// Where features are gathered and batches used.
#[derive(Args, Clone, Debug, serde::Serialize)]
pub struct BackendFlags {
    /// Where the model trains: auto, cpu, or cuda:I for GPU number I
    #[arg(long, value_name = "DEVICE", default_value = "auto", help_heading = GPU)]
    pub device: Device,

    /// How feature rows get onto the GPU
    #[arg(long, value_enum, default_value_t = Gather::ZeroCopy, help_heading = GPU)]
    pub gather: Gather,

    /// Which kernel reads them (zero-copy and split)
    #[arg(long, value_parser = gather_kernel(), default_value_t = Kernel::Wide, help_heading = GPU)]
    pub kernel: Kernel,

    /// Where neighbours are sampled: on the CPU, by one sampler on the GPU, or where a few batches show it to be faster
    /// [default: cpu; with --gpu-cache on a GPU auto]
    #[arg(long, value_enum, help_heading = GPU)]
    pub sampler: Option<Sampler>,

    /// How the GPU is divided between producer and consumer; auto takes the first that can be had of mps, green, grid
    #[arg(long, value_enum, default_value_t = Partition::Auto, help_heading = GPU)]
    pub partition: Partition,

    /// Whether NVIDIA's multi-process service divides the GPU; a daemon is started where none runs, and stopped again
    #[arg(long, value_enum, default_value_t = Mps::Auto, help_heading = GPU)]
    pub mps: Mps,

    /// The producer's share of the multiprocessors in per cent: auto, or 1 to 99
    #[arg(long, value_name = "auto|N", default_value = "auto", help_heading = GPU)]
    pub mps_percentage: Share,

    /// A GPU sampler's share of the multiprocessors in per cent [default: the producer's]
    #[arg(long, value_name = "N", value_parser = within::<u32>(1..=98), help_heading = GPU)]
    pub mps_sampler_percentage: Option<u32>,

    /// How the processes share GPU memory
    #[arg(long, value_enum, default_value_t = Ipc::Auto, help_heading = GPU)]
    pub ipc: Ipc,

    /// NVRTC, which compiles the kernels: the library or its folder [default: looked for beside PyTorch, in CUDA_HOME,
    /// and where scripts/setup/nvrtc.sh puts it]
    #[arg(long, value_name = "PATH", help_heading = GPU)]
    pub nvrtc: Option<PathBuf>,

    /// Where memory seems too short for the tables that are pinned: warn and try, refuse, or do not look
    #[arg(long, value_enum, default_value_t = Preflight::Warn, help_heading = GPU)]
    pub preflight: Preflight,
}

impl BackendFlags {
    /// The same, as the runtime takes it.
    pub fn options(&self) -> BackendOptions {
        BackendOptions {
            device: match self.device {
                Device::Auto => DeviceChoice::Auto,
                Device::Cpu => DeviceChoice::Cpu,
                Device::Cuda(index) => DeviceChoice::Cuda(index),
            },
            gather: match self.gather {
                Gather::ZeroCopy => GatherChoice::ZeroCopy,
                Gather::Dma => GatherChoice::Dma,
                Gather::Split => GatherChoice::Split,
                Gather::Cpu => GatherChoice::Cpu,
                Gather::Device => GatherChoice::Device,
            },
            kernel: self.kernel,
            sampler: match self.sampler {
                None | Some(Sampler::Cpu) => SamplerChoice::Cpu,
                Some(Sampler::Gpu) => SamplerChoice::Gpu,
                Some(Sampler::Auto) => SamplerChoice::Auto,
            },
            mps_sampler_percentage: self.mps_sampler_percentage,
            mps: match self.mps {
                Mps::Off => MpsChoice::Off,
                Mps::Auto => MpsChoice::Auto,
                Mps::Require => MpsChoice::Require,
            },
            mps_percentage: match self.mps_percentage {
                Share::Auto => None,
                Share::Percent(share) => Some(share),
            },
            partition: match self.partition {
                Partition::Auto => PartitionChoice::Auto,
                Partition::Mps => PartitionChoice::Mps,
                Partition::Green => PartitionChoice::Green,
                Partition::Grid => PartitionChoice::Grid,
                Partition::None => PartitionChoice::None,
            },
            ipc: match self.ipc {
                Ipc::Auto => IpcKind::Auto,
                Ipc::Vmm => IpcKind::Vmm,
                Ipc::Legacy => IpcKind::Legacy,
            },
            nvrtc: self.nvrtc.clone(),
            preflight: self.preflight.policy(),
        }
    }

    /// What clap cannot see: options that contradict each other.
    ///
    /// # Errors
    /// Bad usage; the message names the options.
    pub fn check(&self) -> anyhow::Result<()> {
        let contradiction = |message: String| Err(exit::usage(message).into());
        if self.mps == Mps::Require && !matches!(self.partition, Partition::Auto | Partition::Mps) {
            return contradiction(format!(
                "--mps require and --partition {}: MPS divides the GPU, or that does",
                self.partition.name()
            ));
        }
        if self.mps == Mps::Off && self.partition == Partition::Mps {
            return contradiction("--mps off and --partition mps contradict each other".into());
        }
        if self.gather == Gather::Cpu && (self.mps == Mps::Require || self.partition == Partition::Mps) {
            return contradiction(
                "--gather cpu: only the consumer uses the GPU then, and MPS has nothing to divide".into(),
            );
        }
        if self.device == Device::Cpu && self.mps == Mps::Require {
            return contradiction("--mps require: with --device cpu there is no GPU to divide".into());
        }
        Ok(())
    }
}

/// Where the model trains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Device {
    /// The best that this build and machine have.
    Auto,
    /// The CPU.
    Cpu,
    /// The GPU with this index.
    Cuda(u32),
}

impl FromStr for Device {
    type Err = String;

    fn from_str(text: &str) -> Result<Device, String> {
        match text {
            "auto" => Ok(Device::Auto),
            "cpu" => Ok(Device::Cpu),
            _ => {
                text.strip_prefix("cuda:").and_then(|index| index.parse().ok()).map(Device::Cuda).ok_or_else(
                    || format!("'{text}' is no device; give auto, cpu, or cuda:0 for the first GPU"),
                )
            }
        }
    }
}

/// How feature rows get onto the GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Gather {
    /// Kernels read them out of pinned host memory
    ZeroCopy,
    /// The CPU gathers them into pinned memory and the copy engine moves them
    Dma,
    /// Some of a batch's rows the one way, some the other, in the ratio that measures best
    Split,
    /// The CPU gathers them into host memory, and the consumer copies them
    Cpu,
    /// The whole table is copied to the GPU first: for one that fits, and to know what the link costs
    Device,
}

/// The gather kernels as values of an option, each with its help.
fn gather_kernel() -> impl TypedValueParser<Value = Kernel> {
    let values = Kernel::ALL.map(|kernel| PossibleValue::new(kernel.name()).help(kernel.help()));
    PossibleValuesParser::new(values).try_map(|name| name.parse::<Kernel>())
}

/// Where neighbours are sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Sampler {
    /// On the CPU, by as many samplers as --samplers says
    Cpu,
    /// On the GPU, by one sampler
    Gpu,
    /// Where a few batches show it to be faster
    Auto,
}

/// How the GPU is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Partition {
    /// The first that can be had of mps, green and grid
    Auto,
    /// MPS caps both processes
    Mps,
    /// One process; the producer's work keeps to the multiprocessors of a green context
    Green,
    /// One process; the producer's kernels have few blocks
    Grid,
    /// Two processes that take turns: for measuring only
    None,
}

impl Partition {
    fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Mps => "mps",
            Self::Green => "green",
            Self::Grid => "grid",
            Self::None => "none",
        }
    }
}

/// Whether MPS divides the GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mps {
    /// It does not
    Off,
    /// Where it can be had
    Auto,
    /// Or there is no run
    Require,
}

/// How the processes share GPU memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Ipc {
    /// vmm where the driver has it, else legacy
    Auto,
    /// Allocations exported as file descriptors
    Vmm,
    /// cuIpcGetMemHandle
    Legacy,
}

/// What is done where memory seems too short.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Preflight {
    /// Say so and try all the same, unless it is certain to fail
    Warn,
    /// End with what is short
    Refuse,
    /// Do not look
    Off,
}

impl Preflight {
    /// The same, as the runtime takes it.
    pub fn policy(self) -> PreflightPolicy {
        match self {
            Self::Warn => PreflightPolicy::Warn,
            Self::Refuse => PreflightPolicy::Refuse,
            Self::Off => PreflightPolicy::Off,
        }
    }
}

/// A share of the multiprocessors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Share {
    /// What the link to the host needs.
    Auto,
    /// So many per cent.
    Percent(u32),
}

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Share, String> {
        match text.parse() {
            _ if text == "auto" => Ok(Share::Auto),
            Ok(percent @ 1..=99) => Ok(Share::Percent(percent)),
            _ => Err(format!("'{text}' is no share; give auto, or 1 to 99 per cent")),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::exit::{Code, code_of};

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        backend: BackendFlags,
    }

    fn flags(args: &str) -> BackendFlags {
        let words = std::iter::once("x").chain(args.split_whitespace());
        Line::try_parse_from(words).unwrap_or_else(|error| panic!("{error}")).backend
    }

    #[test]
    fn devices_are_auto_cpu_or_a_numbered_gpu() {
        assert_eq!("cuda:3".parse(), Ok(Device::Cuda(3)));
        assert!("cuda".parse::<Device>().unwrap_err().contains("cuda:0"));
        assert!("gpu".parse::<Device>().is_err());
    }

    #[test]
    fn shares_are_auto_or_a_part_of_a_hundred_that_leaves_some() {
        assert_eq!("auto".parse(), Ok(Share::Auto));
        assert_eq!("10".parse(), Ok(Share::Percent(10)));
        for text in ["0", "100", "-1", "10%", ""] {
            assert!(text.parse::<Share>().is_err(), "{text} was taken");
        }
    }

    #[test]
    fn options_that_contradict_each_other_are_bad_usage() {
        for args in [
            "--mps require --partition green",
            "--mps require --partition none",
            "--mps off --partition mps",
            "--mps require --device cpu",
            "--mps require --gather cpu",
        ] {
            let problem = flags(args).check().unwrap_err();
            assert_eq!(code_of(&problem), Code::BadInput, "{args}");
        }
        flags("--mps require --partition mps --device cuda:0").check().unwrap();
        flags("").check().unwrap();
    }

    #[test]
    fn what_was_given_reaches_the_runtime_as_it_is() {
        let options = flags(
            "--device cuda:2 --gather split --kernel shift --mps require --mps-percentage 12 --partition mps \
             --ipc legacy --nvrtc lib --sampler gpu --mps-sampler-percentage 7 --preflight refuse",
        )
        .options();
        let expected = BackendOptions {
            device: DeviceChoice::Cuda(2),
            gather: GatherChoice::Split,
            kernel: Kernel::Shift,
            sampler: SamplerChoice::Gpu,
            mps_sampler_percentage: Some(7),
            mps: MpsChoice::Require,
            mps_percentage: Some(12),
            partition: PartitionChoice::Mps,
            ipc: IpcKind::Legacy,
            nvrtc: Some("lib".into()),
            preflight: PreflightPolicy::Refuse,
        };
        assert_eq!(options, expected);
    }
}
