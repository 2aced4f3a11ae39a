//! What can go wrong, sorted by what the user can do about it.

use std::io;
use std::path::PathBuf;

use uva_graph::GraphError;
use uva_sample::SampleError;

/// Why there is no plan, or why one cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CacheError {
    /// An option or the graph prevents sampling.
    #[error(transparent)]
    Sample(#[from] SampleError),
    /// A file of ids beside a plan cannot be read or written.
    #[error(transparent)]
    Graph(#[from] GraphError),
    /// The system refused to read or write a plan.
    #[error("{}: cannot {action}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What was tried, as a verb.
        action: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// More nodes than the slots of a feature cache can be numbered for.
    #[error("the graph has {nodes} nodes; caches are planned for fewer than 2^32")]
    TooManyNodes {
        /// Nodes in the graph.
        nodes: usize,
    },
    /// Calculated probabilities, for a kind of sampler that does not pick independently from each list.
    #[error(
        "the policy analytic computes the chance of each list's picks on their own, and `sampler_kind={kind}` makes none: \
         take presample, which samples and counts"
    )]
    AnalyticKind {
        /// The kind.
        kind: uva_sample::SamplerKind,
    },
    /// There is nothing to sample.
    #[error("train_idx.npy is empty: without training nodes there are no reads to cache for")]
    EmptyTrainSplit,
    /// The only batch of an epoch is a partial one, which is dropped.
    #[error(
        "an epoch of {seeds} training nodes has no full batch of {batch_size}, and `drop_last` leaves the partial \
         one out: lower `batch_size`"
    )]
    NoBatches {
        /// Training nodes.
        seeds: usize,
        /// Seeds in a batch.
        batch_size: usize,
    },
    /// No list that was read contains a neighbour.
    #[error(
        "the {seeds} training nodes lead to no neighbour: {batches} sampled batches read {rows} feature rows and no \
         entry of a list, so there is nothing that a cache would save"
    )]
    NothingToCache {
        /// Training nodes.
        seeds: usize,
        /// Batches that were sampled.
        batches: u64,
        /// Feature rows that they read.
        rows: u64,
    },
    /// The system gives no memory for the slots of a simulated cache.
    #[error("{0}")]
    Memory(String),
    /// A policy without hotness was asked for it.
    #[error("the {policy} policy fills its cache while a run goes on, so it cannot rank nodes beforehand")]
    Dynamic {
        /// Its name.
        policy: &'static str,
    },
    /// No epoch to count over.
    #[error("the {policy} policy was given no epoch to count over")]
    NoEpochs {
        /// Its name.
        policy: &'static str,
    },
    /// A timed run failed.
    #[error("cannot time {what}: {source}")]
    Timing {
        /// What was timed.
        what: &'static str,
        /// The cause.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A file of a plan is invalid.
    #[error("{}: {problem}", path.display())]
    Plan {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// A plan names nodes of another graph.
    #[error(
        "the plan was made for dataset {planned_name} (fingerprint {planned}), but this is {found_name} \
         (fingerprint {found}): make a plan for it with `uvatrain plan`"
    )]
    OtherDataset {
        /// Name in the plan.
        planned_name: String,
        /// Fingerprint in the plan.
        planned: String,
        /// Name of the dataset at hand.
        found_name: String,
        /// Its fingerprint.
        found: String,
    },
}

impl CacheError {
    /// Whether the input or an option is at fault, not the system: then a command line exits with code 2.
    #[must_use]
    pub fn is_bad_input(&self) -> bool {
        match self {
            Self::Graph(error) => error.is_bad_input(),
            Self::Io { source, .. } => uva_mem::files::is_about_the_name(source),
            Self::Timing { .. } | Self::Memory(_) => false,
            _ => true,
        }
    }
}
