//! The options and passes of a run.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use uva_batch::{Aggregation, BatchSpec, Column, FeatureType, SlotRoom, StaticShapes};
use uva_graph::part::first_cut;
use uva_graph::{Dataset, Metagraph, Split, TypedDataset, Verify};
use uva_propagate::HopSet;
use uva_sample::{
    Expand, FanoutPer, FanoutSpec, Fanouts, MAX_FANOUT, MAX_LAYERS, OrderEdges, SampleError, SamplerKind,
    SamplerOptions, TimePick, TimeRule, Walks,
};

use crate::RuntimeError;
use crate::backend::obstacle::{check_sums, obstacle_in_table};
use crate::machine::pin_cores::PinCores;
use crate::machine::share_of_cores;
use crate::options::checked_files::CheckedFiles;
use crate::options::first_layer::FirstLayer;
use crate::options::hop_options::HopBatches;
use crate::options::input_nodes::{NodesFiles, TypeName, open_for_batches};
use crate::options::look_ahead::LookAhead;
use crate::options::part::{Part, Standby};
use crate::options::reader::{CopiedFiles, DiskReader, Features, HostPages};
use crate::options::seed_order::{AskedOrder, MadeOrder};
use uva_options::OptionPurpose::{Identity, Layout, Plan, Speed};
use uva_options::{Field, OptionError, OptionValue, Options as _, Real, named, options};

/// The most samplers of a run. The producer's set-up carries a descriptor for each of them in addition to its own six,
/// and a hand-over message holds [`MAX_FDS`](uva_mem::handover::MAX_FDS).
pub const MAX_SAMPLERS: usize = 120;

const BATCHES: &str = "Batches";
const PIPELINE: &str = "Pipeline";

