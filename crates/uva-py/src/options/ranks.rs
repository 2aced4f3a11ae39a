//! Options of ranks, including the loader's caches, and of the batches' device. The Python package implements them.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use uva_runtime::spec::{Field, OptionPurpose::Speed, Real, named, options, text_values};

const RANKS: &str = "Ranks";

options! {
    /// The device of a loader's batches.
    pub struct PlaceOptions {
        /// Device of the batches: cpu, cuda or cuda:1
        device: BatchDevice = BatchDevice("cpu".to_owned()) => Field::text::<BatchDevice>("DEVICE", "").of("Pipeline", &[Speed]),
    }
}

options! {
    /// The ranks that divide an epoch's batches, and the data that they exchange.
    pub struct RankOptions {
        /// Rank of this process: batch number g belongs to rank g % `world_size`
        rank: Option<u32> = None
            => Field::at_least("RANK", 0).of(RANKS, &[Speed])
                .unless_given("torch.distributed's where it is initialised, else RANK of the environment (torchrun), else 0"),
        /// Number of ranks
        world_size: Option<u32> = None
            => Field::at_least("RANKS", 1).of(RANKS, &[Speed])
                .unless_given("torch.distributed's where it is initialised, else WORLD_SIZE of the environment, else 1"),
        /// Part of a partitioned dataset to train on; the path is then the directory that `uvatrain partition` wrote
        /// (docs/guide/scaling.md). rank: the part with the number of this rank, which requires as many ranks as parts; or a
        /// part's number. All parts have the same number of training batches, and a rank has all batches of its part. Parts in
        /// ranges (`partition --layout ranges`) divide the feature table only: ranks divide the batches of the whole graph and
        /// fetch rows from each other, which requires torch.distributed to be initialised
        part: Option<PartChoice> = None
            => Field::text::<PartChoice>("PART", "").of(RANKS, &[Speed]).unless_given("the dataset is not partitioned"),
        /// Parts in ranges: ranks that hold the graph. Batches do not change. All ranks need the same value, seed and sampling
        /// options. Divided is for graphs that are too large for each machine, with neighbor, labor or weighted sampling
        graph: GraphChoice = GraphChoice::Copied => Field::choice::<GraphChoice>("GRAPH").of(RANKS, &[Speed]),
        /// Parts in ranges: timeout, in seconds, for rows or picks of another rank
        exchange_timeout: f64 = 300.0 => Field::real("SECONDS", Real::Positive).of(RANKS, &[Speed]),
        /// Parts in ranges: memory for copies of the most-read rows of other ranks, such as 1GiB. They are found by sampling at
        /// the start: two epochs, and at least 200 batches, or with a divided graph one epoch. All ranks need the same value
        remote_cache: u64 = 0 => Field::size().of(RANKS, &[Speed]),
        /// Divide the rows of `gpu_cache` among the GPUs of this machine's ranks, which read each other's rows over NVLink or
        /// PCIe: n GPUs hold n times as many rows. Requires torch.distributed to be initialised, and all ranks to make the same
        /// loaders in the same order, with the same seed and options (docs/guide/caches.md)
        gpu_cache_share: bool = false => Field::switch().of(RANKS, &[Speed]),
    }
}

options! {
    /// Options of `python -m uvatrain.train` in addition to those of `uvatrain train` and of its loaders.
    pub struct TrainerRankOptions {
        /// Device that each rank trains on
        device: RankDevice = RankDevice::Auto => Field::choice::<RankDevice>("DEVICE").of(RANKS, &[Speed]),
        /// Timeout, in seconds, for a rank that does not respond
        timeout: f64 = 300.0 => Field::real("SECONDS", Real::Positive).of(RANKS, &[Speed]),
        /// Write batches and epochs as lines of JSON; rank r > 0 writes to FILE.r
        metrics: Option<PathBuf> = None => Field::path("FILE").of(RANKS, &[Speed]),
    }
}

named! {
    /// Which ranks have the graph, with parts in ranges.
    pub enum GraphChoice = Copied {
        /// Every rank has the whole graph, and samples from it alone.
        Copied = "copied",
        /// Each rank has the lists of its own nodes only, and draws from them for the others, hop by hop.
        Divided = "divided",
    }
}

named! {
    /// Where a rank trains.
    pub enum RankDevice = Auto {
        /// A GPU if each rank of the machine has its own, else the CPU.
        Auto = "auto",
        /// The CPU.
        Cpu = "cpu",
        /// A separate GPU for each rank.
        Cuda = "cuda",
    }
}

/// The device of a loader's batches, as text that the loader checks when it opens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchDevice(String);

impl FromStr for BatchDevice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for BatchDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Which part of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartChoice {
    /// That of this rank.
    Rank,
    /// That of this number.
    Number(u32),
}

impl FromStr for PartChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "rank" => Ok(Self::Rank),
            _ => text
                .parse()
                .map(Self::Number)
                .map_err(|_| format!("invalid value '{text}': expected rank, or the number of a part")),
        }
    }
}

impl fmt::Display for PartChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rank => f.write_str("rank"),
            Self::Number(number) => write!(f, "{number}"),
        }
    }
}

text_values!(BatchDevice, PartChoice);
