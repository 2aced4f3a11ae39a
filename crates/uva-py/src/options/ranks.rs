//! Options of ranks, of the loader's caches among them, and where batches come to be. What they do is in the Python package.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use uva_runtime::spec::{Field, OptionPurpose::Speed, Real, named, options, text_values};

const RANKS: &str = "Ranks";

options! {
    /// Where a loader's batches come to be.
    pub struct PlaceOptions {
        /// Where batches come to be: cpu, cuda or cuda:1
        device: BatchDevice = BatchDevice("cpu".to_owned()) => Field::text::<BatchDevice>("DEVICE", "").of("Pipeline", &[Speed]),
    }
}

options! {
    /// Which ranks divide an epoch's batches, and what they get from each other.
    pub struct RankOptions {
        /// Which part of an epoch's batches comes here: of batch number g, the rank g % `world_size`
        rank: Option<u32> = None
            => Field::at_least("RANK", 0).of(RANKS, &[Speed])
                .unless_given("torch.distributed's where it is initialised, else RANK of the environment (torchrun), else 0"),
        /// How many ranks there are
        world_size: Option<u32> = None
            => Field::at_least("RANKS", 1).of(RANKS, &[Speed])
                .unless_given("torch.distributed's where it is initialised, else WORLD_SIZE of the environment, else 1"),
        /// The part of a partitioned dataset to train on; the path is then the directory that `uvatrain partition` wrote
        /// (docs/guide/scaling.md). rank: that of this rank, so that there have to be as many ranks as parts. Or its number. Every
        /// part has the same number of training batches, and a rank has all of its own. Parts in ranges (`partition --layout
        /// ranges`) are of the feature table alone: torch.distributed has to be initialised, ranks divide the batches of the
        /// whole graph, and get the rows that others have from them (docs/guide/scaling.md)
        part: Option<PartChoice> = None
            => Field::text::<PartChoice>("PART", "").of(RANKS, &[Speed]).unless_given("the dataset is not partitioned"),
        /// Parts in ranges: who has the graph. Batches are the same, and every rank needs the same choice, seed and options of
        /// sampling. Divided is for graphs that are too large for each machine, and for neighbor, labor and weighted sampling
        graph: GraphChoice = GraphChoice::Copied => Field::choice::<GraphChoice>("GRAPH").of(RANKS, &[Speed]),
        /// Parts in ranges: seconds after which a rank that gives no rows or picks is given up
        exchange_timeout: f64 = 300.0 => Field::real("SECONDS", Real::Positive).of(RANKS, &[Speed]),
        /// Parts in ranges: memory for copies of the rows of other ranks that are read most, such as 1GiB. They are found by
        /// sampling beforehand: two epochs, and 200 batches at least, or with a divided graph one epoch. Every rank needs the
        /// same
        remote_cache: u64 = 0 => Field::size().of(RANKS, &[Speed]),
        /// The GPUs of this machine's ranks hold the rows of `gpu_cache` between them, and read each other's over NVLink or
        /// PCIe. So n GPUs hold n times as many rows. torch.distributed has to be initialised, and all ranks make the same
        /// loaders in the same order, with the same seed and options (docs/guide/caches.md)
        gpu_cache_share: bool = false => Field::switch().of(RANKS, &[Speed]),
    }
}

options! {
    /// What `python -m uvatrain.train` has besides the options of `uvatrain train` and of its loaders.
    pub struct TrainerRankOptions {
        /// Where each rank trains: on the CPU, on a GPU of its own, or auto: on a GPU where each rank has one
        device: RankDevice = RankDevice::Auto => Field::choice::<RankDevice>("DEVICE").of(RANKS, &[Speed]),
        /// Seconds after which a silent rank is given up
        timeout: f64 = 300.0 => Field::real("SECONDS", Real::Positive).of(RANKS, &[Speed]),
        /// Write batches and epochs as lines of JSON; rank r > 0 writes to FILE.r
        metrics: Option<PathBuf> = None => Field::path("FILE").of(RANKS, &[Speed]),
    }
}

named! {
    /// Which ranks have the graph, with parts in ranges.
    pub enum GraphChoice = Copied {
        /// Every rank has it, and samples by itself.
        Copied = "copied",
        /// A rank has the lists of its own nodes alone in memory, and draws from them for the others, hop by hop.
        Divided = "divided",
    }
}

named! {
    /// Where a rank trains.
    pub enum RankDevice = Auto {
        /// On a GPU where each rank of the machine has one, else on the CPU.
        Auto = "auto",
        /// On the CPU.
        Cpu = "cpu",
        /// Each rank on a GPU of its own.
        Cuda = "cuda",
    }
}

/// Where a loader's batches come to be, which it looks at when it opens.
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
