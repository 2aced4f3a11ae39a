//! The interface of all samplers, and their view of the graph.

use uva_graph::{Csc, EntryTimes, Relation, TypedDataset};

use crate::RelationEnds;
use crate::{BatchCounts, BatchKey, BatchMut, InvalidOption, MiniBatch, SampleError, SamplerOptions};

/// A source of mini-batches. A batch is a function of the graph, the options and its [`BatchKey`] alone, independent of
/// earlier batches. Samplers share nothing: make one per thread.
///
/// A sampler allocates only when it is made ([`sampler`](crate::sampler())), and remains usable after an error. With
/// lists that are divided among ranks ([`Divided`](crate::Divided)), neither holds.
pub trait BatchSampler: Send {
    /// The sampler's options.
    fn options(&self) -> &SamplerOptions;

    /// Samples the batch `key` around the `seeds` of each type, ids of the graph, into the caller's memory, sized by
    /// [`BatchBounds`](crate::BatchBounds). A repeated seed has its own row and picks, which equal those of the first;
    /// edges from that node lead to the first. Bounds then have to count it as one more node.
    ///
    /// # Errors
    /// [`SampleError::BatchTooLarge`] if `out` is too short for the batch, and a precise error for invalid seeds or an
    /// invalid graph. The content of `out` is unspecified then.
    fn sample_types(
        &mut self,
        key: BatchKey,
        seeds: Seeds<'_>,
        out: &mut BatchMut<'_, '_>,
    ) -> Result<BatchCounts, SampleError>;

    /// [`sample_types`](Self::sample_types) around seeds of the first type: the only one of a homogeneous graph.
    ///
    /// # Errors
    /// As [`sample_types`](Self::sample_types).
    fn sample(
        &mut self,
        key: BatchKey,
        seeds: &[i64],
        out: &mut BatchMut<'_, '_>,
    ) -> Result<BatchCounts, SampleError> {
        self.sample_types(key, (&[seeds][..]).into(), out)
    }

    /// Draws the picks that other ranks request in the hops of one batch, if this rank has no batch and the lists are
    /// divided among ranks ([`divided_sampler`](crate::divided_sampler)). Other samplers do nothing.
    ///
    /// # Errors
    /// [`SampleError::Exchange`]; an invalid graph.
    fn serve(&mut self) -> Result<(), SampleError> {
        Ok(())
    }

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

/// The seeds of a batch.
#[derive(Clone, Copy, Debug)]
pub struct Seeds<'s> {
    /// The seeds of each type, as ids of the graph.
    pub ids: &'s [&'s [i64]],
    /// The time of each seed, if batches are of [trees](SamplerOptions::trees) that see the graph at a time. Otherwise it
    /// is not read.
    pub times: &'s [&'s [i64]],
}

impl<'s> From<&'s [&'s [i64]]> for Seeds<'s> {
    /// Seeds without times.
    fn from(ids: &'s [&'s [i64]]) -> Self {
        Self { ids, times: &[] }
    }
}

/// A sampler's view of a homogeneous graph, or of the lists of one relation.
#[derive(Clone, Copy, Debug)]
pub struct GraphView<'g> {
    /// The lists.
    pub csc: Csc<'g>,
    /// The weight of each edge, in the order of the *dataset's* `indices.npy`, for kinds that [need
    /// weights](crate::SamplerKind::needs_weights). For them, an edge exists only if its weight is positive.
    pub weights: Option<&'g [f32]>,
    /// The way back to the dataset's edges, if `csc` is the dataset's graph in another order.
    pub home: Option<OriginalEdges<'g>>,
    /// Lists of nodes below this are counted as cached ([`ListReads`](crate::ListReads)). In host memory, the cached
    /// lists are simply the first lists of the graph, once it is ordered by how often lists are read. So only the
    /// counting differs.
    pub cached_lists: usize,
    /// Whether reads of the weights of cached lists count as cached too.
    pub cached_weights: bool,
}

/// The map from a graph in another order, or of some of the nodes, to the dataset's edges. A list keeps the order of its
/// entries, so its start in the dataset is enough.
#[derive(Clone, Copy, Debug)]
pub struct OriginalEdges<'g> {
    /// The dataset's `indptr`.
    pub indptr: &'g [i64],
    /// The dataset's id of each node of the graph.
    pub nodes: &'g [i64],
}