options! {
    /// How batches are made. The same values reach every role, so that each computes the same schedule and the same
    /// slot layout without asking another.
    ///
    /// Every option of the loader is declared here and nowhere else: the command line, the configuration file, Python's
    /// keywords, fingerprints and the reference are made from these declarations ([`uva_options`]).
    pub struct LoaderOptions {
        /// Kind of sampler (docs/guide/samplers.md)
        sampler_kind: SamplerKind = SamplerKind::default()
            => Field::choice::<SamplerKind>("KIND").of(BATCHES, &[Identity, Plan]),
        /// In-neighbours sampled per node and hop, from the seeds outward; -1 takes all. One number a model layer. For
        /// sampler kinds that draw per hop: draws of the hop. In a typed graph also by the names of relations:
        /// `15,10,5;writes=5,5,2`
        fanouts: FanoutSpec = FanoutSpec::from([15, 10, 5])
            => Field::fanouts(MAX_LAYERS, MAX_FANOUT).of(BATCHES, &[Identity, Plan]).in_every_checkpoint()
                .brief("Neighbours per node and hop"),
        /// Meaning of a fanout in a typed graph: neighbours in each relation, or in all relations into the node's type
        /// together; `fanouts` are then by the names of node types
        fanout_per: FanoutPer = FanoutPer::Relation
            => Field::choice::<FanoutPer>("WHAT").of(BATCHES, &[Identity]),
        /// Node type whose splits are seeds, in a typed graph
        target: Option<TypeName> = None
            => Field::text::<TypeName>("TYPE", "a node type").of(BATCHES, &[Identity])
                .unless_given("that of `meta.json`"),
        /// Random walks from each node, with `sampler_kind=walk`
        walks: u32 = Walks::default().count
            => Field::within("WALKS", 1, Walks::MOST_COUNT as u64).of(BATCHES, &[Identity, Plan]).unless_given("10")
                .only_with("sampler_kind", kinds_that_walk),
        /// Maximum length of a walk
        walk_length: u32 = Walks::default().length
            => Field::within("STEPS", 1, Walks::MOST_LENGTH as u64).of(BATCHES, &[Identity, Plan]).unless_given("4")
                .only_with("sampler_kind", kinds_that_walk),
        /// Probability, in per cent, that a walk ends before each step but its first
        walk_stop: u32 = Walks::default().stop
            => Field::within("PERCENT", 0, 100).of(BATCHES, &[Identity, Plan]).unless_given("25")
                .only_with("sampler_kind", kinds_that_walk),
        /// Draw neighbours with replacement
        replace: bool = false
            => Field::switch().of(BATCHES, &[Identity, Plan]).in_every_checkpoint(),
        /// Seed nodes per batch
        batch_size: usize = 1024
            => Field::from("NODES", 1).of(BATCHES, &[Identity, Plan]).in_every_checkpoint()
                .brief("Seed nodes per batch"),
        /// Drop an epoch's last batch if it is smaller than `batch_size`
        drop_last: bool = false
            => Field::switch().of(BATCHES, &[Identity, Plan]).in_every_checkpoint(),
        /// Random seed of shuffling, sampling and the model; batches are the same for any number of `samplers`
        seed: u64 = 0
            => Field::from("SEED", 0).of(BATCHES, &[Identity, Plan]).in_every_checkpoint().brief("Random seed"),
        /// Number of consecutive batches in which a node keeps its picks, so that they share rows and caches hit more; 1
        /// picks for each batch
        batch_dependency: u32 = 1
            => Field::at_least("BATCHES", 1).of(BATCHES, &[Identity, Plan]),
        /// Nodes that a hop draws neighbours for: all nodes so far, again in each hop (as DGL), or the new nodes only (as
        /// PyG, and as its trim_to_layer requires)
        expand: Expand = Expand::All
            => Field::choice::<Expand>("NODES").of(BATCHES, &[Identity]),
        /// Make each seed the root of a tree that shares no nodes with others, in a typed graph
        disjoint: bool = false
            => Field::switch().of(BATCHES, &[Identity, Layout]),
        /// Edges that are visible at the time of a tree's seed, in a typed graph with times (time.npy); trees are disjoint
        time_rule: Option<TimeRule> = None
            => Field::choice::<TimeRule>("RULE").of(BATCHES, &[Identity, Layout]).unless_given("all, at any time"),
        /// Length of the time before the seed's in which edges are visible, in the unit of the times
        time_window: Option<u64> = None
            => Field::within("LENGTH", 0, i64::MAX as u64).of(BATCHES, &[Identity]).needs("time_rule")
                .unless_given("any length"),
        /// Neighbours picked from the visible ones
        time_pick: TimePick = TimePick::Uniform
            => Field::choice::<TimePick>("PICK").of(BATCHES, &[Identity]).needs("time_rule").unless_given("uniform"),
        /// Time of seeds that have no other: neither times of their split (train_time.npy) nor of their type (time.npy)
        seed_time: Option<i64> = None
            => Field::text::<i64>("TIME", "an integer").of(BATCHES, &[Identity]).needs("time_rule"),
        /// Order of the training seeds: shuffled; by proximity in the graph, over K sequences, or as few as the labels of
        /// batches allow; or shuffled segments of G seeds by proximity (docs/guide/orders.md)
        seed_order: AskedOrder = AskedOrder::Shuffle
            => Field::text::<AskedOrder>("ORDER", "`shuffle`, `proximity`, `proximity:8`, `segments:256`")
                .of(BATCHES, &[Identity, Plan]),
        /// File with the sequences of the order, as `uvatrain order` writes it
        order_file: Option<PathBuf> = None
            => Field::path("FILE").of(BATCHES, &[Identity]).named("order").needs("seed_order")
                .unless_given("computed at the start"),
        /// Edges that the proximity of nodes follows
        order_edges: OrderEdges = OrderEdges::Both
            => Field::choice::<OrderEdges>("EDGES").of(BATCHES, &[Identity]).needs("seed_order").unless_given("both"),
        /// Maximum increase of the distance between the label distribution of batches and that of all seeds (total variation)
        /// over shuffled batches, where the number of sequences is chosen
        order_tolerance: f64 = 0.05
            => Field::real("X", Real::NotNegative).of(BATCHES, &[Identity]).needs("seed_order").unless_given("0.05"),
        /// Add the position in indices.npy of each edge to blocks: 8 bytes an edge
        edge_ids: bool = false
            => Field::switch().of(BATCHES, &[Layout]),
        /// Add the feature rows of edges (edge_feat.npy) and their positions, as with `edge_ids`, to blocks. Built-in models
        /// that require them always have them
        edge_attr: bool = false
            => Field::switch().of(BATCHES, &[Layout]),
        /// Add the edge types (edge_type.npy) and their positions, as with `edge_ids`, to blocks: 2 bytes an edge
        edge_type: bool = false
            => Field::switch().of(BATCHES, &[Layout]),
        /// Add the positions of the seeds in their split to batches: 8 bytes a seed, for per-example data
        input_id: bool = false
            => Field::switch().of(BATCHES, &[Layout]),
        /// Pad batches to static shapes, so that iterations can be captured in CUDA graphs. Hashes do not change
        pad: Pad = Pad::Off
            => Field::choice::<Pad>("SHAPES").of(BATCHES, &[Identity, Layout]),
        /// Type of the feature values of batches: that of the table, or float32, to which the producer converts
        feature_type: FeatureType = FeatureType::Table
            => Field::choice::<FeatureType>("TYPE").of(BATCHES, &[Layout])
                .unless_given("float32 for a built-in model, else table"),
        /// Aggregation of the outermost hop's rows by the producer: batches then have one row a destination
        /// (docs/guide/aggregation.md). For models of your own, with `uvatrain run` and in Python
        aggregation: Aggregation = Aggregation::None
            => Field::choice::<Aggregation>("HOW").of(BATCHES, &[Layout]).named("aggregate").unless_given("none"),
        /// Add the row of each maximum, with `aggregate=max`: `argmax` of a batch, 4 bytes a value
        aggregate_argmax: bool = false
            => Field::switch().of(BATCHES, &[Layout]).only_with("aggregate", of_maxima),
        /// Roles that make batches: samplers and a producer, or workers that each make whole batches, for training on a CPU
        /// (docs/internals/architecture.md)
        prepare: Prepare = Prepare::Roles
            => Field::choice::<Prepare>("WAY").of(PIPELINE, &[Speed]),
        /// Sampler processes, or threads with `in_process`; with `prepare=whole` workers, as threads of one process
        samplers: usize = 1
            => Field::within("W", 1, MAX_SAMPLERS as u64).of(PIPELINE, &[Speed])
                .computed("a quarter of the CPU cores, 1 to 8", || share_of_cores(4).min(8).to_string())
                .brief("Sampler processes"),
        /// Pin each sampler to its own CPU core; with more samplers than cores, samplers share cores
        pin_samplers: bool = false
            => Field::switch().of(PIPELINE, &[Speed]).only_with("prepare", by_roles),
        /// Pin each worker to its own CPU core, of all that the process may use (the default of the value) or of a list; with
        /// more workers than cores, workers share cores
        pin_cores: Option<PinCores> = None
            => Field::text::<PinCores>("LIST", "`all`, or cores like `0,2,4-7`").of(PIPELINE, &[Speed])
                .only_with("prepare", by_workers).bare("all").unless_given("workers are not pinned"),
        /// Feature slots between producer and consumer; with 2, one is filled while the model trains on the other. With
        /// `prepare=whole` there is one more for each worker but the first
        feature_slots: usize = 2
            => Field::within("SLOTS", 1, 64).of(PIPELINE, &[Speed]).named("slots"),
        /// Batch slots between samplers and producer, at least W + 2
        batch_slots: Option<usize> = None
            => Field::within("SLOTS", 3, 1024).of(PIPELINE, &[Speed]).only_with("prepare", by_roles)
                .unless_given("W + 2, and 8 or more where a batch has at most 1 MiB of ids and blocks"),
        /// Maximum size of a batch's ids and blocks, and also of its feature rows; required with a fanout of -1. 512MiB,
        /// 6GiB, 1.5GB
        slot_bytes: Option<u64> = None
            => Field::size().of(PIPELINE, &[Layout])
                .unless_given("the largest batch that `batch_size` and `fanouts` allow"),
        /// Threads that copy feature rows in the producer
        gather_threads: usize = 1
            => Field::within("T", 1, 1024).of(PIPELINE, &[Speed]).only_with("prepare", by_roles)
                .computed("a quarter of the CPU cores, at least 1", || share_of_cores(4).to_string()),
        /// Where the CPU reads feature rows: memory, or disk for each batch (docs/guide/disk.md)
        features: Features = Features::Auto
            => Field::choice::<Features>("FROM").of(PIPELINE, &[Speed])
                .brief("Source of feature rows: memory, disk"),
        /// Pages of the feature table, of neighbour lists and of hop tables that CPU threads read from memory
        /// (docs/guide/disk.md)
        host_pages: HostPages = HostPages::Auto
            => Field::choice::<HostPages>("PAGES").of(PIPELINE, &[Speed]),
        /// Method of reading rows from disk
        reader: DiskReader = DiskReader::Auto
            => Field::choice::<DiskReader>("HOW").of(PIPELINE, &[Speed]).only_with("features", from_disk)
                .unless_given("auto"),
        /// Number of sampled batches whose rows are read from disk ahead: at most the number of batch slots minus 1; 0
        /// disables reading ahead (docs/guide/disk.md)
        look_ahead: LookAhead = LookAhead::Auto
            => Field::text::<LookAhead>("BATCHES|auto", "0, 4, `auto`").of(PIPELINE, &[Speed])
                .only_with("features", from_disk)
                .unless_given("2, unless a cache evicts rows"),
        /// Whether batches carry the in-degree, in the whole graph, of each input node. It is the model's wish: GCN
        /// weighs by them.
        degrees: bool = false => Field::internal(),
        /// Whether the producer gathers the rows that it sums into a separate buffer first: where slots are on a GPU.
        gathers_before_sums: bool = false => Field::internal(),
        /// Columns of the output of the first layer, where the producer chooses batch by batch whether it sums. It never does
        /// where that layer would multiply before it sums.
        sums_chosen_for: Option<usize> = None => Field::internal(),
        /// Whether the producer chooses by a batch's counts alone, in a run that tries nothing.
        sums_by_counts: bool = false => Field::internal(),
        /// The splits whose seeds each epoch reorders. Front ends set it for one split.
        shuffled: Shuffled = Shuffled::default() => Field::internal(),
        /// Files of nodes in place of the training split's, for every process of the run to read.
        input_nodes: Option<NodesFiles> = None => Field::internal(),
        /// A hop set whose rows stand in for the feature table, for every process of the run to open.
        first_layer: Option<FirstLayer> = None => Field::internal(),
        /// The order of the training seeds, where it is another than the shuffle. The process that sees the options first
        /// makes it, and hands it to the others.
        made_order: Option<MadeOrder> = None => Field::internal(),
        /// The shapes that batches are padded to. The process that sees the options first estimates them, and sends them to
        /// the others.
        shapes: Option<StaticShapes> = None => Field::internal(),
        /// Where the batches are of a hop set: its tables that they have, and the order of its rows.
        hops: Option<HopBatches> = None => Field::internal(),
        /// The files of feature rows, as the process that checked them found them: where rows are read from disk.
        checked_files: Option<CheckedFiles> = None => Field::internal(),
        /// The files that processes copy to 2 MiB pages. The process that plans the run chooses them.
        copied_files: CopiedFiles = CopiedFiles::default() => Field::internal(),
        /// The size of feature slots on a GPU, where it is less than that of the largest batch. Estimated and sent in the
        /// same way.
        slot_room: Option<SlotRoom> = None => Field::internal(),
        /// Which of an epoch's batches are this run's, where several processes divide them.
        part: Part = Part::default() => Field::internal(),
        /// Whether each sampler makes batches for all of these processes.
        shared_samplers: bool = false => Field::internal(),
        /// Which of these processes train from a batch of each epoch on only.
        standby: Standby = Standby::default() => Field::internal(),
    }
}

