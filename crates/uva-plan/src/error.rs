//! Errors, grouped by the remedy that a user has.

use std::io;
use std::path::PathBuf;

use uva_graph::GraphError;
use uva_sample::SampleError;

/// The reason why a plan cannot be made or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CacheError {
    /// An option or the graph prevents sampling.
    #[error(transparent)]
    Sample(#[from] SampleError),
    /// A file of ids that belongs to a plan cannot be read or written.
    #[error(transparent)]
    Graph(#[from] GraphError),
    /// The system failed to read or write a plan.
    #[error("{}: cannot {action}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The attempted action, as a verb.
        action: &'static str,
        /// The error of the system.
        source: io::Error,
    },
    /// The graph has more nodes than a feature cache has slot numbers.
    #[error("the graph has {nodes} nodes; caches are planned for fewer than 2^32")]
    TooManyNodes {
        /// Nodes in the graph.
        nodes: usize,
    },
    /// Probabilities cannot be calculated for a kind of sampler that does not pick independently from each list.
    #[error(
        "the policy analytic computes the probability of each pick in a list, but `sampler_kind={kind}` does not pick \
         in lists: use presample, which samples and counts"
    )]
    AnalyticKind {
        /// The kind.
        kind: uva_sample::SamplerKind,
    },
    /// The training split is empty.
    #[error("train_idx.npy is empty: without training nodes there are no reads to cache for")]
    EmptyTrainSplit,
    /// The only batch of an epoch is a partial one, and partial batches are dropped.
    #[error(
        "an epoch of {seeds} training nodes has no full batch of {batch_size}, and `drop_last` drops the partial \
         batch: lower `batch_size`"
    )]
    NoBatches {
        /// Training nodes.
        seeds: usize,
        /// Seeds in a batch.
        batch_size: usize,
    },
    /// All sampled lists are empty.
    #[error(
        "the {seeds} training nodes have no neighbours: {batches} sampled batches read {rows} feature rows and no \
         entry of a list, so a cache would save nothing"
    )]
    NothingToCache {
        /// Training nodes.
        seeds: usize,
        /// Batches that were sampled.
        batches: u64,
        /// Feature rows that they read.
        rows: u64,
    },
    /// Memory for the slots of a simulated cache cannot be allocated.
    #[error("{0}")]
    Memory(String),
    /// Hotness was requested from a policy that has none.
    #[error("the {policy} policy fills its cache during a run, so it cannot rank nodes beforehand")]
    Dynamic {
        /// Its name.
        policy: &'static str,
    },
    /// There is no epoch to count.
    #[error("the {policy} policy requires at least one epoch to count over")]
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
        /// The problem with the file.
        problem: String,
    },
    /// A plan is for another graph.
    #[error(
        "the plan was made for dataset {planned_name} (fingerprint {planned}), but this is {found_name} \
         (fingerprint {found}): make a plan for it with `uvatrain plan`"
    )]
    OtherDataset {
        /// Name in the plan.
        planned_name: String,
        /// Fingerprint in the plan.
        planned: String,
        /// Name of the present dataset.
        found_name: String,
        /// Its fingerprint.
        found: String,
    },
}

impl CacheError {
    /// Whether the input or an option causes the error, and not the system. The command line then exits with code 2.
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
