//! Where a run gathers, samples and trains on this machine.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use uva_batch::{Aggregation, BatchLayout};
use uva_cuda::kernels::gather::Kernel;
use uva_cuda::memory::{IpcKind, PinOptions, PinPages, PreflightPolicy};

use super::asked::{BackendOptions, GatherChoice, GpuSlots, SamplerChoice, SignalKind, TablePagesChoice};
use super::chosen::TransferChoice;
use crate::RuntimeError;
use crate::backend::obstacle::{Obstacle, check_sums};

/// Where the run gathers and trains. Part of every role's plan.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Backend {
    /// Everything on the CPU, feature slots in host memory.
    #[default]
    Cpu,
    /// A GPU trains.
    Cuda(CudaBackend),
}

/// A GPU and the way to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CudaBackend {
    /// The GPU's index.
    pub ordinal: usize,
    /// How feature rows reach it.
    pub gather: GatherChoice,
    /// Which gather kernel.
    pub kernel: Kernel,
    /// Where neighbours are sampled. [`SamplerChoice::Auto`] only until it has been measured.
    pub sampler: SamplerChoice,
    /// How the GPU is divided.
    pub partition: Partition,
    /// How its memory is shared between processes.
    pub ipc: IpcKind,
    /// How producer and consumer tell each other there that a slot is ready, or free.
    pub ipc_signals: SignalKind,
    /// What the feature slots there have room for.
    pub gpu_slots: GpuSlots,
    /// The NVRTC library, or its folder.
    pub nvrtc: Option<PathBuf>,
    /// What to do where memory seems too short to pin.
    pub preflight: PreflightPolicy,
    /// The pages of the feature table.
    pub table_pages: PinPages,
    /// Whether other pages do where these cannot be had.
    pub other_pages: bool,
    /// The share of the rows that kernels read at first, where the rows are split.
    pub split_share: Option<f64>,
}

impl CudaBackend {
    /// The GPU with this index, with the requested options and what was decided.
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

    /// How the feature table is pinned, on the pages that were chosen for it.
    pub(crate) fn pin_table_options(&self, what: &str) -> PinOptions {
        PinOptions { pages: self.table_pages, others: self.other_pages, ..self.pin_options(what) }
    }

    /// How `what` is pinned: if memory seems short, the process that pins warns.
    pub(crate) fn pin_options(&self, what: &str) -> PinOptions {
        let warn = |text: &str| tracing::warn!("{text}");
        PinOptions { what: what.to_owned(), preflight: self.preflight, warn, ..PinOptions::default() }
    }
}

/// How the GPU is divided between producer, consumer and, if it is there, the sampler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Partition {
    /// Not at all: they take turns.
    None,
    /// By MPS: shares in per cent, and the multiprocessors that they were measured to get.
    Mps {
        /// The producer's share.
        producer_percentage: u32,
        /// The consumer's share.
        consumer_percentage: u32,
        /// The producer's multiprocessors: all that its process sees, but the sampler's.
        producer_multiprocessors: u32,
        /// Multiprocessors that a process with the consumer's share sees.
        consumer_multiprocessors: u32,
        /// The sampler's, where it works on the GPU.
        sampler: Option<SamplerShare>,
    },
    /// The streams of producer and sampler each belong to a green context with this many multiprocessors, which have
    /// none in common.
    Green {
        /// The producer's.
        multiprocessors: u32,
        /// The sampler's, where it works on the GPU.
        sampler: Option<u32>,
        /// Whether the run fails without it. Otherwise grids of these numbers are the fall-back.
        required: bool,
    },
    /// The kernels of producer and sampler launch no more thread blocks than this many multiprocessors hold.
    Grid {
        /// The producer's.
        multiprocessors: u32,
        /// The sampler's, where it works on the GPU.
        sampler: Option<u32>,
    },
}

/// A GPU sampler's share under MPS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SamplerShare {
    /// In per cent. The producer's process has it beside the producer's.
    pub percentage: u32,
    /// Its multiprocessors: its part of those that the process sees.
    pub multiprocessors: u32,
}

impl Partition {
    /// Whether the producer is a thread of the consumer's process: without MPS two processes take turns on a GPU and
    /// nothing overlaps.
    pub fn in_one_process(self) -> bool {
        matches!(self, Self::Green { .. } | Self::Grid { .. })
    }

