//! Creation of the order of a run's training seeds: once, in the first process with the options.

use std::ops::Range;
use std::time::Instant;

use uva_cuda::memory::HostMemory;
use uva_graph::{Dataset, Split};
use uva_options::OptionError;
use uva_sample::{EpochOrder, Follow, OrderEdges, Proximity, SeedSequences, Sequenced};

use super::file::{self, OrderFile};
use super::label_error::SeedLabels;
use crate::options::LoaderOptions;
use crate::options::seed_order::{AskedOrder, LabelErrors, MadeOrder};
use crate::{RuntimeError, machine};
use uva_options::ByteSize;

/// Maximum number of sequences that `auto` tries.
const MOST_TRIED: usize = 64;

impl LoaderOptions {
    /// Makes the order of the training seeds, if it is not the shuffle and still open. The order depends only on the
    /// dataset and the options, so every resumed run makes the same one.
    ///
    /// # Errors
    /// [`RuntimeError::Option`] if the order cannot be made for this dataset, does not fit into memory, or its file is
    /// for another dataset; [`RuntimeError::Input`] for a dataset without training nodes, or an invalid file.
    pub fn with_order(&self, dataset: &Dataset) -> Result<Self, RuntimeError> {
        let options = self.clone();
        Ok(match self.seed_order {
            AskedOrder::Shuffle => Self { made_order: None, ..options },
            _ if self.made_order.is_some() => options,
            asked => {
                self.check()?;
                self.check_dataset(dataset)?;
                Self { made_order: Some(make(self, asked, dataset)?), ..options }
            }
        })
    }
}

/// The order of a split's seeds in a run with these options. Only training may drop its last batch.
///
/// # Errors
/// [`RuntimeError::Failed`] in a process that has not received the sequences of the order; see also
/// [`EpochOrder::new`].
pub fn epoch_order(
    dataset: &Dataset,
    options: &LoaderOptions,
    split: Split,
) -> Result<EpochOrder, RuntimeError> {
    let drop_last = split == Split::Train && options.drop_last;
    in_batches(dataset, options, split, (options.batch_size, drop_last))
}

/// The order of a split's seeds in batches of this size, of which the last may be dropped if it is smaller.
pub(crate) fn in_batches(
    dataset: &Dataset,
    options: &LoaderOptions,
    split: Split,
    (batch_size, drop_last): (usize, bool),
) -> Result<EpochOrder, RuntimeError> {
    let shuffle = options.shuffled.has(split);
    let made = options.made_order.as_ref().filter(|_| split == Split::Train && shuffle);
    let sequenced = made.map(MadeOrder::sequenced).transpose()?.flatten();
    let len = dataset.seed_count(split);
    let of = (shuffle, sequenced.as_ref());
    Ok(EpochOrder::new(options.seed, split, len, of, batch_size, drop_last)?)
}

/// Makes `count` sequences of a dataset's training positions, in which nodes that are near in the graph follow one
/// another.
///
/// # Errors
/// [`RuntimeError::Input`] for a dataset without training nodes; [`RuntimeError::Usage`] if they do not fit into
/// memory.
pub fn sequences(
    dataset: &Dataset,
    (seed, edges): (u64, OrderEdges),
    count: u32,
) -> Result<SeedSequences, RuntimeError> {
    let train = training(dataset)?;
    check_memory(dataset, SequencesFrom::Graph(edges), count).map_err(RuntimeError::usage)?;
    machine::start_threads()?;
    let made = Proximity::new(dataset.csc(), train, edges, seed)?.sequences(0..count);
    Ok(SeedSequences::new(made, count as usize, train.len()))
}

fn training(dataset: &Dataset) -> Result<&[i64], RuntimeError> {
    match dataset.split(Split::Train) {
        [] => {
            let problem = "train_idx.npy is empty: there are no training nodes to order";
            Err(RuntimeError::input(problem).in_file(dataset.path()))
        }
        train => Ok(train),
    }
}

/// The origin of sequences.
#[derive(Clone, Copy)]
enum SequencesFrom {
    Graph(OrderEdges),
    File,
}