named! {
    /// Whether batches are padded to static shapes (docs/guide/python.md).
    pub enum Pad = Off {
        /// No padding.
        Off = "off",
        /// Padding to shapes estimated from 20 batches: the mean plus five standard deviations. Larger batches keep their size.
        Auto = "auto",
    }
}

named! {
    /// The roles that make batches.
    pub enum Prepare = Roles {
        /// Samplers pick neighbours, and a producer gathers their rows.
        Roles = "roles",
        /// Each worker samples a batch and then gathers its rows, alone.
        Whole = "whole",
    }
}

fn by_roles() -> Vec<&'static str> {
    vec![Prepare::Roles.name()]
}

fn by_workers() -> Vec<&'static str> {
    vec![Prepare::Whole.name()]
}

fn from_disk() -> Vec<&'static str> {
    vec![Features::Auto.name(), Features::Disk.name()]
}

fn of_maxima() -> Vec<&'static str> {
    vec![Aggregation::Max.name()]
}

/// The kinds that use the options of walks.
fn kinds_that_walk() -> Vec<&'static str> {
    SamplerKind::ALL.into_iter().filter(|kind| kind.walks()).map(SamplerKind::name).collect()
}

/// The splits whose seeds each epoch reorders. The others keep the order of their files, or of the nodes that were given
/// instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shuffled {
    train: bool,
    valid: bool,
    test: bool,
}

