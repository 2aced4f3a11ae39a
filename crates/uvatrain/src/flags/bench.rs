//! `uvatrain bench`.

use std::path::PathBuf;
use std::sync::LazyLock;

use clap::{Args, Subcommand, ValueEnum};
use uva_bench::pcie::{IdOrder, TablePages};
#[cfg(feature = "request-model")]
use uva_kernels::gather::IdWidth;
use uva_kernels::gather::Kernel;
use uva_plan::ComparedPolicy;
use uva_runtime::backend::PreflightPolicy;
use uva_runtime::options::hop_options::Chunk;
use uva_runtime::sampler::cache::CachePolicy;
use uva_runtime::spec::{ByteSize, Field};
use uva_runtime::{DiskReader, LoaderOptions};

use super::declared::{Declared, OptionFilter, one_of};
use super::within::within;
use super::{LoaderFlags, Seconds};

/// What to measure.
#[derive(Subcommand, Debug)]
pub enum BenchCommand {
    /// Measure neighbour sampling: edges per second, milliseconds per batch
    Sample(SampleBenchFlags),
    /// Measure the gather of feature rows on the CPU, compared with a memory copy of the same size
    Gather(GatherBenchFlags),
    /// Measure batches of a hop set, compared with a memory copy of the same size
    Loader(LoaderBenchFlags),
    /// Compare the hit rates of cache policies at several cache sizes
    Cache(Box<CacheBenchFlags>),
    /// Compare first-layer aggregation in the producer, while it reads rows, with aggregation of gathered rows
    Aggregate(Box<AggregateBenchFlags>),
    /// Count what batches of a part read from other parts of a partition: lists, rows, requests, bytes
    Partition(PartitionBenchFlags),
    /// Measure samplers and producer with a consumer that only takes batches: the upper bound for training
    Pipeline(PipelineBenchFlags),
    /// Count the PCIe reads per feature row, from the gather kernels run on the host
    #[cfg(feature = "request-model")]
    Requests(RequestsBenchFlags),
    /// Choose how many GPUs sample and how many train, by simulating an epoch for each division
    Roles(RolesBenchFlags),
    /// Measure gathers of rows in pinned host memory over the link to a GPU, compared with plain copies
    Pcie(Box<PcieBenchFlags>),
}

/// The options of `uvatrain bench cache`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  uvatrain bench cache data/demo --fanouts 15,10,5 --policy presample,degree,random,optimal
  uvatrain bench cache data/demo --policy presample,fifo,lru,lfu --seed-order proximity
  uvatrain bench cache data/demo --gpu-cache 64MiB")]
pub struct CacheBenchFlags {
    /// The dataset
    #[arg(value_name = "DATA")]
    pub data: PathBuf,

    /// Policies to compare; those that evict start with an empty cache. lru and lfu are only simulated
    #[arg(
        long,
        value_name = "P,P,…",
        value_parser = one_of::<ComparedPolicy>(),
        value_delimiter = ',',
        default_value = "degree,presample,analytic,random,optimal,fifo"
    )]
    pub policy: Vec<ComparedPolicy>,

    /// Cache sizes, in per cent of all rows and of the bytes of all lists
    #[arg(
        long,
        value_name = "%,%,…",
        value_delimiter = ',',
        default_value = "1,2,5,10,20,30,50",
        value_parser = within::<u32>(1..=100)
    )]
    pub size: Vec<u32>,

    /// Epochs to count hits over, after the two epochs that are sampled in advance
    #[arg(long, value_name = "EPOCHS", default_value_t = 20, value_parser = within::<u32>(1..=10_000))]
    pub epochs: u32,

    /// Divide this much memory between both caches, and compare with eleven other divisions
    #[arg(long, value_name = "SIZE")]
    pub gpu_cache: Option<ByteSize>,

    /// Also time sampling and gathering on one thread, for fanouts of 2, of 5, and 15,10,5
    #[arg(long)]
    pub stage_times: bool,

    /// Print one JSON object
    #[arg(long)]
    pub json: bool,

    /// How batches are made.
    #[command(flatten)]
    pub loader: LoaderFlags,
}

