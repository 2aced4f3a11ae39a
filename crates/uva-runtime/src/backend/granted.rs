//! The place of gathering, sampling and training on this machine.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use uva_batch::{Aggregation, BatchLayout};
use uva_cuda::kernels::gather::Kernel;
use uva_cuda::memory::{IpcKind, PinOptions, PinPages, PreflightPolicy};

use super::asked::{BackendOptions, GatherChoice, GpuSlots, SamplerChoice, SignalKind, TablePagesChoice};
use super::chosen::TransferChoice;
use crate::RuntimeError;
use crate::backend::obstacle::{Obstacle, check_sums};

/// The place of gathering and training. It is part of every role's plan.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Backend {
    /// All stages on the CPU, with feature slots in host memory.
    #[default]
    Cpu,
    /// A GPU trains.
    Cuda(CudaBackend),
}

/// A GPU, and the way in which rows reach it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CudaBackend {
    /// The GPU's index.
    pub ordinal: usize,
    /// The way in which feature rows reach it.
    pub gather: GatherChoice,
    /// The gather kernel.
    pub kernel: Kernel,
    /// The place of sampling. [`SamplerChoice::Auto`] only until it has been measured.
    pub sampler: SamplerChoice,
    /// The division of the GPU.
    pub partition: Partition,
    /// The way in which its memory is shared between processes.
    pub ipc: IpcKind,
    /// The signals between producer and consumer on the GPU that a slot is ready, or free.
    pub ipc_signals: SignalKind,
    /// The capacity of the feature slots on the GPU.
    pub gpu_slots: GpuSlots,
    /// The NVRTC library, or its folder.
    pub nvrtc: Option<PathBuf>,
    /// The action if memory seems too small to pin.
    pub preflight: PreflightPolicy,
    /// The pages of the feature table.
    pub table_pages: PinPages,
    /// Whether other pages are acceptable if these are not available.
    pub other_pages: bool,
    /// The initial share of the rows that kernels read, if the rows are split.
    pub split_share: Option<f64>,
}

impl CudaBackend {
    /// The GPU with this index, with the requested options and the decisions.
    pub(super) fn of(
        options: &BackendOptions,
        chosen: &TransferChoice,
        ordinal: usize,
        sampler: SamplerChoice,
        partition: Partition,
    ) -> Self {
        Self {
            ordinal,
            gather: chosen.gather,
            kernel: options.kernel,
            sampler,
            partition,
            ipc: options.ipc,
            ipc_signals: options.ipc_signals,
            gpu_slots: options.gpu_slots,
            nvrtc: options.nvrtc.clone(),
            preflight: options.preflight,
            table_pages: chosen.table_pages,
            other_pages: options.table_pages == TablePagesChoice::Auto,
            split_share: chosen.split_share,
        }
    }

    /// Options to pin the feature table, on the pages that were chosen for it.
    pub(crate) fn pin_table_options(&self, what: &str) -> PinOptions {
        PinOptions { pages: self.table_pages, others: self.other_pages, ..self.pin_options(what) }
    }

    /// Options to pin `what`: if memory seems too small, the process that pins warns.
    pub(crate) fn pin_options(&self, what: &str) -> PinOptions {
        let warn = |text: &str| tracing::warn!("{text}");
        PinOptions { what: what.to_owned(), preflight: self.preflight, warn, ..PinOptions::default() }
    }
}

/// The division of the GPU between producer, consumer and, if present, the sampler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Partition {
    /// No division: the processes alternate.
    None,
    /// MPS, with shares in per cent, and the measured numbers of multiprocessors.
    Mps {
        /// The producer's share.
        producer_percentage: u32,
        /// The consumer's share.
        consumer_percentage: u32,
        /// The producer's multiprocessors: those that its process sees, without the sampler's.
        producer_multiprocessors: u32,
        /// Multiprocessors that a process with the consumer's share sees.
        consumer_multiprocessors: u32,
        /// The sampler's share, if it works on the GPU.
        sampler: Option<SamplerShare>,
    },
    /// The streams of producer and sampler each belong to a green context with this many multiprocessors, without
    /// common ones.
    Green {
        /// The producer's multiprocessors.
        multiprocessors: u32,
        /// The sampler's multiprocessors, if it works on the GPU.
        sampler: Option<u32>,
        /// Whether the run fails without green contexts. Otherwise grids of these sizes are the fallback.
        required: bool,
    },
    /// The kernels of producer and sampler launch no more thread blocks than this many multiprocessors hold.
    Grid {
        /// The producer's multiprocessors.
        multiprocessors: u32,
        /// The sampler's multiprocessors, if it works on the GPU.
        sampler: Option<u32>,
    },
}