impl<'g> From<Csc<'g>> for GraphView<'g> {
    fn from(csc: Csc<'g>) -> Self {
        Self { csc, weights: None, home: None, cached_lists: 0, cached_weights: false }
    }
}

/// A sampler's view of a graph with any number of node types and relations.
#[derive(Clone, Debug)]
pub struct TypedView<'g> {
    /// Each node type.
    pub types: Vec<TypeView<'g>>,
    /// Each relation.
    pub relations: Vec<RelationView<'g>>,
}

/// One node type.
#[derive(Clone, Copy, Debug)]
pub struct TypeView<'g> {
    /// The number of nodes.
    pub nodes: usize,
    /// The id that each node had before the dataset was reordered; `None` if it was never reordered.
    pub original_ids: Option<&'g [i64]>,
}

/// One relation.
#[derive(Clone, Copy, Debug)]
pub struct RelationView<'g> {
    /// Its node types.
    pub ends: RelationEnds,
    /// Its lists: one for each node of the destination type, of nodes of the source type. Their
    /// [`original_ids`](Csc::original_ids) are not read: those of the types count.
    pub lists: GraphView<'g>,
    /// The times of its entries; `None` if these have none.
    pub times: Option<SortedTimes<'g>>,
}

/// The times of a relation's entries.
#[derive(Clone, Copy, Debug)]
pub struct SortedTimes<'g> {
    /// The times. Those of edges are in the order of the *dataset's* `indices.npy`.
    pub times: EntryTimes<'g>,
    /// Whether the entries of each list are known to ascend by time, which rules of time require.
    pub sorted: bool,
}

impl<'g> SortedTimes<'g> {
    /// The times of a dataset's relation.
    fn of(dataset: &'g TypedDataset, relation: Relation) -> Option<Self> {
        let times = dataset.entry_times(relation)?;
        Some(Self { times, sorted: dataset.is_ordered_by_time(relation) })
    }
}

impl<'g> TypedView<'g> {
    /// The types and relations of a dataset, with the weights of edges that have some.
    ///
    /// # Panics
    /// For a hop set, which has no relations.
    #[must_use]
    pub fn of(dataset: &'g TypedDataset) -> Self {
        let types = dataset
            .metagraph()
            .types()
            .map(|of| TypeView { nodes: dataset.nodes_of(of), original_ids: dataset.original_ids_of(of) });
        let relations = dataset.metagraph().relations().map(|relation| RelationView {
            ends: RelationEnds::of(dataset.metagraph(), relation),
            lists: GraphView { weights: dataset.weights_of(relation), ..dataset.lists(relation).into() },
            times: SortedTimes::of(dataset, relation),
        });
        Self { types: types.collect(), relations: relations.collect() }
    }
}

impl<'g> From<GraphView<'g>> for TypedView<'g> {
    fn from(lists: GraphView<'g>) -> Self {
        let csc = &lists.csc;
        Self {
            types: vec![TypeView { nodes: csc.nodes(), original_ids: csc.original_ids }],
            relations: vec![RelationView { ends: RelationEnds::ONLY, lists, times: None }],
        }
    }
}

impl<'g> From<Csc<'g>> for TypedView<'g> {
    fn from(csc: Csc<'g>) -> Self {
        GraphView::from(csc).into()
    }
}

impl GraphView<'_> {
    /// The start of the list of `node`, which is in range, in the dataset's `indices.npy`.
    #[inline]
    pub(crate) fn begin_at_home(&self, node: usize) -> usize {
        match self.home {
            // An id that is not a node of the dataset has no list; readers check that.
            Some(home) => {
                let begin = usize::try_from(home.nodes[node]).ok().and_then(|id| home.indptr.get(id));
                begin.map_or(usize::MAX, |&begin| begin as usize)
            }
            None => self.csc.indptr[node] as usize,
        }
    }

    /// Whether there are as many weights as the dataset can have edges. A graph in another order may have a part of them.
    pub(crate) fn fits_weights(&self, weights: usize) -> bool {
        if self.home.is_some() { weights >= self.csc.edges() } else { weights == self.csc.edges() }
    }

    pub(crate) fn check_home(&self) -> Result<(), InvalidOption> {
        match self.home {
            Some(home) if home.nodes.len() != self.csc.nodes() => {
                Err(InvalidOption::OriginalIds { given: home.nodes.len(), nodes: self.csc.nodes() })
            }
            _ => Ok(()),
        }
    }
}