/// The problem with this many sequences, if they do not fit into memory.
fn check_memory(dataset: &Dataset, from: SequencesFrom, count: u32) -> Result<(), String> {
    let seeds = dataset.split(Split::Train).len();
    let threads = machine::share_of_cores(1);
    // Sequences are made, and then copied to shared memory; those of a file are kept in addition.
    let (copies, making, fewer) = match from {
        SequencesFrom::Graph(edges) => {
            let fewer = "give fewer sequences, or `order_edges=in`";
            (2, Proximity::bytes(&dataset.csc(), edges, seeds, threads), fewer)
        }
        SequencesFrom::File => (3, file::bytes_beside(seeds), "give fewer sequences"),
    };
    let bytes = copies * 4 * seeds as u64 * u64::from(count);
    let beside = making.saturating_add(SeedLabels::bytes(seeds, threads));
    let available = HostMemory::read()
        .map_err(|error| format!("cannot read how much memory is available: {error}"))?
        .to_be_had();
    if bytes.saturating_add(beside) > available {
        return Err(format!(
            "{count} sequences use {} while they are made, and making them uses {}; only {} are available: {fewer}",
            ByteSize::from_bytes(bytes),
            ByteSize::from_bytes(beside),
            ByteSize::from_bytes(available)
        ));
    }
    Ok(())
}

/// A source of sequences on demand.
enum Source<'d> {
    /// Sequences made from the graph.
    Graph(Box<Proximity<'d>>),
    /// The first sequences of a file, up to the maximum number that is followed.
    File(Vec<u32>),
}

impl Source<'_> {
    fn sequences(&self, numbers: Range<usize>, seeds: usize) -> Vec<u32> {
        match self {
            // Not truncated: there are at most as many as the options allow.
            Self::Graph(proximity) => proximity.sequences(numbers.start as u32..numbers.end as u32),
            Self::File(positions) => positions[numbers.start * seeds..numbers.end * seeds].to_vec(),
        }
    }
}

/// The inputs of an order.
struct Making<'d> {
    options: &'d LoaderOptions,
    source: Source<'d>,
    labels: Option<SeedLabels<'d>>,
    seeds: usize,
    /// Maximum number of sequences.
    most: usize,
    /// The identity of the file, if there is one.
    file: Option<String>,
    began: Instant,
}

fn make(options: &LoaderOptions, asked: AskedOrder, dataset: &Dataset) -> Result<MadeOrder, RuntimeError> {
    let refused = |reason: &str| Err(OptionError::new("seed_order", asked, reason).into());
    let graph = dataset.graph().ok_or_else(|| {
        OptionError::new(
            "seed_order",
            asked,
            "DATA has no graph: use `shuffle=chunks` for the rows of a hop set",
        )
    })?;
    if !options.shuffled.has(Split::Train) {
        return refused("the training seeds keep their given order: enable shuffling, or omit `seed_order`");
    }
    let train = training(dataset)?;
    let most_wanted = match asked {
        AskedOrder::Shuffle | AskedOrder::Segments(_) => 1,
        AskedOrder::Proximity(Some(count)) => count,
        // Sequences that are tried are kept until the number is settled.
        AskedOrder::Proximity(None) => MOST_TRIED as u32,
    };
    let from = options
        .order_file
        .as_ref()
        .map_or(SequencesFrom::Graph(options.order_edges), |_| SequencesFrom::File);
    check_memory(dataset, from, most_wanted)
        .map_err(|reason| OptionError::new("seed_order", asked, reason))?;
    machine::start_threads()?;
    let began = Instant::now();
    let (source, file, most) = match &options.order_file {
        Some(path) => {
            let OrderFile { positions, count, hash } = file::read(path, dataset, most_wanted as usize)?;
            (Source::File(positions), Some(format!("{count} sequences, {hash:016x}")), count)
        }
        None => {
            let proximity = Proximity::new(graph, train, options.order_edges, options.seed)?;
            (Source::Graph(Box::new(proximity)), None, usize::MAX)
        }
    };
    let labels = SeedLabels::of(dataset);
    let making = Making { options, source, labels, seeds: train.len(), most, file, began };
    match asked {
        AskedOrder::Proximity(None) => making.with_fewest(),
        AskedOrder::Proximity(Some(count)) if count as usize > making.most => Err(OptionError::new(
            "seed_order",
            asked,
            format!("the file of `order` has {} sequences", making.most),
        )
        .into()),
        AskedOrder::Proximity(Some(count)) => making.named(Follow::InTurns(count as usize), count as usize),
        AskedOrder::Shuffle | AskedOrder::Segments(0) => refused("this order has no sequences"),
        AskedOrder::Segments(length) => making.named(Follow::Segments(length as usize), 1),
    }
}