/// The aggregations of `bench aggregate`.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum BenchSums {
    /// Mean of each list, with the destination's own row separate (sage)
    Mean,
    /// Sum of a graph convolution, which includes the own row (gcn)
    Gcn,
}

/// The options of `uvatrain bench aggregate`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  uvatrain bench aggregate data/demo --fanouts 15,10,5
  uvatrain bench aggregate data/demo --fanouts 10 --cached-rows 3.9 --cache-policy degree")]
pub struct AggregateBenchFlags {
    /// The dataset
    #[arg(value_name = "DATA")]
    pub data: PathBuf,

    /// Aggregation to time
    #[arg(long, value_name = "SUMS", value_enum, default_value_t = BenchSums::Mean)]
    pub aggregate: BenchSums,

    /// Cache this percentage of all rows: 3.9, 50
    #[arg(long, value_name = "PERCENT", value_parser = percentage, conflicts_with = "gpu_cache")]
    pub cached_rows: Option<f64>,

    /// Cache as many rows as fit in this memory, together with the map of their places
    #[arg(long, value_name = "SIZE")]
    pub gpu_cache: Option<ByteSize>,

    /// Policy whose highest-ranked rows are cached [default: degree]
    #[arg(long, value_name = "P", value_parser = one_of::<CachePolicy>())]
    pub cache_policy: Option<CachePolicy>,

    /// Batches to count and to time, after a warm-up pass over them
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = within::<u32>(1..=100_000))]
    pub batches: u32,

    /// Print one JSON object
    #[arg(long)]
    pub json: bool,

    /// How batches are made, and by how many threads their rows are read.
    #[command(flatten)]
    pub loader: LoaderFlags,
}

/// The options of `uvatrain bench sample`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  uvatrain bench sample data/demo --fanouts 15,10,5 --threads 2")]
pub struct SampleBenchFlags {
    /// The dataset
    #[arg(value_name = "DATA")]
    pub data: PathBuf,

    /// What is sampled.
    #[command(flatten)]
    pub sampling: Declared<LoaderOptions, SampleBenchOptions>,

    /// Threads, each with a separate sampler
    #[arg(long, value_name = "T", default_value_t = 1, value_parser = within::<u32>(1..=1024))]
    pub threads: u32,

    /// Batches to measure, after one warm-up batch per thread
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = within::<u32>(1..))]
    pub batches: u32,

    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// The options of the loader that `bench sample` has.
#[derive(Clone, Copy, Debug)]
pub struct SampleBenchOptions;

impl OptionFilter for SampleBenchOptions {
    fn shows(field: &Field) -> bool {
        let names = [
            "sampler_kind",
            "fanouts",
            "fanout_per",
            "target",
            "disjoint",
            "time_rule",
            "time_window",
            "time_pick",
            "seed_time",
            "walks",
            "walk_length",
            "walk_stop",
            "replace",
            "batch_size",
            "seed",
        ];
        names.contains(&field.name)
    }
}

/// The pages of the table and the output of `bench gather`.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum GatherPages {
    /// 4 KiB
    Base,
    /// 2 MiB where the system provides them
    Huge,
}

/// The options of `uvatrain bench gather`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  uvatrain bench gather data/demo --threads 2")]
pub struct GatherBenchFlags {
    /// The dataset
    #[arg(value_name = "DATA")]
    pub data: PathBuf,

    /// Threads that copy rows
    #[arg(long, value_name = "T", default_value_t = 1, value_parser = within::<u32>(1..=1024))]
    pub threads: u32,

    /// Bytes per gather, in random rows
    #[arg(long, value_name = "SIZE", default_value = "128MiB")]
    pub bytes: ByteSize,

    /// Number of measured gathers, after one warm-up gather; the median is reported
    #[arg(long, value_name = "N", default_value_t = 9, value_parser = within::<u32>(1..))]
    pub repeats: u32,

    /// Copy the table to memory with such pages first, and gather into memory with the same pages [default: gather from
    /// the mapped file into a slot, as in a run]
    #[arg(long, value_name = "KIND", value_enum)]
    pub pages: Option<GatherPages>,