impl Default for Shuffled {
    fn default() -> Self {
        Self { train: true, valid: false, test: false }
    }
}

impl Shuffled {
    /// Whether this split's are.
    #[must_use]
    pub fn has(self, split: Split) -> bool {
        match split {
            Split::Train => self.train,
            Split::Valid => self.valid,
            Split::Test => self.test,
        }
    }

    /// The same, except for one split.
    #[must_use]
    pub fn with(mut self, split: Split, shuffle: bool) -> Self {
        match split {
            Split::Train => self.train = shuffle,
            Split::Valid => self.valid = shuffle,
            Split::Test => self.test = shuffle,
        }
        self
    }
}

impl OptionValue for Shuffled {
    fn of_text(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    fn text(&self) -> String {
        self.json().to_string()
    }

    fn json(&self) -> Value {
        json!({ "train": self.train, "valid": self.valid, "test": self.test })
    }

    fn of_json(value: &Value) -> Option<Self> {
        Self::deserialize(value).ok()
    }
}

/// What is wrong with a node of a part near which lists are missing.
pub fn cut_around(node: i64, hops: usize) -> String {
    format!(
        "node {node} is too near to the border of this part: lists within {hops} in-hops of it are missing, so that it \
         would get other neighbours than in the whole dataset. Use the whole dataset, or nodes of the part's own splits"
    )
}

impl LoaderOptions {
    /// Whether every hop takes all neighbours, so that nothing is drawn.
    pub fn takes_all_neighbours(&self) -> bool {
        self.sampler_kind.picks_in_lists() && self.fanouts.takes_all()
    }

