//! `uvatrain bench`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{ByteSize, Fanouts, LoaderFlags};

/// What to measure.
#[derive(Subcommand, Debug)]
pub enum BenchCommand {
    /// Neighbour sampling: edges per second, milliseconds per batch
    Sample(SampleBenchFlags),
    /// The gather of feature rows on the CPU, beside a plain memory copy of as many bytes
    Gather(GatherBenchFlags),
    /// Samplers and producer together, with a consumer that only takes batches: what training could get at most
    Pipeline(PipelineBenchFlags),
}

/// The options of `uvatrain bench sample`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  uvatrain bench sample data/demo --fanouts 15,10,5 --threads 2")]
pub struct SampleBenchFlags {
    /// The dataset
    #[arg(value_name = "DATA")]
    pub data: PathBuf,

    /// In-neighbours sampled per node and hop, from the seeds outward; -1 takes all
    #[arg(long, value_name = "F,F,…", default_value = "15,10,5", allow_hyphen_values = true)]
    pub fanouts: Fanouts,

    /// Draw neighbours with replacement
    #[arg(long)]
    pub replace: bool,

    /// Seed nodes per batch
    #[arg(long, value_name = "NODES", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..))]
    pub batch_size: u32,

    /// Threads, each with a sampler of its own
    #[arg(long, value_name = "T", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub threads: u32,

    /// Batches to measure, after one warm-up batch a thread
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    pub batches: u32,

    /// Random seed
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    pub seed: u64,

    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// The options of `uvatrain bench gather`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  uvatrain bench gather data/demo --threads 2")]
pub struct GatherBenchFlags {
    /// The dataset
    #[arg(value_name = "DATA")]
    pub data: PathBuf,

    /// Threads that copy rows
    #[arg(long, value_name = "T", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub threads: u32,

    /// Bytes gathered each time, in random rows
    #[arg(long, value_name = "SIZE", default_value = "128MiB")]
    pub bytes: ByteSize,

    /// Times to measure, after one to warm up; the median counts
    #[arg(long, value_name = "N", default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..))]
    pub repeats: u32,

    /// Random seed of the rows
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    pub seed: u64,

    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// The options of `uvatrain bench pipeline`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  uvatrain bench pipeline data/demo --fanouts 15,10,5 --samplers 2")]
pub struct PipelineBenchFlags {
    /// The dataset
    #[arg(value_name = "DATA")]
    pub data: PathBuf,

    /// Passes over the training nodes
    #[arg(long, value_name = "EPOCHS", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub epochs: u32,

    /// Print one JSON object
    #[arg(long)]
    pub json: bool,

    /// How batches are made and handed on. The roles are always threads here, as with --in-process.
    #[command(flatten)]
    pub loader: LoaderFlags,
}
