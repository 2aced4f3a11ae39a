//! The options of everything that prepares mini-batches: `train` now, whatever else drives the pipeline later.

use std::sync::LazyLock;

use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};
use uva_runtime::options::{MAX_SAMPLERS, Part};
use uva_runtime::{FeatureType, LoaderOptions};
use uva_sample::{Expand, SamplerKind};

use super::within::within;
use super::{ByteSize, Fanouts, WalkFlags};
use crate::exit;

pub(super) const BATCHES: &str = "Batches";
const PIPELINE: &str = "Pipeline";

/// How batches are made and handed on.
#[derive(Args, Clone, Debug, serde::Serialize)]
pub struct LoaderFlags {
    /// Which neighbours are picked (docs/samplers.md)
    #[arg(long, value_name = "KIND", value_enum, default_value_t, help_heading = BATCHES)]
    pub sampler_kind: NeighborsPicked,

    /// In-neighbours sampled per node and hop, from the seeds outward; -1 takes all. One number a model layer. Of kinds
    /// that draw for a whole hop: its draws
    #[arg(
        long,
        value_name = "F,F,…",
        default_value = "15,10,5",
        allow_hyphen_values = true,
        help_heading = BATCHES
    )]
    pub fanouts: Fanouts,

    /// Random walks.
    #[command(flatten)]
    #[serde(flatten)]
    pub walk: WalkFlags,

    /// Draw neighbours with replacement: the same one may be picked twice
    #[arg(long, help_heading = BATCHES)]
    pub replace: bool,

    /// Seed nodes per batch
    #[arg(
        long,
        value_name = "NODES",
        default_value_t = 1024,
        value_parser = within::<u32>(1..),
        help_heading = BATCHES
    )]
    pub batch_size: u32,

    /// Leave out an epoch's last batch where it would be smaller than --batch-size
    #[arg(long, help_heading = BATCHES)]
    pub drop_last: bool,

    /// Random seed of shuffling, sampling and the model; the batches are the same for any number of --samplers
    #[arg(long, value_name = "SEED", default_value_t = 0, help_heading = BATCHES)]
    pub seed: u64,

    /// Change a node's picks every so many batches only, so that consecutive batches share rows and caches hit more; 1
    /// changes them with every batch
    #[arg(
        long,
        value_name = "BATCHES",
        default_value_t = 1,
        value_parser = within::<u32>(1..),
        help_heading = BATCHES
    )]
    pub batch_dependency: u32,

    /// Which nodes a hop draws neighbours for: all so far, anew in each hop (DGL's way), or the new ones, the others
    /// keep theirs (PyG's way, and what its trim_to_layer needs)
    #[arg(long, value_name = "NODES", value_enum, default_value_t = ExpandNodes::All, help_heading = BATCHES)]
    pub expand: ExpandNodes,

    /// Let blocks say where each of their edges stands in indices.npy: 8 bytes an edge, for models that use edges' own
    /// data
    #[arg(long, help_heading = BATCHES)]
    pub edge_ids: bool,

    /// Feature values of batches: those of the table, or float32, for which the producer widens float16 and bfloat16
    /// on the way [default: float32 for a built-in model, else table]
    #[arg(long, value_name = "TYPE", value_enum, help_heading = BATCHES)]
    pub feature_type: Option<FeatureValues>,

    /// Sampler processes [default: a quarter of the CPU cores, 1 to 8]
    #[arg(
        long,
        value_name = "W",
        value_parser = within::<u32>(1..=MAX_SAMPLERS as u64),
        help_heading = PIPELINE
    )]
    pub samplers: Option<u32>,

    /// Feature slots between producer and consumer; with 2, one is filled while the other is trained on
    #[arg(
        long,
        value_name = "SLOTS",
        default_value_t = 2,
        value_parser = within::<u32>(1..=64),
        help_heading = PIPELINE
    )]
    pub slots: u32,

    /// Batch slots between samplers and producer, at least W + 2 [default: W + 2, and 8 or more
    /// where a batch has at most 1 MiB of ids and blocks]
    #[arg(
        long,
        value_name = "SLOTS",
        value_parser = within::<u32>(3..=1024),
        help_heading = PIPELINE
    )]
    pub batch_slots: Option<u32>,

    /// Most bytes of a batch's ids and blocks, and again of its feature rows; needed with a fanout of -1. 512MiB,
    /// 6GiB, 1.5GB [default: room for the largest batch that --batch-size and --fanouts allow]
    #[arg(long, value_name = "SIZE", help_heading = PIPELINE)]
    pub slot_bytes: Option<ByteSize>,

    /// Threads that copy feature rows in the producer [default: a quarter of the CPU cores, at least 1]
    #[arg(
        long,
        value_name = "T",
        value_parser = within::<u32>(1..=1024),
        help_heading = PIPELINE
    )]
    pub gather_threads: Option<u32>,

    /// Run sampler, producer and consumer as threads of this process instead of processes of their own
    #[arg(long, help_heading = PIPELINE)]
    pub in_process: bool,
}

/// Which neighbours are picked: the names and help lines are those of the sampler's own table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NeighborsPicked(SamplerKind);