    /// How neighbours are sampled in a homogeneous graph.
    pub fn sampling(&self) -> SamplerOptions {
        self.sampling_by(self.fanouts.of_one_relation())
    }

    /// How neighbours are sampled in a graph with these relations.
    ///
    /// # Errors
    /// The name in `fanouts` that the graph does not have, or the relation without a valid list.
    pub fn sampling_in(&self, metagraph: &Metagraph) -> Result<SamplerOptions, RuntimeError> {
        let fanouts = self.fanouts.in_graph(metagraph, self.fanout_per).map_err(SampleError::from)?;
        Ok(self.sampling_by(fanouts))
    }

    fn sampling_by(&self, fanouts: Fanouts) -> SamplerOptions {
        SamplerOptions {
            kind: self.sampler_kind,
            fanouts,
            fanout_per: self.fanout_per,
            replace: self.replace,
            seed: self.seed,
            batch_dependency: self.batch_dependency,
            expand: self.expand,
            edge_ids: self.has_edge_ids(),
            trees: self.trees(),
            walks: Walks { count: self.walks, length: self.walk_length, stop: self.walk_stop },
        }
    }

    /// Whether blocks have the places of their edges. Edge rows and types are found by them.
    fn has_edge_ids(&self) -> bool {
        self.edge_ids || self.edge_attr || self.edge_type
    }

    /// Whether batches have the in-degrees of their nodes: for models that require them, and for sums weighted by them.
    pub(crate) fn has_degrees(&self) -> bool {
        self.degrees || self.aggregation == Aggregation::Degrees
    }

    /// Opens the dataset or hop set of a run in another of its processes, which has checked it: with the same nodes as
    /// there.
    ///
    /// # Errors
    /// If the dataset or the file of nodes has changed since, or the files of rows that are read from disk.
    pub fn open_again(&self, dataset: &Path) -> Result<Dataset, RuntimeError> {
        let how = Verify::HeadersOnly;
        let seeds = self.input_nodes.as_ref().map(NodesFiles::seeds);
        let open = || open_for_batches(dataset, how, self.target.as_ref(), seeds.as_ref());
        let dataset = HopSet::open_or(dataset, how, open)?;
        let dataset = match &self.first_layer {
            Some(rows) => rows.in_place(dataset)?,
            None => dataset,
        };
        if let Some(checked) = &self.checked_files {
            checked.check(&dataset)?;
        }
        match &self.input_nodes {
            Some(files) => files.in_place(dataset),
            None => Ok(dataset),
        }
    }