    /// Random seed of the rows
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    pub seed: u64,

    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// The options of `uvatrain bench loader`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  uvatrain bench loader data/demo-hops --batch-size 8000 --chunk 1000,8000
  uvatrain bench loader data/demo-hops --reader uring")]
pub struct LoaderBenchFlags {
    /// The hop set
    #[arg(value_name = "HOPSET")]
    pub data: PathBuf,

    /// Rows of a batch
    #[arg(long, value_name = "ROWS", default_value_t = 8000, value_parser = within::<u32>(1..))]
    pub batch_size: u32,

    /// Rows per chunk, or auto as in `train`; each size is compared with a shuffle of all rows
    #[arg(long, value_name = "C,C,…", value_delimiter = ',', default_value = "auto")]
    pub chunk: Vec<Chunk>,

    /// Workers that copy rows, each for a separate batch
    #[arg(long, value_name = "W", default_value_t = 1, value_parser = within::<u32>(1..=1024))]
    pub samplers: u32,

    /// Feature slots, in addition to one for each worker after the first
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = within::<u32>(2..=1024))]
    pub slots: u32,

    /// Epochs to time, after one that is verified and one warm-up epoch; the median is reported
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = within::<u32>(1..=10_000))]
    pub epochs: u32,

    /// Read rows from disk with this reader, and compare with the reader alone [default: copy from the mapped files]
    #[arg(long, value_name = "READER", value_parser = one_of::<DiskReader>())]
    pub reader: Option<DiskReader>,

    /// Random seed of the order
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    pub seed: u64,

    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// The options of `uvatrain bench partition`.
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Example:\n  uvatrain bench partition data/demo --map data/demo-4 --fanouts 10,5 --batch-size 256"
)]
pub struct PartitionBenchFlags {
    /// The dataset
    #[arg(value_name = "DATA")]
    pub data: PathBuf,

    /// Directory made by `uvatrain partition`, or a .npy file (uint16) with the part of each node
    #[arg(long, value_name = "FILE")]
    pub map: PathBuf,

    /// Passes over the training nodes of all parts
    #[arg(long, value_name = "EPOCHS", default_value_t = 1, value_parser = within::<u32>(1..=10_000))]
    pub epochs: u32,

    /// How batches of a part are made.
    #[command(flatten)]
    pub sampling: Declared<LoaderOptions, PartSampling>,

    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// The options of the loader that `bench partition` has.
#[derive(Clone, Copy, Debug)]
pub struct PartSampling;

impl OptionFilter for PartSampling {
    fn shows(field: &Field) -> bool {
        ["sampler_kind", "fanouts", "replace", "expand", "batch_size", "seed"].contains(&field.name)
    }
}

/// The options of `uvatrain bench pipeline`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  uvatrain bench pipeline data/demo --fanouts 15,10,5 --samplers 2")]
pub struct PipelineBenchFlags {
    /// The dataset
    #[arg(value_name = "DATA")]
    pub data: PathBuf,

    /// Passes over the training nodes
    #[arg(long, value_name = "EPOCHS", default_value_t = 1, value_parser = within::<u32>(1..))]
    pub epochs: u32,

    /// Number of batches to count [default: to the end of the last epoch]
    #[arg(long, value_name = "N", value_parser = within::<u64>(1..))]
    pub batches: Option<u64>,

    /// Warm-up batches, which are not counted
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = within::<u64>(1..))]
    pub warm_up: u64,

    /// Print stages, rings and memory of the run; do not start it
    #[arg(long)]
    pub dry_run: bool,

    /// Print one JSON object
    #[arg(long)]
    pub json: bool,

    /// Nodes instead of the training split: a .npy file of node ids (int64, int32) or of a bool for each node, or text
    /// with one id per line; in a typed graph also TYPE=FILE, repeated for seeds of several types
    #[arg(long, value_name = "[TYPE=]FILE", help_heading = "Batches")]
    pub input_nodes: Vec<PathBuf>,

    /// How batches are made and handed on. The roles are always threads here, as with --in-process.
    #[command(flatten)]
    pub loader: LoaderFlags,
}

/// The options of `uvatrain bench requests`.
#[cfg(feature = "request-model")]
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  uvatrain bench requests --row-bytes 480 --kernel naive
  uvatrain bench requests --row-bytes 400 --gpu rtx3090")]