impl NeighborsPicked {
    /// The same, as the sampler takes it.
    pub fn kind(self) -> SamplerKind {
        self.0
    }
}

impl ValueEnum for NeighborsPicked {
    fn value_variants<'a>() -> &'a [Self] {
        static ALL: LazyLock<Vec<NeighborsPicked>> =
            LazyLock::new(|| SamplerKind::ALL.into_iter().map(NeighborsPicked).collect());
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.0.name()).help(self.0.help()))
    }
}

impl std::fmt::Display for NeighborsPicked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0.name())
    }
}

impl serde::Serialize for NeighborsPicked {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.0.name())
    }
}

/// What the feature values of batches are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FeatureValues {
    /// What the table has
    Table,
    /// float32
    Float32,
}

impl FeatureValues {
    /// The same, as the runtime takes it.
    fn feature_type(self) -> FeatureType {
        match self {
            Self::Table => FeatureType::Table,
            Self::Float32 => FeatureType::Float32,
        }
    }
}

/// Which nodes a hop draws neighbours for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ExpandNodes {
    /// All so far
    #[default]
    All,
    /// Those that the hop before found
    New,
}

impl LoaderFlags {
    /// The same, as the runtime takes it: defaults that depend on the machine filled in.
    pub fn options(&self) -> LoaderOptions {
        LoaderOptions {
            sampler_kind: self.sampler_kind.kind(),
            fanouts: self.fanouts.as_slice().to_vec(),
            replace: self.replace,
            batch_size: self.batch_size as usize,
            drop_last: self.drop_last,
            seed: self.seed,
            samplers: self.samplers.map_or_else(|| share_of_cores(4).min(8), |samplers| samplers as usize),
            feature_slots: self.slots as usize,
            batch_slots: self.batch_slots.map(|slots| slots as usize),
            slot_bytes: self.slot_bytes.map(ByteSize::bytes),
            feature_type: self.feature_type.map(FeatureValues::feature_type).unwrap_or_default(),
            gather_threads: self.gather_threads.map_or_else(|| share_of_cores(4), |threads| threads as usize),
            batch_dependency: self.batch_dependency,
            // The model's wish, not the user's.
            degrees: false,
            edge_ids: self.edge_ids,
            walks: self.walk.walks(),
            part: Part::default(),
            expand: match self.expand {
                ExpandNodes::All => Expand::All,
                ExpandNodes::New => Expand::New,
            },
        }
    }

    /// The same for a built-in model, which computes in float32 whatever the table has.
    pub fn options_of_models(&self) -> LoaderOptions {
        let asked = self.feature_type.map_or(FeatureType::Float32, FeatureValues::feature_type);
        LoaderOptions { feature_type: asked, ..self.options() }
    }

    /// The options that decide what batches are and how large, as one would give them again; those that are as they are
    /// unless given are left out, but for fanouts and batch size.
    pub fn given_again(&self) -> String {
        let mut line = format!("--fanouts {} --batch-size {}", self.fanouts, self.batch_size);
        let mut add = |given: bool, option: &str| {
            if given {
                line += &format!(" {option}");
            }
        };
        let kind = self.sampler_kind.kind();
        add(kind != SamplerKind::default(), &format!("--sampler-kind {kind}"));
        for (option, value) in self.walk.given() {
            add(true, &format!("{option} {value}"));
        }
        add(self.replace, "--replace");
        add(self.drop_last, "--drop-last");
        add(self.seed != 0, &format!("--seed {}", self.seed));
        add(self.batch_dependency > 1, &format!("--batch-dependency {}", self.batch_dependency));
        add(self.expand == ExpandNodes::New, "--expand new");
        if let Some(values) = self.feature_type {
            add(true, &format!("--feature-type {}", values.feature_type().name()));
        }
        if let Some(bytes) = self.slot_bytes {
            add(true, &format!("--slot-bytes {}", bytes.bytes()));
        }
        line
    }

    /// What clap cannot see: options that contradict each other.
    ///
    /// # Errors
    /// Bad usage; the message names the options and the values that would do.
    pub fn check(&self) -> anyhow::Result<()> {
        self.options().check()?;
        self.walk.check(self.sampler_kind.kind())?;
        if self.fanouts.take_all() && self.slot_bytes.is_none() {
            return Err(exit::usage(format!(
                "--fanouts {}: with -1 the size of a batch has no bound known before the run; say how large a slot \
                 may be with --slot-bytes, for example --slot-bytes 256MiB",
                self.fanouts
            ))
            .into());
        }
        Ok(())
    }
}