    /// The options that determine the layout of batches of this dataset.
    ///
    /// # Errors
    /// As [`sampling_in`](Self::sampling_in), and if the dataset does not have the node type of the seeds.
    pub fn batch_spec(&self, dataset: &TypedDataset) -> Result<BatchSpec, RuntimeError> {
        let asked = [
            (self.has_degrees(), Column::Degrees),
            (self.has_edge_ids(), Column::EdgeIds),
            (self.edge_attr, Column::EdgeAttr),
            (self.edge_type, Column::EdgeType),
            (self.input_id, Column::InputId),
            (self.trees().is_some(), Column::Tree),
            (self.time_rule.is_some(), Column::SeedTime),
            (self.aggregate_argmax, Column::Argmax),
        ];
        Ok(BatchSpec {
            sampling: self.sampling_in(dataset.metagraph())?,
            batch_size: self.batch_size,
            target: TypeName::target_in(self.target.as_ref(), dataset)?,
            slot_bytes: self.slot_bytes,
            feature_type: self.feature_type,
            aggregation: self.aggregation,
            gathers_before_sums: self.gathers_before_sums,
            chooses_sums: self.sums_chosen_for.is_some(),
            asked: asked.into_iter().filter(|(asked, _)| *asked).map(|(_, column)| column).collect(),
            shapes: self.shapes.clone(),
            tables: self.hops.as_ref().map(|hops| hops.tables.len()),
        })
    }

    /// The least number of batch slots for which samplers do not wait for each other: one each, one at the producer and
    /// one ready.
    pub fn fewest_batch_slots(&self) -> usize {
        self.samplers + 2
    }

    /// Checks that batches with these options can be sampled in the graph of this dataset.
    pub(super) fn check_graph(&self, dataset: &Dataset) -> Result<(), RuntimeError> {
        if self.edge_type && dataset.edge_types().is_none() {
            let reason =
                "the dataset has no edge_type.npy, where the edge types are (docs/reference/data-format.md)";
            return Err(OptionError::of("edge_type", reason).into());
        }
        if self.trees().is_some() {
            let option = if self.time_rule.is_some() { "time_rule" } else { "disjoint" };
            let reason = match dataset.metagraph().is_named() {
                true => "not supported yet for a graph of one node type and one relation with features",
                false => "times and trees need format 2: `uvatrain import --from npy` converts",
            };
            return Err(OptionError::of(option, reason).into());
        }
        let no_graph = || {
            let problem = "batches are sampled in a graph, and this dataset has none";
            RuntimeError::input(problem).in_file(dataset.path())
        };
        let graph = dataset.graph().ok_or_else(no_graph)?;
        self.sampling_in(dataset.metagraph())?.check(&graph)?;
        TypeName::target_in(self.target.as_ref(), dataset)?;
        self.check_part(dataset)?;
        let kind = self.sampler_kind;
        if kind.needs_weights()
            && let Err(error) = dataset.weights_to_pick_by()
        {
            return Err(RuntimeError::input(format!("`sampler_kind={kind}`: {error}")));
        }
        check_sums(self.aggregation, obstacle_in_table(dataset.table().element))
    }

    /// Checks that batches stay within what a part of a partitioned dataset has: also those around nodes that stand in
    /// for a split's. Every whole dataset passes.
    ///
    /// # Errors
    /// [`RuntimeError::Option`] naming the option, and how far the part reaches, or the node.
    pub fn check_part(&self, dataset: &Dataset) -> Result<(), RuntimeError> {
        let Some(part) = dataset.part() else { return Ok(()) };
        let hops = part.hops as usize;
        let sampling = self.sampling();
        sampling.check_reach(hops).map_err(SampleError::from)?;
        let reach = sampling.kind.reach(sampling.fanouts.hops(), sampling.walks.length as usize);
        let (Some(reach), Some((_, ids))) = (reach, dataset.chosen()) else { return Ok(()) };
        match first_cut(dataset, ids, reach) {
            None => Ok(()),
            Some(place) => Err(OptionError::of("input_nodes", cut_around(ids[place], reach)).into()),
        }
    }