/// A GPU sampler's share under MPS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SamplerShare {
    /// The share in per cent. The producer's process has it in addition to the producer's.
    pub percentage: u32,
    /// Its multiprocessors: its part of those that the process sees.
    pub multiprocessors: u32,
}

impl Partition {
    /// Whether the producer is a thread of the consumer's process: without MPS two processes alternate on a GPU, and
    /// their work does not overlap.
    pub fn in_one_process(self) -> bool {
        matches!(self, Self::Green { .. } | Self::Grid { .. })
    }

    /// Its name as a value of `--partition`.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Mps { .. } => "mps",
            Self::Green { .. } => "green",
            Self::Grid { .. } => "grid",
        }
    }

    /// Multiprocessors that the gather's grid is sized for; `None` for all of the process's.
    pub fn gather_multiprocessors(self) -> Option<u32> {
        match self {
            Self::None | Self::Mps { sampler: None, .. } => None,
            Self::Mps { producer_multiprocessors, .. } => Some(producer_multiprocessors),
            Self::Green { multiprocessors, .. } | Self::Grid { multiprocessors, .. } => Some(multiprocessors),
        }
    }

    /// Multiprocessors of a sampler on the GPU; `None` for all of the process's.
    pub fn sampler_multiprocessors(self) -> Option<u32> {
        match self {
            Self::None => None,
            Self::Mps { sampler, .. } => sampler.map(|share| share.multiprocessors),
            Self::Green { multiprocessors, sampler, .. } | Self::Grid { multiprocessors, sampler } => {
                Some(sampler.unwrap_or(multiprocessors))
            }
        }
    }
}

impl std::fmt::Display for Partition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::None => f.write_str("not divided: producer and consumer take turns"),
            Self::Mps {
                producer_percentage,
                consumer_percentage,
                producer_multiprocessors,
                consumer_multiprocessors,
                sampler,
            } => {
                write!(
                    f,
                    "divided by MPS: producer {producer_percentage} % ({producer_multiprocessors} multiprocessors), \
                     consumer {consumer_percentage} % ({consumer_multiprocessors})"
                )?;
                match sampler {
                    Some(SamplerShare { percentage, multiprocessors }) => {
                        write!(f, ", sampler {percentage} % ({multiprocessors})")
                    }
                    None => Ok(()),
                }
            }
            Self::Green { multiprocessors, sampler, .. } => {
                write!(
                    f,
                    "divided by a green context: the producer keeps to {multiprocessors} multiprocessors"
                )?;
                sampler.map_or(Ok(()), |sampler| write!(f, ", the sampler to {sampler} others"))
            }
            Self::Grid { multiprocessors, sampler } => {
                write!(
                    f,
                    "divided by the grid: the producer's kernels fill {multiprocessors} multiprocessors"
                )?;
                sampler.map_or(Ok(()), |sampler| write!(f, ", the sampler's {sampler}"))
            }
        }
    }
}