    /// Its name, as `--partition` takes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Mps { .. } => "mps",
            Self::Green { .. } => "green",
            Self::Grid { .. } => "grid",
        }
    }

    /// Multiprocessors that the gather's grid is sized for; `None`: all of the process's.
    pub fn gather_multiprocessors(self) -> Option<u32> {
        match self {
            Self::None | Self::Mps { sampler: None, .. } => None,
            Self::Mps { producer_multiprocessors, .. } => Some(producer_multiprocessors),
            Self::Green { multiprocessors, .. } | Self::Grid { multiprocessors, .. } => Some(multiprocessors),
        }
    }

    /// The same of a sampler on the GPU.
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
    /// Checks that feature rows of this layout are supported: a gather into slots on a GPU keeps the table's type, and sums
    /// come there from the CPU by `gather=dma`, or by a producer that `gathers_before_sums`.
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
        if layout.widened_from().is_none() {
            return Ok(());
        }
        Err(RuntimeError::option(
            "feature_type",
            "float32",
            "rows go to a GPU as the table has them, half the bytes over the link, and nothing there widens them yet. \
             Leave `feature_type` out, and convert on the GPU, as in batch.x.float()",
        ))
    }

    /// Whether CPU threads bring whole rows to slots on the GPU by copies: a cache there then has the others beside them.
    pub fn copies_rows(&self) -> bool {
        // A sampler there gets all of a cache for its lists, whose hits are timed.
        let by_copies =
            |cuda: &CudaBackend| cuda.gather == GatherChoice::Dma && cuda.sampler != SamplerChoice::Gpu;
        self.device_slots().is_some_and(by_copies)
    }

    /// What forbids that the producer's CPU threads sum. For slots on a GPU they need the lists, and the copy engine. Rows
    /// that they read from disk need the same.
    pub fn host_obstacle(&self) -> Option<Obstacle> {
        let cuda = self.device_slots()?;
        if cuda.gather != GatherChoice::Dma {
            return Some(Obstacle {
                option: format!("`gather={}`", self.gather_name()),
                why: "kernels gather into slots on a GPU, and the CPU's sums go there by copies".to_owned(),
                remedy: "`gather=dma`, or `gather=cpu` with slots in host memory",
            });
        }
        let why = match cuda.sampler {
            SamplerChoice::Cpu => return None,
            SamplerChoice::Gpu => "the lists of a sampler on the GPU stay there, and the CPU sums by them",
            SamplerChoice::Auto => {
                "a measurement decides where to sample, and the CPU sums by lists that a sampler on the CPU makes"
            }
        };
        let option = format!("`sampler={}`", cuda.sampler.name());
        Some(Obstacle { option, why: why.to_owned(), remedy: "`sampler=cpu`" })
    }

    /// Whether the producer's CPU threads only begin such sums, if a cache of chosen rows is on the GPU: a kernel then
    /// continues them with the rows of the cache. A producer that `gathers_before_sums` makes none on the CPU.
    pub fn continues_sums(&self, aggregation: Aggregation, gathers_before_sums: bool) -> bool {
        let by_kernel = matches!(aggregation, Aggregation::Mean | Aggregation::Degrees);
        by_kernel && !gathers_before_sums && self.device_slots().is_some() && self.host_obstacle().is_none()
    }

    /// The GPU, where feature slots are on one.
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

    /// The GPU, where a sampler works on one.
    pub fn gpu_sampler(&self) -> Option<&CudaBackend> {
        self.cuda().filter(|cuda| cuda.sampler == SamplerChoice::Gpu)
    }

    /// Where the model trains, as `--device` takes it.
    pub fn device_name(&self) -> String {
        match self {
            Self::Cpu => "cpu".to_owned(),
            Self::Cuda(cuda) => format!("cuda:{}", cuda.ordinal),
        }
    }

    /// How rows are gathered, as `--gather` takes it.
    pub fn gather_name(&self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Cuda(cuda) => cuda.gather.name(),
        }
    }

    /// The GPU that trains.
    pub fn cuda(&self) -> Option<&CudaBackend> {
        match self {
            Self::Cpu => None,
            Self::Cuda(cuda) => Some(cuda),
        }
    }
}