    /// Checks that the options of batches that are sampled do not contradict each other.
    pub(super) fn check_sampling(&self) -> Result<(), RuntimeError> {
        let kind = self.sampler_kind;
        for (given, option, what) in
            [(self.edge_attr, "edge_attr", "features"), (self.edge_type, "edge_type", "types")]
        {
            if given && !kind.picks_in_lists() {
                let reason = format!(
                    "not supported with `sampler_kind={kind}`, whose edges are not edges of the dataset and have no {what}"
                );
                return Err(OptionError::of(option, reason).into());
            }
        }
        if self.aggregate_argmax && self.aggregation != Aggregation::Max {
            let reason =
                format!("only valid with `aggregate=max`, not with `aggregate={}`", self.aggregation);
            return Err(OptionError::of("aggregate_argmax", reason).into());
        }
        if self.seed_order == AskedOrder::Shuffle && self.order_file.is_some() {
            let reason = "not supported with `seed_order=shuffle`; omit it, or give `seed_order=proximity`";
            return Err(OptionError::of("order", reason).into());
        }
        let edges_count = self.seed_order != AskedOrder::Shuffle && self.order_file.is_none();
        if self.order_edges != OrderEdges::Both && !edges_count {
            let reason = "only valid with a `seed_order` whose sequences are computed; omit it";
            return Err(OptionError::of("order_edges", reason).into());
        }
        let is_chosen = self.seed_order == AskedOrder::Proximity(None);
        if self.order_tolerance != Self::default().order_tolerance && !is_chosen {
            let reason = format!(
                "not supported with `seed_order={}`, which chooses no number of sequences; omit it, or give `seed_order=proximity`",
                self.seed_order
            );
            return Err(OptionError::of("order_tolerance", reason).into());
        }
        self.sampling().check_kind().map_err(SampleError::from)?;
        let Part { index, of } = self.part;
        if of == 0 {
            return Err(OptionError::new("world_size", of, "expected 1 or more").into());
        }
        if index >= of {
            let reason = format!("expected 0 to {}, with `world_size={of}`", of.saturating_sub(1));
            return Err(OptionError::new("rank", index, reason).into());
        }
        if self.prepare == Prepare::Whole {
            return self.check_whole();
        }
        let fewest = self.fewest_batch_slots();
        if let Some(slots) = self.batch_slots.filter(|slots| *slots < fewest) {
            let reason = format!(
                "with {} samplers at least {fewest} are required, so that no sampler waits for another",
                self.samplers
            );
            return Err(OptionError::new("batch_slots", slots, reason).into());
        }
        Ok(())
    }

    /// The same for a hop set: workers read its rows, and nothing is sampled.
    #[must_use]
    pub fn of_hops(self, hops: HopBatches) -> Self {
        let (prepare, feature_type) = (Prepare::Whole, FeatureType::Table);
        Self { hops: Some(hops), prepare, feature_type, ..self }
    }

    /// The same for a model on a GPU: a producer copies rows to the GPU by the places that samplers give it.
    #[must_use]
    pub fn of_hops_on_gpu(self) -> Self {
        Self { prepare: Prepare::Roles, input_id: true, ..self }
    }

    fn check_whole(&self) -> Result<(), RuntimeError> {
        if let LookAhead::Batches(batches @ 1..) = self.look_ahead {
            let reason = "not supported with `prepare=whole`, where a worker reads the rows of its batch after sampling it: \
                          omit `look_ahead`, or give 0";
            return Err(OptionError::new("look_ahead", batches, reason).into());
        }
        if self.feature_slots < 2 {
            let reason = "with `prepare=whole` each worker fills a slot while the consumer holds another: give 2 or more";
            return Err(OptionError::new("slots", self.feature_slots, reason).into());
        }
        Ok(())
    }

    /// Feature slots in all. Workers fill one each at the same time, so that there are more than workers: a worker whose
    /// batch comes next then never waits for another's.
    #[must_use]
    pub fn all_feature_slots(&self) -> usize {
        match self.prepare {
            Prepare::Roles => self.feature_slots,
            Prepare::Whole => self.feature_slots + self.samplers - 1,
        }
    }

