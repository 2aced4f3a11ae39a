//! The graph of samplers: the dataset's own, or one in the order of the list cache.

use uva_graph::reorder::{ReorderedLayout, ReorderedView};
use uva_graph::{Csc, Dataset, NodeType, Split};
use uva_sample::{GraphView, OriginalEdges, SampleError, TypedView};

use super::caches::Caches;
use crate::RuntimeError;

/// The graph that a sampler works on, and the mapping from its node ids to the dataset's.
#[derive(Debug)]
pub(crate) struct SampledGraph<'a> {
    dataset: &'a Dataset,
    reordered: Option<ReorderedView<'a>>,
}

impl<'a> SampledGraph<'a> {
    /// The dataset's own graph, or the reordered one in `reordered`, which was filled for this dataset.
    ///
    /// # Errors
    /// [`RuntimeError::Failed`] if `reordered` has the wrong size.
    pub fn new(dataset: &'a Dataset, reordered: Option<&'a [u8]>) -> Result<Self, RuntimeError> {
        let Some(bytes) = reordered else { return Ok(Self { dataset, reordered: None }) };
        let layout = ReorderedLayout::new(dataset);
        if bytes.len() != layout.bytes() {
            return Err(RuntimeError::failed(format!(
                "the reordered graph has {} bytes, but {} are required: the dataset has changed during the run",
                bytes.len(),
                layout.bytes()
            )));
        }
        Ok(Self { dataset, reordered: Some(layout.view(bytes)?) })
    }

    /// The graph.
    pub fn csc(&self) -> Csc<'a> {
        self.reordered.as_ref().map_or_else(|| self.dataset.csc(), |view| view.csc)
    }

    /// The graph in the form for samplers on the CPU, with no list counted as cached. Weights and edges are the
    /// dataset's.
    pub fn view(&self) -> GraphView<'a> {
        let home = |view: &ReorderedView<'a>| OriginalEdges {
            indptr: self.dataset.csc().indptr,
            nodes: view.to_dataset,
        };
        GraphView {
            weights: self.dataset.weights(),
            home: self.reordered.as_ref().map(home),
            ..self.csc().into()
        }
    }

    /// The graph in the form for samplers on the CPU, with the lists of `caches` counted as cached.
    pub fn view_of(&self, caches: &Caches) -> GraphView<'a> {
        GraphView { cached_lists: caches.lists, cached_weights: caches.list_weights, ..self.view() }
    }

    /// The types and relations in the form for samplers on the CPU, with the lists of `caches` counted as cached.
    pub fn types_of(&self, caches: &Caches) -> TypedView<'a> {
        let own = self.reordered.as_ref().map(|_| self.view_of(caches).into());
        let mut types = own.unwrap_or_else(|| TypedView::of(self.dataset));
        // Only lists of a homogeneous graph are cached.
        for relation in &mut types.relations {
            (relation.lists.cached_lists, relation.lists.cached_weights) =
                (caches.lists, caches.list_weights);
        }
        types
    }

    /// The seeds of a split of each type that has some, in the order of their file, by their ids in [`Self::csc`].
    pub fn seeds(&self, split: Split) -> Vec<(NodeType, &'a [i64])> {
        match &self.reordered {
            // Only a graph of one type is reordered.
            Some(view) => vec![(NodeType::ONLY, view.split(split))],
            None => self.dataset.seeds(split),
        }
    }

    /// The nodes of a split, in the order of its file, by their ids in [`Self::csc`].
    pub fn split(&self, split: Split) -> &'a [i64] {
        self.reordered.as_ref().map_or_else(|| self.dataset.split(split), |view| view.split(split))
    }

    /// The dataset's id of each node of [`Self::csc`]; `None` if they are equal.
    pub fn dataset_ids(&self) -> Option<&'a [i64]> {
        self.reordered.as_ref().map(|view| view.to_dataset)
    }

    /// Converts ids of [`Self::csc`] to the dataset's, in place.
    pub fn to_dataset_ids(&self, nodes: &mut [i64]) {
        if let Some(view) = &self.reordered {
            for node in nodes {
                *node = view.to_dataset[*node as usize];
            }
        }
    }

    /// Translates the error to the dataset's ids, which a user can look up.
    pub fn in_dataset_ids(&self, mut error: SampleError) -> SampleError {
        let Some(view) = &self.reordered else { return error };
        if let SampleError::InvalidList { node, .. } | SampleError::SeedOutOfRange { seed: node, .. } =
            &mut error
            && let Some(id) = usize::try_from(*node).ok().and_then(|place| view.to_dataset.get(place))
        {
            *node = *id;
        }
        error
    }
}