pub struct RequestsBenchFlags {
    /// Bytes of a feature row
    #[arg(long, value_name = "BYTES", value_parser = within::<u64>(1..))]
    pub row_bytes: u64,

    /// The gather kernel: naive, shift or wide
    #[arg(long, value_name = "KERNEL", default_value = "wide")]
    pub kernel: Kernel,

    /// Offset of the table's first row in its line of 128 bytes
    #[arg(long, value_name = "BYTES", default_value_t = 0, value_parser = within::<u64>(0..128))]
    pub base_offset: u64,

    /// Number of rows to examine, from the table's first
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = within::<u64>(1..))]
    pub rows: u64,

    /// Type of the ids: i32 or i64
    #[arg(long, value_name = "TYPE", default_value = "i64")]
    pub ids: IdWidth,

    /// Also compute how many multiprocessors of this GPU saturate its link
    #[arg(long, value_name = "NAME", value_enum)]
    pub gpu: Option<Gpu>,

    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// The options of `uvatrain bench roles`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  uvatrain bench roles --times 6.6,3.2,26 --gpus 8
  uvatrain bench roles --metrics run.jsonl --gpus 4 --switch")]
pub struct RolesBenchFlags {
    /// Milliseconds per batch of one GPU for sampling, for gathering and for training; a fourth number is the whole time per
    /// batch of a standby trainer [default of the fourth: gathering and training]
    #[arg(
        long,
        value_name = "T,T,T",
        value_delimiter = ',',
        value_parser = positive,
        conflicts_with = "metrics"
    )]
    pub times: Option<Vec<f64>>,

    /// Metrics file of a run, whose median times are used
    #[arg(long, value_name = "FILE")]
    pub metrics: Option<PathBuf>,

    /// GPUs to divide
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = within::<usize>(1..1025))]
    pub gpus: usize,

    /// Batches per epoch [default: as in the metrics, or 100]
    #[arg(long, value_name = "N", value_parser = within::<usize>(1..10_000_001))]
    pub batches: Option<usize>,

    /// Capacity in batches of the queue between samplers and trainers [default: unlimited]
    #[arg(long, value_name = "N", value_parser = within::<usize>(1..))]
    pub queue: Option<usize>,

    /// Let each trainer take the next batch when it is free [default: all trainers step together, one batch each]
    #[arg(long)]
    pub when_free: bool,

    /// Let GPUs train after they have sampled their last batch of the epoch, if that is faster
    #[arg(long)]
    pub switch: bool,

    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// A time in milliseconds.
fn positive(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(ms) if ms > 0.0 && ms.is_finite() => Ok(ms),
        _ => Err("expected milliseconds above 0".to_owned()),
    }
}

/// The GPUs that `bench requests --gpu` knows.
#[cfg(feature = "request-model")]
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gpu {
    #[value(name = "rtx3090")]
    Rtx3090,
    #[value(name = "a100")]
    A100,
    #[value(name = "h100")]
    H100,
    #[value(name = "h200")]
    H200,
}

/// The options of `uvatrain bench pcie`.
///
/// Each list is an axis; cells lie along one axis at a time from a base point: the kernel wide, rows of 512 bytes, all
/// multiprocessors, and the first of --pages, --table-size and --ids.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  uvatrain bench pcie --json --svg pcie.svg
  uvatrain bench pcie --kernels wide --row-bytes 400,512 --multiprocessors 8,all --seconds 60")]
pub struct PcieBenchFlags {
    /// The GPU's number
    #[arg(long, value_name = "I", default_value_t = 0)]
    pub device: u32,

