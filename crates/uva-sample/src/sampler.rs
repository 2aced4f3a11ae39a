//! The interface of all samplers, and the graph as they see it.

use uva_graph::Csc;

use crate::{BatchCounts, BatchKey, BatchMut, InvalidOption, MiniBatch, SampleError, SamplerOptions};

/// Makes mini-batches. A batch is a function of the graph, the options and its [`BatchKey`] alone, whatever the sampler
/// did before, so samplers share nothing: for several threads, make several.
///
/// A sampler allocates when it is made ([`sampler`](crate::sampler())) and not afterwards.
pub trait BatchSampler: Send {
    /// The options that the sampler was made with.
    fn options(&self) -> &SamplerOptions;

    /// Samples the batch `key` around `seeds` (ids of the graph, each once) into the caller's memory, which
    /// [`BatchBounds`](crate::BatchBounds) sizes.
    ///
    /// # Errors
    /// [`SampleError::BatchTooLarge`] where `out` is too short for the batch, and a precise error for seeds or a
    /// graph that cannot be. The content of `out` is unspecified then, and the sampler can be used on.
    fn sample(
        &mut self,
        key: BatchKey,
        seeds: &[i64],
        out: &mut BatchMut<'_>,
    ) -> Result<BatchCounts, SampleError>;

    /// [`sample`](Self::sample) into a batch that owns its memory.
    ///
    /// # Errors
    /// As [`sample`](Self::sample); the batch is empty then.
    fn sample_into(
        &mut self,
        key: BatchKey,
        seeds: &[i64],
        batch: &mut MiniBatch,
    ) -> Result<BatchCounts, SampleError> {
        batch.fill(|out| self.sample(key, seeds, out))
    }
}

/// The graph as a sampler sees it.
#[derive(Clone, Copy, Debug)]
pub struct GraphView<'g> {
    /// The lists.
    pub csc: Csc<'g>,
    /// The weight of each edge, in the order of the *dataset's* `indices.npy`, for kinds that
    /// [need weights](crate::SamplerKind::needs_weights). An edge whose weight is not above 0 does not exist for
    /// them.
    pub weights: Option<&'g [f32]>,
    /// Where `csc` is the dataset's graph in another order: the way back.
    pub home: Option<Home<'g>>,
    /// Lists of nodes below this are counted as cached ([`ListReads`](crate::ListReads)). In host memory a cache of
    /// lists is where the graph itself begins, once it is ordered by how often lists are read, so only the counting
    /// differs.
    pub cached_lists: usize,
}

/// From a graph in another order back to the dataset's edges. A list keeps the order of its entries, so that where it
/// begins says all.
#[derive(Clone, Copy, Debug)]
pub struct Home<'g> {
    /// The dataset's `indptr`.
    pub indptr: &'g [i64],
    /// The dataset's id of each node of the graph.
    pub nodes: &'g [i64],
}

impl<'g> From<Csc<'g>> for GraphView<'g> {
    fn from(csc: Csc<'g>) -> Self {
        Self { csc, weights: None, home: None, cached_lists: 0 }
    }
}

impl GraphView<'_> {
    /// Where the list of `node`, which is in range, begins in the dataset's `indices.npy`.
    #[inline]
    pub(crate) fn begin_at_home(&self, node: usize) -> usize {
        match self.home {
            // A node that is no node of the dataset has its list nowhere; readers look whether there is one.
            Some(home) => {
                let begin = usize::try_from(home.nodes[node]).ok().and_then(|id| home.indptr.get(id));
                begin.map_or(usize::MAX, |&begin| begin as usize)
            }
            None => self.csc.indptr[node] as usize,
        }
    }

    pub(crate) fn check_home(&self) -> Result<(), InvalidOption> {
        match self.home {
            Some(home)
                if home.nodes.len() != self.csc.nodes() || home.indptr.len() != home.nodes.len() + 1 =>
            {
                Err(InvalidOption::OriginalIds { given: home.nodes.len(), nodes: self.csc.nodes() })
            }
            _ => Ok(()),
        }
    }
}
