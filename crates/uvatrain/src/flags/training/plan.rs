//! The options of `uvatrain plan`.

use std::path::PathBuf;

use clap::Args;
use uva_plan::TimedBy;
use uva_runtime::sampler::cache::CachePolicy;
use uva_runtime::tune::planning::Budget;

use crate::flags::declared::one_of;
use crate::flags::{BackendFlags, LoaderFlags};

/// The options of `uvatrain plan`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  uvatrain plan data/demo --gpu-cache 32MiB --out plan.json
  uvatrain train data/demo --plan plan.json

  The same graph, reordered so that the most-read lists come first and caching them requires no additional memory:
  uvatrain plan data/demo --gpu-cache 32MiB --write-reordered data/demo-reordered")]
pub struct PlanFlags {
    /// The dataset
    #[arg(value_name = "DATA")]
    pub data: PathBuf,

    /// Memory for both caches and their maps: 512MiB, 6GiB, or auto: half of the free GPU memory, or on the CPU a quarter
    /// of the available memory
    #[arg(long, value_name = "SIZE|auto")]
    pub gpu_cache: Budget,

    /// Method of ranking lists and rows by their number of reads
    #[arg(long, value_parser = one_of::<CachePolicy>(), default_value_t = CachePolicy::PRESAMPLE)]
    pub cache_policy: CachePolicy,

    /// Content of the caches that time the gain of a hit: random lists and rows, or those that are read most
    #[arg(long, value_name = "TIMED_BY", value_parser = one_of::<TimedBy>(), default_value_t = TimedBy::Rank)]
    pub timed_by: TimedBy,

    /// Write the plan to this file, and the chosen ids to two .npy files next to it, for `train --plan`
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,

    /// Write the dataset in the order of the list cache to this directory, which must not exist
    #[arg(long, value_name = "OUT")]
    pub write_reordered: Option<PathBuf>,

    /// Write the curves to this SVG file: hit rate and expected time against bytes, and the division chosen
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,

    /// Print the plan as one JSON object on stdout
    #[arg(long)]
    pub json: bool,

    /// How batches are made: the plan is for a run with these options.
    #[command(flatten)]
    pub loader: LoaderFlags,

    /// Where the run will gather and sample.
    #[command(flatten)]
    pub backend: BackendFlags,
}