    /// Gather kernels
    #[arg(
        long,
        value_name = "K,K,…",
        value_delimiter = ',',
        default_value = EVERY_KERNEL.as_str(),
        value_parser = pcie_kernel
    )]
    pub kernels: Vec<Kernel>,

    /// Bytes of a row [default: 17 sizes from 64 to 8192]
    #[arg(
        long,
        value_name = "R,R,…",
        value_delimiter = ',',
        value_parser = within::<u32>(1..=1 << 20)
    )]
    pub row_bytes: Vec<u32>,

    /// Multiprocessors that a gather is limited to: numbers, or all
    #[arg(
        long,
        value_name = "N,N,…",
        value_delimiter = ',',
        default_value = "1,2,4,8,16,32,all",
        value_parser = multiprocessors
    )]
    pub multiprocessors: Vec<Multiprocessors>,

    /// Pages of the table
    #[arg(
        long,
        value_name = "P,P,…",
        value_delimiter = ',',
        default_value = "transparent-huge,base,hugetlb,hostalloc",
        value_parser = table_pages
    )]
    pub pages: Vec<TablePages>,

    /// Bytes of the table; the first is that of the base point [default: 256MiB,4GiB,1GiB,16GiB]
    #[arg(long, value_name = "SIZE,…", value_delimiter = ',')]
    pub table_size: Vec<ByteSize>,

    /// Order of the ids: random, sorted, by-region (random ids, read region by region of the table), or trace (as in
    /// batches of a power-law graph)
    #[arg(
        long,
        value_name = "O,O,…",
        value_delimiter = ',',
        default_value = "random,sorted,by-region,trace",
        value_parser = id_order
    )]
    pub ids: Vec<IdOrder>,

    /// Measure every combination instead of one axis at a time
    #[arg(long)]
    pub full: bool,

    /// Skip the paths that use the CPU: its gather with copies, and the split
    #[arg(long)]
    pub zero_copy_only: bool,

    /// Threads of the CPU's gather [default: one per core]
    #[arg(long, value_name = "T", value_parser = within::<u32>(1..=1024))]
    pub threads: Option<u32>,

    /// Maximum bytes gathered per sample [default: 128MiB]
    #[arg(long, value_name = "SIZE")]
    pub sample_bytes: Option<ByteSize>,

    /// Samples per figure; the median is reported
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = within::<u32>(3..=100))]
    pub samples: u32,

    /// Skip measurements that have not started after this time: 90s, 5m; a number alone is seconds
    #[arg(long, value_name = "TIME")]
    pub seconds: Option<Seconds>,

    /// NVRTC, which compiles the kernels: the library or its directory [default: searched for as by train]
    #[arg(long, value_name = "PATH")]
    pub nvrtc: Option<PathBuf>,

    /// Action if the memory seems too small for a table; refuse skips the table
    #[arg(long, value_parser = one_of::<PreflightPolicy>(), default_value_t = PreflightPolicy::Refuse)]
    pub preflight: PreflightPolicy,

    /// Write a plot to this file: efficiency by row size, and rates by multiprocessors
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,

    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// A number of multiprocessors, or all of them (`None`). A name of its own, since clap gives `Option` a meaning.
pub type Multiprocessors = std::option::Option<u32>;

/// What `--kernels` is unless given, as a user would write it.
static EVERY_KERNEL: LazyLock<String> = LazyLock::new(|| Kernel::ALL.map(Kernel::name).join(","));

fn percentage(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(percent @ 0.0..=100.0) => Ok(percent),
        _ => Err(format!("'{text}' is not a number from 0 to 100")),
    }
}

fn pcie_kernel(text: &str) -> Result<Kernel, String> {
    among(text, &Kernel::ALL, Kernel::name)
}

fn table_pages(text: &str) -> Result<TablePages, String> {
    among(text, &TablePages::ALL, TablePages::name)
}

fn id_order(text: &str) -> Result<IdOrder, String> {
    among(text, &IdOrder::ALL, IdOrder::name)
}

fn multiprocessors(text: &str) -> Result<Multiprocessors, String> {
    match text.parse() {
        _ if text == "all" => Ok(None),
        Ok(some @ 1..) => Ok(Some(some)),
        _ => Err("a number of multiprocessors from 1, or all".to_owned()),
    }
}

fn among<T: Copy>(text: &str, all: &[T], name: fn(T) -> &'static str) -> Result<T, String> {
    all.iter().copied().find(|one| name(*one) == text).ok_or_else(|| {
        let known: Vec<&str> = all.iter().map(|one| name(*one)).collect();
        format!("one of {}", known.join(", "))
    })
}