    /// The options that a checkpoint has of any batches.
    pub(super) fn options_of_batches(&self) -> Map<String, Value> {
        let default = Self::default();
        let mut found = self.values_for(Identity);
        found.retain(|name, value| {
            Self::field(name).is_some_and(|field| {
                field.only_with.is_some() || field.in_every_checkpoint || *value != default.json(field)
            })
        });
        found
    }

    /// These options with the content of files, which counts in place of their paths, and with the splits that are
    /// shuffled.
    pub(super) fn with_content(&self, mut found: Map<String, Value>) -> Map<String, Value> {
        // Where the file lies does not count, but what it holds.
        found.shift_remove("order");
        if let Some(file) = self.made_order.as_ref().and_then(MadeOrder::file) {
            found.insert("order_file".to_owned(), file.into());
        }
        if let Some(files) = &self.input_nodes {
            found.insert("input_nodes".to_owned(), files.nodes.clone().into());
        }
        if let Some(rows) = &self.first_layer {
            found.insert("first_layer".to_owned(), rows.content.clone().into());
        }
        if self.shuffled != Self::default().shuffled {
            found.insert("shuffled".to_owned(), self.shuffled.json());
        }
        // Checkpoints store the three as one list.
        let walks: Vec<Value> = ["walks", "walk_length", "walk_stop"]
            .into_iter()
            .filter_map(|name| found.shift_remove(name))
            .collect();
        if !walks.is_empty() {
            found.insert("walks".to_owned(), walks.into());
        }
        found
    }
}

impl LoaderOptions {
    /// The options of the run that left a checkpoint with this fingerprint; those that change no batch have their
    /// defaults.
    ///
    /// # Errors
    /// The entry that is not a valid value of an option.
    pub fn of_fingerprint(fingerprint: &Value) -> Result<Self, String> {
        let mut found = fingerprint.as_object().cloned().unwrap_or_default();
        if let Some(Value::Array(walks)) = found.shift_remove("walks") {
            let names = ["walks", "walk_length", "walk_stop"].map(str::to_owned);
            found.extend(names.into_iter().zip(walks));
        }
        // Of a hop set it says what it holds, and not where it lies.
        found.retain(|name, _| Self::field(name).is_some() && name != "first_layer");
        Self::deserialize(Value::Object(found)).map_err(|error| error.to_string())
    }
}

/// The passes of a run, and their splits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Passes {
    /// Training epochs, counted from 0 also after a resume.
    pub epochs: u32,
    /// Send the validation split through the slots after each epoch.
    pub validate: bool,
    /// Send the test split through the slots at the end.
    pub test: bool,
    /// Where to begin.
    pub start: Cursor,
    /// If set, the other fields are ignored: the consumer requests each pass.
    pub steered: bool,
}

/// How far training has come: what a checkpoint remembers of the schedule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cursor {
    /// The epoch in which the next batch lies.
    pub epoch: u32,
    /// Batches of that epoch already trained.
    pub batch: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_gives_back_the_options_that_batches_depend_on() {
        for options in [
            LoaderOptions { fanouts: [4, -1].into(), batch_size: 7, seed: 9, ..LoaderOptions::default() },
            LoaderOptions { replace: true, expand: Expand::New, ..LoaderOptions::default() },
            LoaderOptions {
                sampler_kind: SamplerKind::from_name("walk").unwrap(),
                walks: 3,
                walk_length: 5,
                walk_stop: 40,
                batch_dependency: 4,
                ..LoaderOptions::default()
            },
        ] {
            let mut fingerprint = options.fingerprint();
            fingerprint.insert("dataset".to_owned(), "0".into());
            assert_eq!(LoaderOptions::of_fingerprint(&fingerprint.into()), Ok(options));
        }
        let refused = LoaderOptions::of_fingerprint(&json!({ "batch_size": "many" }));
        assert!(refused.unwrap_err().contains("batch_size"));
    }

    #[test]
    fn more_samplers_than_one_message_can_name_are_refused() {
        const { assert!(MAX_SAMPLERS + 6 <= uva_mem::handover::MAX_FDS) };
        let with = |samplers| LoaderOptions { samplers, ..LoaderOptions::default() }.check();
        with(MAX_SAMPLERS).unwrap();
        let refused = with(MAX_SAMPLERS + 1).unwrap_err();
        assert!(refused.to_string().contains("samplers=121"), "{refused}");
        assert_eq!(refused.exit_code(), 2);
    }
}