impl Making<'_> {
    fn seconds(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    /// The mean error of the labels of batches in an order; `None` for the shuffle.
    fn error(&self, labels: &SeedLabels<'_>, sequenced: Option<&Sequenced>) -> Result<f64, RuntimeError> {
        let LoaderOptions { seed, batch_size, drop_last, .. } = *self.options;
        let new = || {
            let of = (true, sequenced);
            Ok(EpochOrder::new(seed, Split::Train, self.seeds, of, batch_size.min(self.seeds), drop_last)?)
        };
        labels.error(&new)
    }

    /// The allowed excess over the shuffle's error.
    fn allowed(&self) -> f64 {
        let batch = (self.options.batch_size.min(self.seeds) as f64) * f64::from(self.options.part.of);
        (batch.sqrt() / self.seeds as f64).max(self.options.order_tolerance)
    }

    /// The requested order, for any labels of its batches. The labels are measured if that is cheap compared with
    /// making the sequences.
    fn named(self, follow: Follow, count: usize) -> Result<MadeOrder, RuntimeError> {
        let sequences = SeedSequences::new(self.source.sequences(0..count, self.seeds), count, self.seeds);
        let errors = match &self.labels {
            Some(labels) if count <= MOST_TRIED => {
                let sequenced = Sequenced { sequences: sequences.clone(), follow };
                Some(LabelErrors {
                    order: self.error(labels, Some(&sequenced))?,
                    shuffle: self.error(labels, None)?,
                    allowed: self.allowed(),
                })
            }
            _ => None,
        };
        let seconds = self.seconds();
        MadeOrder::new(follow, (sequences.all(), self.seeds), self.file, errors, seconds)
    }

    /// The order of the fewest sequences whose batches have labels near enough to those of all seeds, or the shuffle.
    fn with_fewest(self) -> Result<MadeOrder, RuntimeError> {
        let Some(labels) = &self.labels else {
            let reason = "the number of sequences is chosen by the classes of batches, but the dataset has no classes: give \
                          it, as in `seed_order=proximity:16`";
            return Err(OptionError::new("seed_order", self.options.seed_order, reason).into());
        };
        let (shuffle, allowed) = (self.error(labels, None)?, self.allowed());
        let mut before: Option<SeedSequences> = None;
        let mut last = LabelErrors { order: shuffle, shuffle, allowed };
        let mut count = 1;
        while count <= MOST_TRIED.min(self.most) {
            // At most two copies of the sequences exist at a time.
            let mut positions = Vec::with_capacity(count * self.seeds);
            let made = before.as_ref().map_or(0, SeedSequences::count);
            positions.extend_from_slice(before.as_ref().map_or(&[], SeedSequences::all));
            drop(before.take());
            positions.extend(self.source.sequences(made..count, self.seeds));
            let sequences = SeedSequences::new(positions, count, self.seeds);
            let follow = Follow::InTurns(count);
            let sequenced = Sequenced { sequences: sequences.clone(), follow };
            let order = self.error(labels, Some(&sequenced))?;
            last = LabelErrors { order, shuffle, allowed };
            tracing::debug!(count, order, shuffle, allowed, "an order's label error");
            if order - shuffle <= allowed {
                let seconds = self.seconds();
                let all = (sequences.all(), self.seeds);
                return MadeOrder::new(follow, all, self.file, Some(last), seconds);
            }
            before = Some(sequences);
            count *= 2;
        }
        let seconds = self.seconds();
        Ok(MadeOrder::shuffled(self.seeds, self.file, last, seconds))
    }
}