impl Backend {
    /// Checks that feature rows of this layout are supported: a gather into slots on a GPU keeps the table's type, and
    /// sums come from the CPU by `gather=dma`, or from a producer that `gathers_before_sums`.
    ///
    /// # Errors
    /// [`RuntimeError::Usage`] with an alternative.
    pub fn check_features(
        &self,
        layout: &BatchLayout,
        gathers_before_sums: bool,
    ) -> Result<(), RuntimeError> {
        if self.device_slots().is_none() {
            return Ok(());
        }
        if !gathers_before_sums {
            check_sums(layout.aggregation(), self.host_obstacle())?;
        }
        let shapes = layout.metagraph().types().filter_map(|of| layout.rows_of(of));
        if shapes.into_iter().all(|rows| rows.widened_from.is_none()) {
            return Ok(());
        }
        Err(RuntimeError::option(
            "feature_type",
            "float32",
            "not supported for batches on a GPU, where rows have the type of the table, with half the bytes over the link. \
             Omit `feature_type`, and convert on the GPU, as in batch.x.float()",
        ))
    }

    /// Whether CPU threads copy whole rows to slots on the GPU. A cache on the GPU then supplies the other rows.
    pub fn copies_rows(&self) -> bool {
        // A sampler on the GPU gets all of a cache for its lists, whose hits are timed.
        let by_copies =
            |cuda: &CudaBackend| cuda.gather == GatherChoice::Dma && cuda.sampler != SamplerChoice::Gpu;
        self.device_slots().is_some_and(by_copies)
    }

    /// The obstacle to sums by the producer's CPU threads, if any. For slots on a GPU they need the lists, and the copy
    /// engine. The same applies to rows that they read from disk.
    pub fn host_obstacle(&self) -> Option<Obstacle> {
        let cuda = self.device_slots()?;
        if cuda.gather != GatherChoice::Dma {
            return Some(Obstacle {
                option: format!("`gather={}`", self.gather_name()),
                why: "kernels gather into slots on a GPU, but the CPU's sums are copied there".to_owned(),
                remedy: "`gather=dma`, or `gather=cpu` with slots in host memory",
            });
        }
        let why = match cuda.sampler {
            SamplerChoice::Cpu => return None,
            SamplerChoice::Gpu => {
                "the CPU needs the lists to sum, but those of a GPU sampler stay on the GPU"
            }
            SamplerChoice::Auto => {
                "a measurement may choose the GPU for sampling, but the CPU needs the lists of a CPU sampler to sum"
            }
        };
        let option = format!("`sampler={}`", cuda.sampler.name());
        Some(Obstacle { option, why: why.to_owned(), remedy: "`sampler=cpu`" })
    }

    /// Whether the producer's CPU threads only begin such sums if a cache of chosen rows is on the GPU. A kernel then
    /// continues them with the rows of the cache. A producer that `gathers_before_sums` makes no sums on the CPU.
    pub fn continues_sums(&self, aggregation: Aggregation, gathers_before_sums: bool) -> bool {
        let by_kernel = matches!(aggregation, Aggregation::Mean | Aggregation::Degrees);
        by_kernel && !gathers_before_sums && self.device_slots().is_some() && self.host_obstacle().is_none()
    }

    /// The GPU with the feature slots, if they are on a GPU.
    pub fn device_slots(&self) -> Option<&CudaBackend> {
        match self {
            Self::Cuda(cuda) if cuda.gather != GatherChoice::Cpu => Some(cuda),
            _ => None,
        }
    }

    /// Whether the producer runs in the consumer's process.
    pub fn in_one_process(&self) -> bool {
        self.device_slots().is_some_and(|cuda| cuda.partition.in_one_process())
    }

    /// The GPU on which a sampler works, if any.
    pub fn gpu_sampler(&self) -> Option<&CudaBackend> {
        self.cuda().filter(|cuda| cuda.sampler == SamplerChoice::Gpu)
    }

    /// The device of training, as a value of `--device`.
    pub fn device_name(&self) -> String {
        match self {
            Self::Cpu => "cpu".to_owned(),
            Self::Cuda(cuda) => format!("cuda:{}", cuda.ordinal),
        }
    }

    /// The way of gathering, as a value of `--gather`.
    pub fn gather_name(&self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Cuda(cuda) => cuda.gather.name(),
        }
    }

    /// The GPU that trains, if any.
    pub fn cuda(&self) -> Option<&CudaBackend> {
        match self {
            Self::Cpu => None,
            Self::Cuda(cuda) => Some(cuda),
        }
    }
}
