//! The graph by original ids, with lists in both directions.

use uva_graph::{Csc, Dataset, GraphError, Progress, Split};

use crate::graphs::counts::InLists;

/// Nodes between two reports of progress.
const STEP: usize = 1 << 20;

/// Lists of a graph by original ids, whatever the order of the dataset. So results cannot depend on that order.
pub(crate) struct OriginalGraph<'g> {
    csc: Csc<'g>,
    /// The dataset's id of each node; `None` if it is the original id.
    places: Option<Vec<u32>>,
    /// The end of each node's out-list in `out`.
    out_ends: Vec<u64>,
    /// For each node, the nodes whose lists contain it, ascending, once per entry.
    out: Vec<u32>,
    trains: Vec<bool>,
    train: Vec<u32>,
}

impl<'g> OriginalGraph<'g> {
    /// The graph of a dataset of at most 2³² − 1 nodes. It uses 9 bytes per node (13 for a reordered dataset) and 4 per
    /// edge.
    ///
    /// # Errors
    /// If an edge is wrong, or an original id is beyond the nodes: then the dataset is a part of another.
    pub(crate) fn of(
        dataset: &'g Dataset,
        progress: &dyn Fn(Progress),
    ) -> Result<OriginalGraph<'g>, GraphError> {
        // Entries become indices below, and a stamp may be older than the files.
        dataset.check_edges()?;
        let csc = dataset.csc();
        let nodes = csc.nodes();
        let places = csc.original_ids.map(inverse).transpose()?;
        let original = |id: i64| csc.original_ids.map_or(id, |ids| ids[id as usize]) as u32;
        let train: Vec<u32> = dataset.split(Split::Train).iter().map(|&id| original(id)).collect();
        let mut trains = vec![false; nodes];
        train.iter().for_each(|&node| trains[node as usize] = true);
        let mut graph =
            OriginalGraph { csc, places, out_ends: vec![0; nodes], out: Vec::new(), trains, train };
        graph.turn(progress);
        Ok(graph)
    }

    /// Fills the out-lists.
    fn turn(&mut self, progress: &dyn Fn(Progress)) {
        let nodes = self.nodes();
        let mut ends = vec![0_u64; nodes];
        let report = |done: usize| {
            if done.is_multiple_of(STEP) {
                progress(Progress { stage: "lists", done: done as u64, total: 2 * nodes as u64 });
            }
        };
        for node in 0..nodes {
            report(node);
            self.in_list(node as u32).for_each(|neighbour| ends[neighbour as usize] += 1);
        }
        // The beginning of each list, which becomes its end as entries are added.
        let mut begin = 0;
        for end in &mut ends {
            begin += std::mem::replace(end, begin);
        }
        let mut out = vec![0; self.csc.edges()];
        for node in 0..nodes {
            report(nodes + node);
            for neighbour in self.in_list(node as u32) {
                let place = &mut ends[neighbour as usize];
                out[*place as usize] = node as u32;
                *place += 1;
            }
        }
        self.out_ends = ends;
        self.out = out;
    }

    /// Number of nodes.
    pub(crate) fn nodes(&self) -> usize {
        self.csc.nodes()
    }

    /// Entries of all lists.
    pub(crate) fn entries(&self) -> u64 {
        self.csc.edges() as u64
    }

    /// Whether a node is in the training split.
    pub(crate) fn trains(&self, node: u32) -> bool {
        self.trains[node as usize]
    }

    /// The training nodes, in the order of the file.
    pub(crate) fn train(&self) -> &[u32] {
        &self.train
    }

    /// The entries of a node's list.
    #[inline]
    pub(crate) fn in_list(&self, node: u32) -> impl Iterator<Item = u32> + '_ {
        let place = self.places.as_ref().map_or(node as usize, |places| places[node as usize] as usize);
        let entries = self.csc.indptr[place] as usize..self.csc.indptr[place + 1] as usize;
        let (indices, ids) = (self.csc.indices, self.csc.original_ids);
        entries.map(move |entry| {
            let id = indices.get(entry);
            ids.map_or(id, |ids| ids[id as usize]) as u32
        })
    }

    /// The nodes whose lists contain the node.
    #[inline]
    pub(crate) fn out_list(&self, node: u32) -> &[u32] {
        let node = node as usize;
        let begin = if node == 0 { 0 } else { self.out_ends[node - 1] };
        &self.out[begin as usize..self.out_ends[node] as usize]
    }

    /// The in-list, followed by the out-list.
    #[inline]
    pub(crate) fn neighbours(&self, node: u32) -> impl Iterator<Item = u32> + '_ {
        self.in_list(node).chain(self.out_list(node).iter().copied())
    }
}

impl InLists for OriginalGraph<'_> {
    fn in_list(&self, node: usize) -> impl Iterator<Item = usize> {
        // Not truncated: larger graphs are refused.
        OriginalGraph::in_list(self, node as u32).map(|neighbour| neighbour as usize)
    }
}

/// The position of each original id.
fn inverse(ids: &[i64]) -> Result<Vec<u32>, GraphError> {
    let mut places = vec![0; ids.len()];
    for (place, &id) in (0..).zip(ids) {
        let place_of = usize::try_from(id).ok().and_then(|id| places.get_mut(id));
        *place_of.ok_or_else(|| {
            let message = format!(
                "node {place} has the original id {id}, and there are {} nodes: this is a part of another dataset, \
                 and is not divided again",
                ids.len()
            );
            GraphError::usage("DATA", message)
        })? = place;
    }
    Ok(places)
}