/// A share of the CPU cores, at least 1. Samplers and producer get a quarter each unless told otherwise, the model
/// half.
pub fn share_of_cores(parts: usize) -> usize {
    (std::thread::available_parallelism().map_or(1, usize::from) / parts).max(1)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use uva_sample::Walks;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        loader: LoaderFlags,
    }

    fn flags(args: &[&str]) -> LoaderFlags {
        Line::try_parse_from([&["x"], args].concat()).unwrap_or_else(|e| panic!("{e}")).loader
    }

    #[test]
    fn fanouts_may_begin_with_a_minus() {
        assert_eq!(flags(&["--fanouts", "-1,5"]).fanouts.as_slice(), [-1, 5]);
        assert_eq!(flags(&["--fanouts=-1"]).fanouts.as_slice(), [-1]);
    }

    #[test]
    fn batch_slots_follow_the_samplers() {
        assert_eq!(flags(&["--samplers", "4"]).options().fewest_batch_slots(), 6);
        assert!(flags(&["--samplers", "4"]).check().is_ok());
    }

    #[test]
    fn too_few_batch_slots_are_refused_with_the_number_that_would_do() {
        let problem = flags(&["--samplers", "4", "--batch-slots", "5"]).check().unwrap_err();
        assert!(problem.to_string().contains("at least 6"), "{problem}");
        assert!(flags(&["--samplers", "4", "--batch-slots", "6"]).check().is_ok());
    }

    #[test]
    fn all_neighbours_need_a_slot_size() {
        let problem = flags(&["--fanouts", "-1,5"]).check().unwrap_err();
        assert!(problem.to_string().contains("--slot-bytes"), "{problem}");
        assert!(flags(&["--fanouts", "-1,5", "--slot-bytes", "64MiB"]).check().is_ok());
    }

    #[test]
    fn what_was_given_reaches_the_runtime_as_it_is() {
        let args = "--fanouts 7,3 --replace --batch-size 9 --drop-last --seed 5 --samplers 2 --slots 3 \
                    --batch-slots 8 --slot-bytes 1MiB --gather-threads 4 --batch-dependency 6 --expand new \
                    --sampler-kind weighted --edge-ids --feature-type float32 --walks 3 --walk-length 2 --walk-stop 7";
        let options = flags(&args.split_whitespace().collect::<Vec<_>>()).options();
        let expected = LoaderOptions {
            sampler_kind: SamplerKind::WEIGHTED,
            fanouts: vec![7, 3],
            replace: true,
            batch_size: 9,
            drop_last: true,
            seed: 5,
            samplers: 2,
            feature_slots: 3,
            batch_slots: Some(8),
            slot_bytes: Some(1 << 20),
            feature_type: FeatureType::Float32,
            gather_threads: 4,
            batch_dependency: 6,
            expand: Expand::New,
            degrees: false,
            edge_ids: true,
            walks: Walks { count: 3, length: 2, stop: 7 },
            part: Part::default(),
        };
        assert_eq!(options, expected);
    }

    #[test]
    fn models_take_float32_and_others_the_tables_type_unless_told_otherwise() {
        for (args, of_models, of_others) in [
            (&[][..], FeatureType::Float32, FeatureType::Table),
            (&["--feature-type", "table"], FeatureType::Table, FeatureType::Table),
            (&["--feature-type", "float32"], FeatureType::Float32, FeatureType::Float32),
        ] {
            let flags = flags(args);
            assert_eq!(flags.options_of_models().feature_type, of_models, "{args:?}");
            assert_eq!(flags.options().feature_type, of_others, "{args:?}");
        }
    }

    #[test]
    fn options_that_are_given_again_make_the_same_batches() {
        for line in [
            "--fanouts 15,10,5 --batch-size 1024",
            "--fanouts 7,-1 --batch-size 9 --sampler-kind weighted --replace --drop-last --seed 5 --batch-dependency 6 \
             --expand new --feature-type table --slot-bytes 1048576",
            "--fanouts 7,3 --batch-size 9 --sampler-kind walk --walks 3 --walk-length 2 --walk-stop 0",
        ] {
            let words: Vec<&str> = line.split_whitespace().collect();
            let given = flags(&words);
            assert_eq!(given.given_again(), words.join(" "));
        }
    }

    #[test]
    fn every_kind_of_sampler_can_be_asked_for_by_its_name() {
        for kind in SamplerKind::ALL {
            assert_eq!(flags(&["--sampler-kind", kind.name()]).options().sampler_kind, kind);
        }
        let problem = flags(&["--sampler-kind", "labor", "--replace"]).check().unwrap_err();
        assert!(problem.to_string().contains("--sampler-kind neighbor or weighted"), "{problem}");
        let problem = flags(&["--sampler-kind", "ladies", "--expand", "new"]).check().unwrap_err();
        assert!(problem.to_string().contains("use --expand all"), "{problem}");
        for option in ["--walks", "--walk-length", "--walk-stop"] {
            let problem = flags(&["--sampler-kind", "labor", option, "5"]).check().unwrap_err();
            assert!(problem.to_string().contains("use --sampler-kind walk"), "{problem}");
            assert!(flags(&["--sampler-kind", "walk", option, "5"]).check().is_ok());
        }
    }

    #[test]
    fn zero_is_no_batch_size_and_no_number_of_samplers() {
        for args in [["--batch-size", "0"], ["--samplers", "0"], ["--slots", "0"], ["--gather-threads", "0"]]
        {
            assert!(Line::try_parse_from([&["x"], &args[..]].concat()).is_err(), "{args:?} was taken");
        }
    }
}
